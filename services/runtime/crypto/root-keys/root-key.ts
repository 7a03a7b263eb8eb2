import { isInfrastructure } from '../../platform/errors.ts'
import type { CounterLabels, Metrics } from '../../platform/metrics.ts'

/** What an organization key belongs to. Neither field is empty, and neither is secret. */
export type KeyContext = { readonly purpose: string, readonly organization: string }

/**
 * One root key, wherever it is. Rejects with a SealError for changed bytes or another context, and
 * with an InfrastructureError while the key cannot be used.
 */
export type RootKey = {
  readonly encrypt: (plain: Buffer, context: KeyContext) => Promise<Buffer>
  readonly decrypt: (ciphertext: Buffer, context: KeyContext) => Promise<Buffer>
}

/** A root key of the configuration: `where` is the key itself for a local one. */
export type RootKeyEntry = {
  readonly id: string
  readonly where: string
  /** The name of the setting, for errors. */
  readonly setting: string
}

/** What a provider is asked to do. */
export type RootKeyAction = 'encrypt' | 'decrypt'

/**
 * How errors name a key that a provider keeps: setting, id and where it is. None of them is secret
 * then.
 */
export function nameOfRootKey ({ setting, id, where }: RootKeyEntry): string {
  return `${setting}: key "${id}" (${where})`
}

type CallLabels = CounterLabels<'root_key_calls_total'>

/** What keeps root keys. */
export type RootKeyProvider = CallLabels['provider']

/** Where the calls of a provider are counted and timed. */
export type RootKeyMetrics = Pick<Metrics, 'count' | 'observe'>

/**
 * Counts and times the calls of a key that a provider keeps. `failed` are those that may be
 * repeated: the provider is unavailable, throttles or denies access. `invalid` are those that it
 * answered and whose bytes, context or key do not match.
 */
export function measureCalls (
  root: RootKey, provider: RootKeyProvider, metrics: RootKeyMetrics
): RootKey {
  const measured = (action: RootKeyAction): RootKey[RootKeyAction] => async (bytes, context) => {
    const startedAt = performance.now()
    // The purpose of an organization's key is its class.
    const keyClass = context.purpose as CallLabels['class']
    const end = (outcome: CallLabels['outcome']) => {
      metrics.count('root_key_calls_total', { class: keyClass, provider, action, outcome })
      metrics.observe('root_key_call_seconds', { provider, action },
        (performance.now() - startedAt) / 1_000)
    }
    try {
      const result = await root[action](bytes, context)
      end('ok')
      return result
    } catch (error) {
      end(isInfrastructure(error) ? 'failed' : 'invalid')
      throw error
    }
  }
  return { encrypt: measured('encrypt'), decrypt: measured('decrypt') }
}
