/** The five addresses of the infrastructure, under the names services read them by. */
const ADDRESS_NAMES = [
  'KAFKA_BROKERS', 'SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL', 'REDIS_CACHE_URL', 'CLICKHOUSE_URL',
] as const

export type Addresses = Readonly<Record<typeof ADDRESS_NAMES[number], string>>

/** Where the infrastructure comes from. */
export type Source =
  | { readonly kind: 'given', readonly addresses: Addresses }
  | { readonly kind: 'containers' | 'embedded' }

/**
 * Given addresses, or else what `STACK_SOURCE` says: `containers`, or `embedded`, the default. Some
 * addresses without the others is a mistake that would mix two stacks, so it is an error.
 */
export function chooseSource (env: Readonly<Record<string, string | undefined>>): Source {
  const missing = ADDRESS_NAMES.filter((name) => !env[name])
  if (missing.length === 0) {
    const addresses = Object.fromEntries(ADDRESS_NAMES.map((name) => [name, env[name]]))
    return { kind: 'given', addresses: addresses as Addresses }
  }
  if (missing.length < ADDRESS_NAMES.length) {
    throw new Error(`Some addresses of the stack are given but not ${missing.join(', ')}. ` +
      'Give all five, or none to have a stack started.')
  }
  const kind = env.STACK_SOURCE || 'embedded'
  if (kind === 'containers' || kind === 'embedded') return { kind }
  throw new Error(`STACK_SOURCE is "${kind}"; it can be containers or embedded`)
}
