import { readFileSync } from 'node:fs'

type Operation = {
  readonly responses: Readonly<Record<number, { readonly description: string }>>
}
type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>

const { paths } = JSON.parse(readFileSync(
  new URL('../../schemas/api/openapi.json', import.meta.url), 'utf8')) as { readonly paths: Paths }
const templates = Object.entries(paths).map(([path, operations]) =>
  ({ operations, pattern: new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`) }))

/**
 * Throws if the document of the interface does not name the code of this error among those of its
 * operation. Clients branch by it, and a route lists its own codes by hand.
 */
export function requireDocumented (
  method: string, path: string,
  { status, code }: { readonly status: number, readonly code?: string }
): void {
  const operation = templates.find(({ pattern }) => pattern.test(path))?.operations[
    method.toLowerCase()]
  if (code === undefined || status < 400 || operation === undefined) return
  if (operation.responses[status]?.description.includes(`\`${code}\``) === true) return
  throw new Error(`${method} ${path} is answered with ${status} ${code}, which the document does ` +
    'not name: add it to `errors` of its route')
}
