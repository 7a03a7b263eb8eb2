import { hash } from 'node:crypto'
import type { Cluster, Redis } from 'ioredis'
import type { MailDomain } from './mail-domains.ts'

/** The result of a domain, and the milliseconds for which it is used. */
export type SharedDomain = { readonly kind: MailDomain, readonly ttlMs: number }

/** Results of mail domains that all processes of `verify` use. Never rejects. */
export type SharedDomains = {
  /** Undefined for a domain without a result, or while the store is unavailable. */
  readonly read: (domain: string) => Promise<SharedDomain | undefined>
  readonly write: (domain: string, result: SharedDomain) => Promise<void>
}

const KINDS = ['accepts', 'implicit', 'refuses', 'missing'] as const satisfies MailDomain[]

/**
 * Results of mail domains in the cache Redis: a string per domain with its kind, which expires. The
 * name of the key is a digest, so that Redis has no part of a contact in clear. `onFault` gets the
 * errors of Redis, for logs; without Redis each process queries DNS itself.
 */
export function redisSharedDomains (
  redis: Redis | Cluster, { onFault }: { readonly onFault: (error: unknown) => void }
): SharedDomains {
  return {
    read: async (domain) => {
      const key = keyOf(domain)
      try {
        const [text, ttlMs] = await Promise.all([redis.get(key), redis.pttl(key)])
        const kind = KINDS.find((one) => one === text)
        return kind === undefined || ttlMs <= 0 ? undefined : { kind, ttlMs }
      } catch (error) {
        onFault(error)
        return undefined
      }
    },
    write: async (domain, { kind, ttlMs }) => {
      try {
        await redis.set(keyOf(domain), kind, 'PX', ttlMs)
      } catch (error) {
        onFault(error)
      }
    },
  }
}

function keyOf (domain: string): string {
  return `mail-domain:${hash('sha256', domain, 'base64url')}`
}
