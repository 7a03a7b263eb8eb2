import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/** The five addresses of the infrastructure, under the names services read them by. */
export const ADDRESS_NAMES = [
  'KAFKA_BROKERS', 'SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL', 'REDIS_CACHE_URL', 'CLICKHOUSE_URL',
] as const

export type Addresses = Readonly<Record<typeof ADDRESS_NAMES[number], string>>

/** Where the infrastructure comes from. */
export type Source =
  | { readonly kind: 'given', readonly addresses: Addresses }
  | { readonly kind: 'containers' }
  | { readonly kind: 'embedded' }

/**
 * Given addresses win, then a container engine, then the embedded parts. `STACK_SOURCE` set to
 * `containers` or `embedded` chooses by hand. Some addresses without the others is a mistake that
 * would mix two stacks, so it is an error.
 */
export async function chooseSource (
  env: Readonly<Record<string, string | undefined>>,
  containerEngineAnswers: () => Promise<boolean>
): Promise<Source> {
  const missing = ADDRESS_NAMES.filter((name) => !env[name])
  if (missing.length === 0) return { kind: 'given', addresses: addressesFrom(env) }
  if (missing.length < ADDRESS_NAMES.length) {
    throw new Error(`Some addresses of the stack are given but not ${missing.join(', ')}. ` +
      'Give all five, or none to have a stack started.')
  }
  const wanted = env.STACK_SOURCE
  if (wanted === 'containers' || wanted === 'embedded') return { kind: wanted }
  if (wanted) throw new Error(`STACK_SOURCE is "${wanted}"; it can be containers or embedded`)
  return { kind: await containerEngineAnswers() ? 'containers' : 'embedded' }
}

/** True when `docker info` reaches an engine. */
export async function dockerAnswers (): Promise<boolean> {
  return await promisify(execFile)('docker', ['info'], { timeout: 5_000 })
    .then(() => true, () => false)
}

function addressesFrom (env: Readonly<Record<string, string | undefined>>): Addresses {
  return Object.fromEntries(ADDRESS_NAMES.map((name) => [name, env[name]])) as Addresses
}
