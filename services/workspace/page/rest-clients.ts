import type { Redis } from 'ioredis'
import { hashOf, newSecret } from '../../accounts/key-format.ts'
import { SCOPES } from '../../accounts/key-store.ts'
import { tenantOf, type Mode } from '../../accounts/tenant.ts'
import { createClient, type Client } from '../../client/client.ts'

/** Whose data a page shows. */
export type Tenant = { readonly orgId: string, readonly mode: Mode }

export type RestClients = ReturnType<typeof createRestClients>

type Options = {
  readonly redis: Redis
  /** Where the REST interface answers, ending in `/api/v1`. */
  readonly apiUrl: string
  readonly now?: () => number
}
type Held = { readonly hash: string, readonly client: Client, readonly renewAtMs: number }

const KEY_MS = 600_000
/** Renewed well before its end, so that none ends under a request. */
const RENEW_BEFORE_MS = 180_000
const TIMEOUT_MS = 45_000

/**
 * Clients of the REST interface for the server of the page. Each works with a key of its own that
 * ends after ten minutes, is in no list of the organization's keys and never leaves this process.
 */
export function createRestClients ({ redis, apiUrl, now = Date.now }: Options) {
  const held = new Map<string, Promise<Held>>()

  async function make (tenant: Tenant): Promise<Held> {
    const secret = newSecret(tenant.mode)
    const hash = hashOf(secret)
    await redis.hset(`key:${hash}`, fieldsOf(tenant, secret, now()))
    await redis.pexpire(`key:${hash}`, KEY_MS)
    const client = createClient({
      baseUrl: apiUrl, apiKey: secret, retries: 2, timeoutMs: TIMEOUT_MS, fetch: overHttps,
    })
    return { hash, client, renewAtMs: now() + KEY_MS - RENEW_BEFORE_MS }
  }

  function renew (name: string, tenant: Tenant): Promise<Held> {
    const made = make(tenant)
    held.set(name, made)
    made.catch(() => held.delete(name))
    return made
  }

  return {
    async of (tenant: Tenant): Promise<Client> {
      const name = tenantOf(tenant.orgId, tenant.mode)
      const known = await held.get(name)
      if (known !== undefined && known.renewAtMs > now()) return known.client
      return (await renew(name, tenant)).client
    },

    /** The next request takes a new key: this one is not known any more. */
    forget (tenant: Tenant): void {
      held.delete(tenantOf(tenant.orgId, tenant.mode))
    },

    /** Ends all keys. */
    async close (): Promise<void> {
      const all = await Promise.allSettled(held.values())
      const hashes = all.flatMap(one => one.status === 'fulfilled' ? [one.value.hash] : [])
      await Promise.all(hashes.map(hash => redis.del(`key:${hash}`)))
    },
  }
}

/**
 * Whoever is at the page came over HTTPS or from this machine, which the interface believes where
 * the page is one of its trusted proxies.
 */
const overHttps: typeof fetch = (input, init) => fetch(input, {
  ...init, headers: { ...init?.headers, 'x-forwarded-proto': 'https' },
})

function fieldsOf ({ orgId, mode }: Tenant, secret: string, nowMs: number) {
  return {
    org: orgId,
    mode,
    scopes: SCOPES.join(' '),
    last4: secret.slice(-4),
    createdAt: String(nowMs),
    expiresAt: String(nowMs + KEY_MS),
  }
}
