import { type createCodec, ownSchemas } from '../../../services/runtime/kafka/registry.ts'

/** The local schemas in place of a registry, with ids from 1 in the order of the files. */
export function localSource (): Parameters<typeof createCodec>[0] {
  const schemas = [...ownSchemas()]
  return {
    findId: async subject => schemas.findIndex(([own]) => own === subject) + 1,
    readSchema: async id => schemas[id - 1]![1].type,
  }
}
