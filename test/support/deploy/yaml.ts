import { parseAllDocuments } from 'yaml'

/** Documents of a YAML text; merge keys (`<<`) are applied. */
export function yamlOf (text: string): readonly unknown[] {
  return parseAllDocuments(text, { merge: true }).map(document => {
    const [error] = document.errors
    if (error !== undefined) throw error
    return document.toJS({ maxAliasCount: -1 }) as unknown
  })
}
