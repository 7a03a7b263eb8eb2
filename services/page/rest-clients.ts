import { hashSecret, newApiKey, DEFAULT_SCOPES, WORKSPACE_KEY } from '../accounts/api-keys.ts'
import { accountKey } from '../accounts/records.ts'
import { tenantOf, type Mode } from '../accounts/tenant.ts'
import { createClient, type Client } from '../client/client.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'

/** The tenant whose data a page shows. */
export type Tenant = { readonly orgId: string, readonly mode: Mode }

export type RestClients = ReturnType<typeof createRestClients>

type Options = {
  readonly redis: RedisClient
  /** The base URL of the REST interface, ending in `/api/v1`. */
  readonly apiUrl: string
  readonly now?: () => number
}
type Connected = { readonly hash: string, readonly client: Client }
type CachedClient = { readonly connected: Promise<Connected>, readonly renewAtMs: number }

const recordName = (hash: string) => accountKey(`key:${hash}`)
const KEY_MS = 600_000
/** Renews a key long before its end, so that it stays valid for the whole of a request. */
const RENEW_BEFORE_MS = 180_000
const TIMEOUT_MS = 45_000

/**
 * REST clients of the page's server, one per tenant. Each has its own API key, which expires after
 * ten minutes, is not in the organization's list of keys, and never leaves this process.
 */
export function createRestClients ({ redis, apiUrl, now = Date.now }: Options) {
  const clients = new Map<string, CachedClient>()

  async function create (tenant: Tenant): Promise<Connected> {
    const secret = newApiKey(tenant.mode)
    const hash = hashSecret(secret)
    await redis.hset(recordName(hash), toFields(tenant, secret, now()))
    await redis.pexpire(recordName(hash), KEY_MS)
    const client = createClient({
      baseUrl: apiUrl,
      apiKey: secret,
      retries: 2,
      timeoutMs: TIMEOUT_MS,
      fetch: async (input, init) => {
        const response = await overHttps(input, init)
        // Redis has lost the key: the next request creates a new one.
        if (response.status === 401) clients.delete(tenantOf(tenant.orgId, tenant.mode))
        return response
      },
    })
    return { hash, client }
  }

  return {
    async of (tenant: Tenant): Promise<Client> {
      const name = tenantOf(tenant.orgId, tenant.mode)
      const cached = clients.get(name)
      if (cached !== undefined && cached.renewAtMs > now()) return (await cached.connected).client
      // Cached from its start, so that requests meanwhile wait for the same key.
      const connected = create(tenant)
      clients.set(name, { connected, renewAtMs: now() + KEY_MS - RENEW_BEFORE_MS })
      connected.catch(() => clients.delete(name))
      return (await connected).client
    },

    /** Deletes all keys. */
    async close (): Promise<void> {
      const all = await Promise.allSettled([...clients.values()].map(({ connected }) => connected))
      const hashes = all.flatMap(result => result.status === 'fulfilled' ? [result.value.hash] : [])
      await Promise.all(hashes.map(hash => redis.del(recordName(hash))))
    },
  }
}

/**
 * Users reach the page over HTTPS or from this machine. The REST interface trusts this header if
 * the page is one of its trusted proxies.
 */
const overHttps: typeof fetch = (input, init) => fetch(input, {
  ...init, headers: { ...init?.headers, 'x-forwarded-proto': 'https' },
})

function toFields ({ orgId, mode }: Tenant, secret: string, nowMs: number) {
  return {
    id: WORKSPACE_KEY,
    org: orgId,
    mode,
    scopes: DEFAULT_SCOPES.join(' '),
    last4: secret.slice(-4),
    createdAt: String(nowMs),
    expiresAt: String(nowMs + KEY_MS),
  }
}
