import type { CacheScope } from '../records/cache.ts'

/** The commands used of a Redis client. */
export type LeaseCommands = {
  set (key: string, value: string, unit: 'PX', ms: number, when: 'NX', and: 'GET'):
  Promise<string | null>
  unlink (keys: string[]): Promise<number>
}

export type Leases = {
  /** For each token whether the contact is now `owner`'s to check. */
  readonly take: (scope: CacheScope, tokens: readonly Buffer[], owner: string) =>
  Promise<readonly boolean[]>
  /** Lets others go on; only for tokens that were taken. */
  readonly release: (scope: CacheScope, tokens: readonly Buffer[]) => Promise<void>
}

/**
 * Leases `l:{tenant}:<service>:<token>` in the cache's Redis keep two jobs of a tenant from buying
 * the same check at the same time. The owner is the job, in which a contact stands only once, so a
 * part that is delivered again finds its own leases still its own. A lease saves money and protects
 * nothing: when Redis cannot be used, every contact is the caller's to check.
 */
export function createLeases (
  redis: LeaseCommands,
  { leaseMs, onFault = () => {} }: { leaseMs: number, onFault?: (error: unknown) => void }
): Leases {
  const takeOne = async (key: string, owner: string): Promise<boolean> => {
    try {
      const holder = await redis.set(key, owner, 'PX', leaseMs, 'NX', 'GET')
      return holder === null || holder === owner
    } catch (error) {
      onFault(error)
      return true
    }
  }
  return {
    take: (scope, tokens, owner) =>
      Promise.all(tokens.map((token) => takeOne(keyOf(scope, token), owner))),
    release: async (scope, tokens) => {
      if (tokens.length === 0) return
      try {
        await redis.unlink(tokens.map((token) => keyOf(scope, token)))
      } catch (error) {
        onFault(error)
      }
    },
  }
}

function keyOf ({ tenant, service }: CacheScope, token: Buffer): string {
  return `l:{${tenant}}:${service}:${token.toString('base64url')}`
}
