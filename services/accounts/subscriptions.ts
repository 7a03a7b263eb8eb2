import type { Redis } from 'ioredis'
import { LRUCache } from 'lru-cache'
import { EVENT_TYPES, type EventType } from '../../schemas/api/event.ts'
import { createAccountRecords, type AccountRecord } from './records.ts'
import { partsOf, type Mode } from './tenant.ts'

/** The event types that an enabled webhook endpoint receives. */
export type EventSubscription = { readonly endpoint: string, readonly events: readonly EventType[] }

export type Subscriptions = ReturnType<typeof createSubscriptions>

const CACHE_MS = 1_000
const CACHED_TENANTS = 10_000

/**
 * Field of `org:<id>`: the subscriptions of a mode, as JSON. They are no secrets, so stages read
 * them without the key ring.
 */
export const subscriptionsField = (mode: Mode) => `${mode}Subscriptions`

/** The subscriptions in a stored field; none for an absent one. */
export function subscriptionsIn (text: string | null | undefined): readonly EventSubscription[] {
  if (!text) return []
  const found = JSON.parse(text) as readonly EventSubscription[]
  // A newer release may have written types that this one does not know.
  return found.map(({ endpoint, events }) =>
    ({ endpoint, events: EVENT_TYPES.filter(type => events.includes(type)) }))
}

/**
 * The subscriptions of each tenant, at most a second old.
 * @throws AccountsRecoveringError while a change of the organization may be missing in Redis.
 */
export function createSubscriptions (redis: Redis, now: () => number = Date.now) {
  const records = createAccountRecords(redis)
  type Cached = { readonly readAtMs: number, readonly record: AccountRecord | undefined }
  const known = new LRUCache<string, Cached>({ max: CACHED_TENANTS })
  return async (tenant: string): Promise<readonly EventSubscription[]> => {
    const { orgId, mode } = partsOf(tenant)
    let cached = known.get(orgId)
    if (cached === undefined || now() - cached.readAtMs >= CACHE_MS) {
      cached = { readAtMs: now(), record: await records.readCurrent(`org:${orgId}`) }
      known.set(orgId, cached)
    }
    return subscriptionsIn(cached.record?.fields[subscriptionsField(mode)])
  }
}
