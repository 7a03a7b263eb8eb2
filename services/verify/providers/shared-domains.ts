import { hash } from 'node:crypto'
import type { Cluster, Redis } from 'ioredis'
import type { MailDomain, SharedDomains } from './mail-domains.ts'

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
