import { type createCodec, ownSchemas } from '../../../services/runtime/kafka/registry.ts'

/** The local schemas in place of a registry, with ids from 1 in the order of the files. */
export function localSource (): Parameters<typeof createCodec>[0] {
  const schemas = [...ownSchemas().values()]
  return {
    idOf: async subject => schemas.findIndex(schema => schema.subject === subject) + 1,
    schemaOf: async id => schemas[id - 1]!.type,
  }
}
