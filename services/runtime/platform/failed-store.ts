const STORES = {
  REDIS_STATE_URL: 'The state Redis',
  REDIS_CACHE_URL: 'The cache Redis',
  CLICKHOUSE_URL: 'ClickHouse',
  KAFKA_BROKERS: 'Kafka',
  SCHEMA_REGISTRY_URL: 'The schema registry',
} as const

/** The setting that has the address of a store. */
export type StoreSetting = keyof typeof STORES

/** The hosts, after the credentials, of a URL with several hosts, which is not a valid one. */
const HOSTS = /^[\w+-]+:\/\/(?:.*@)?([^@/?#]+)/

/**
 * A store in words: `ClickHouse (CLICKHOUSE_URL, 127.0.0.1:8123)`. Of its URL only hosts and ports
 * are shown, as user, password and query may be secret.
 */
export function storeText (setting: StoreSetting, url: string): string {
  const address = URL.parse(url)?.host ?? HOSTS.exec(url)?.[1] ?? ''
  return `${STORES[setting]} (${[setting, address].filter(Boolean).join(', ')})`
}

const stores = new WeakMap<object, string>()

/** Records the store, in words, that an error comes from: errors of libraries do not name it. */
export function markFailed (error: unknown, store: string): void {
  if (typeof error === 'object' && error !== null) stores.set(error, store)
}

/** Handles a rejection of a store: records the store and throws the same error. */
export const failedAt = (store: string) => (error: unknown): never => {
  markFailed(error, store)
  throw error
}

const CAUSES_DEPTH = 5

/** The store that an error or one of its causes comes from, in words, if it was recorded. */
export function failedStoreOf (error: unknown, depth = CAUSES_DEPTH): string | undefined {
  if (!(error instanceof Error) || depth === 0) return undefined
  const inner: readonly unknown[] = error instanceof AggregateError ? error.errors : []
  return stores.get(error) ?? [error.cause, ...inner]
    .map(one => failedStoreOf(one, depth - 1)).find(store => store !== undefined)
}
