import type { Redis } from 'ioredis'

/** A key of Redis with all it holds; hashes as pairs. */
type Kept =
  | { readonly key: string, readonly type: 'string', readonly value: string }
  | { readonly key: string, readonly type: 'list' | 'set', readonly value: readonly string[] }
  | {
    readonly key: string
    readonly type: 'hash'
    readonly value: Readonly<Record<string, string>>
  }

/**
 * Who may use the service, as it is stored: API keys are hashes of their secrets, secrets of
 * webhooks and partners are sealed by the key ring, so a copy gives nobody access.
 */
export type AccountsFile = { readonly version: 1, readonly kept: readonly Kept[] }

export type AccountsBackup = {
  readonly read: () => Promise<AccountsFile>
  /** Writes what is missing, and overwrites nothing; returns how many keys of Redis were. */
  readonly write: (file: AccountsFile) => Promise<number>
}

const PATTERNS = ['org:*', 'key:*', 'partner:*', 'partners', 'tenants'] as const
const KEYS_A_SCAN = 500

/** Copies organizations, API keys and partners: the only state that no topic has. */
export function createAccountsBackup (redis: Redis): AccountsBackup {
  return {
    read: async () => {
      const kept: Kept[] = []
      for (const pattern of PATTERNS) {
        for await (const keys of redis.scanStream({ match: pattern, count: KEYS_A_SCAN })) {
          for (const key of new Set(keys as string[])) kept.push(...await keptOf(redis, key))
        }
      }
      return { version: 1, kept: [...new Map(kept.map(one => [one.key, one])).values()] }
    },
    write: async ({ kept }) => {
      let written = 0
      for (const one of kept) if (await putBack(redis, one)) written += 1
      return written
    },
  }
}

async function keptOf (redis: Redis, key: string): Promise<readonly Kept[]> {
  const type = await redis.type(key)
  switch (type) {
    case 'string': return [{ key, type, value: await redis.get(key) ?? '' }]
    case 'hash': return [{ key, type, value: await redis.hgetall(key) }]
    case 'list': return [{ key, type, value: await redis.lrange(key, 0, -1) }]
    case 'set': return [{ key, type, value: (await redis.smembers(key)).toSorted() }]
    default: return []
  }
}

/** Sets are joined: each member stands for itself. */
async function putBack (redis: Redis, one: Kept): Promise<boolean> {
  const { key } = one
  if (one.type === 'set') return await redis.sadd(key, ...one.value) > 0
  if (await redis.exists(key) === 1) return false
  if (one.type === 'string') await redis.set(key, one.value, 'NX')
  else if (one.type === 'hash') await redis.hset(key, one.value)
  else await redis.rpush(key, ...one.value)
  return true
}
