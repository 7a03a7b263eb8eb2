import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/** The five addresses of the infrastructure, under the names services read them by. */
const ADDRESS_NAMES = [
  'KAFKA_BROKERS', 'SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL', 'REDIS_CACHE_URL', 'CLICKHOUSE_URL',
] as const

export type Addresses = Readonly<Record<typeof ADDRESS_NAMES[number], string>>

/** Where the infrastructure comes from. */
export type Source =
  | { readonly kind: 'given', readonly addresses: Addresses }
  /** `isRequired`: chosen by STACK_SOURCE. If not, the embedded parts replace a failing engine. */
  | { readonly kind: 'containers', readonly isRequired: boolean }
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
  if (wanted === 'containers') return { kind: wanted, isRequired: true }
  if (wanted === 'embedded') return { kind: wanted }
  if (wanted) throw new Error(`STACK_SOURCE is "${wanted}"; it can be containers or embedded`)
  const answers = await containerEngineAnswers()
  return answers ? { kind: 'containers', isRequired: false } : { kind: 'embedded' }
}

/**
 * Starts containers. If the engine cannot, for example because it reaches no image registry, and
 * containers are not required, says so and returns undefined.
 */
export async function startIfPossible<T> (
  { isRequired, say }: {
    readonly isRequired: boolean, readonly say: (line: string) => void,
  },
  start: () => Promise<T>
): Promise<T | undefined> {
  try {
    return await start()
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    if (isRequired) {
      throw new Error(`the stack could not be started in containers: ${reason}. Check that the ` +
        'engine can pull images (docker pull redis:7.4-alpine), or unset STACK_SOURCE to use the ' +
        'embedded stack', { cause: error })
    }
    say(`the container engine answers but cannot start the stack: ${reason}`)
    say('using the embedded stack; STACK_SOURCE=embedded skips this attempt')
    return undefined
  }
}

/** True when `docker info` reaches an engine. */
export async function dockerAnswers (): Promise<boolean> {
  return await promisify(execFile)('docker', ['info'], { timeout: 5_000 })
    .then(() => true, () => false)
}

function addressesFrom (env: Readonly<Record<string, string | undefined>>): Addresses {
  return Object.fromEntries(ADDRESS_NAMES.map((name) => [name, env[name]])) as Addresses
}
