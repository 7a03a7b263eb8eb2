import { readFileSync } from 'node:fs'
import type { Redis } from 'ioredis'
import { script } from '../lib/redis.ts'
import type { CacheScope } from '../records/cache.ts'

/** What is asked of Redis: one command for all contacts of a part. */
export type LeaseCommands = {
  /** A digit a key, in order: 1 when the lease is the owner's now, 0 when it is another's. */
  readonly take: (keys: readonly string[], owner: string, leaseMs: number) => Promise<string>
  /** Ends the leases that are still the owner's. */
  readonly release: (keys: readonly string[], owner: string) => Promise<unknown>
}

export type Leases = {
  /** For each token whether the contact is now `owner`'s to check. */
  readonly take: (scope: CacheScope, tokens: readonly Buffer[], owner: string) =>
  Promise<readonly boolean[]>
  /** Lets others go on; a lease that ended meanwhile and is another's now is left alone. */
  readonly release: (scope: CacheScope, tokens: readonly Buffer[], owner: string) =>
  Promise<void>
}

const LEASE_LUA = new URL('./lease.lua', import.meta.url)
const RELEASE_LUA = new URL('./release.lua', import.meta.url)

/** The commands of leases on the cache's Redis; keys of one call are of one tenant and hash tag. */
export function leaseCommands (redis: Redis): LeaseCommands {
  const named = (name: string, file: URL) =>
    script(redis, { name, source: readFileSync(file, 'utf8'), numberOfKeys: 'any' })
  const take = named('lease', LEASE_LUA)
  const release = named('release', RELEASE_LUA)
  return {
    take: async (keys, owner, leaseMs) => await take(keys, [owner, leaseMs]) as string,
    release: (keys, owner) => release(keys, [owner]),
  }
}

/**
 * Leases `l:{tenant}:<service>:<token>` in the cache's Redis keep two jobs of a tenant from buying
 * the same check at the same time. The owner is the job, in which a contact stands only once, so a
 * part that is delivered again finds its own leases still its own. A lease saves money and protects
 * nothing: when Redis cannot be used, every contact is the caller's to check.
 */
export function createLeases (
  commands: LeaseCommands,
  { leaseMs, onFault = () => {} }: { leaseMs: number, onFault?: (error: unknown) => void }
): Leases {
  return {
    take: async (scope, tokens, owner) => {
      if (tokens.length === 0) return []
      try {
        const answer = await commands.take(keysOf(scope, tokens), owner, leaseMs)
        return tokens.map((_, index) => answer[index] === '1')
      } catch (error) {
        onFault(error)
        return tokens.map(() => true)
      }
    },
    release: async (scope, tokens, owner) => {
      if (tokens.length === 0) return
      try {
        await commands.release(keysOf(scope, tokens), owner)
      } catch (error) {
        onFault(error)
      }
    },
  }
}

function keysOf ({ tenant, service }: CacheScope, tokens: readonly Buffer[]): string[] {
  const start = `l:{${tenant}}:${service}:`
  return tokens.map((token) => start + token.toString('base64url'))
}
