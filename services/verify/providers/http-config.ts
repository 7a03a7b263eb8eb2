import type { TSchema } from 'typebox'
import { Errors } from 'typebox/value'
import { meaningFaults } from './http-config-meaning.ts'
import { AUTH, VENDOR, type HttpVendor } from './http-vendor.ts'

export type ReadVendors = {
  readonly providers: readonly HttpVendor[]
  /** In words, without any value, as values may be secret. */
  readonly faults: readonly string[]
}

/**
 * Reads the vendors of `HTTP_PROVIDERS`, whose form deploy/docs/providers.md describes, with all
 * their faults at once: first those of form, and for a vendor without such those of meaning.
 */
export function readHttpProviders (described: readonly unknown[]): ReadVendors {
  const faults: string[] = []
  const providers: HttpVendor[] = []
  for (const [index, value] of described.entries()) {
    const found = shapeFaults(value)
    const all = found.length > 0 ? found : meaningFaults(value as HttpVendor)
    faults.push(...all.map((fault) => `vendor ${index + 1}: ${fault}`))
    if (all.length === 0) providers.push(value as HttpVendor)
  }
  for (const id of repeated(described.map(idOf))) {
    faults.push(`the id ${id} stands more than once; give each vendor its own`)
  }
  return { providers, faults }
}

function shapeFaults (value: unknown): readonly string[] {
  const faults = faultsOf(VENDOR, value)
  const auth = (value as { auth?: { kind?: unknown } } | null)?.auth
  const kind = auth?.kind
  const schema = typeof kind === 'string' && Object.hasOwn(AUTH, kind)
    ? AUTH[kind as keyof typeof AUTH]
    : undefined
  const inAuth = schema === undefined ? [] : faultsOf(schema, auth)
  faults.push(...inAuth.map((fault) => `at auth: ${fault}`))
  return [...new Set(faults)]
}

type Fault = ReturnType<typeof Errors>[number]

/** What the form forbids is told by the object around it, so it is not told again. */
function faultsOf (schema: TSchema, value: unknown): string[] {
  return Errors(schema, value).filter(({ keyword }) => keyword !== 'boolean').map(inWords)
}

function inWords ({ instancePath, message, params }: Fault): string {
  const where = instancePath === '' ? '' : `at "${instancePath.slice(1)}" `
  if ('allowedValues' in params && Array.isArray(params.allowedValues)) {
    return `${where}must be one of ${params.allowedValues.join(', ')}`
  }
  const extra = 'additionalProperties' in params ? params.additionalProperties : undefined
  if (Array.isArray(extra)) return `${where}has ${extra.join(', ')}, which nothing reads`
  return where + message
}

function idOf (value: unknown): unknown {
  return typeof value === 'object' && value !== null && 'id' in value ? value.id : undefined
}

function repeated (ids: readonly unknown[]): readonly number[] {
  const numbers = ids.filter((id) => typeof id === 'number')
  return [...new Set(numbers.filter((id, index) => numbers.indexOf(id) !== index))]
}
