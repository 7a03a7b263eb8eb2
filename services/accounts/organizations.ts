import { LRUCache } from 'lru-cache'
import { EVENT_TYPES, type EventType } from '../../schemas/api/webhooks.ts'
import { ERASED_FIELD } from './organization-keys.ts'
import {
  type AccountRecords, ACCOUNTS_CACHE_MS, createAccountRecords, ORGANIZATION_TENANTS_KEY,
  organizationRecord,
} from './records.ts'
import { isSampleTenant, isTenant, type Mode, MODES, parseTenant } from './tenant.ts'
import { newId } from '../runtime/platform/ids.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'

export type Organization = {
  readonly id: string
  readonly name: string
  readonly createdAtMs: number
  readonly policy: Policy
  /** When it was erased, in Unix ms; absent unless it was. */
  readonly erasedAtMs?: number
}

/** The event types that an enabled webhook endpoint receives. */
export type EventSubscription = { readonly endpoint: string, readonly events: readonly EventType[] }

/**
 * Field of `org:<id>`: the subscriptions of a mode, as JSON. They are no secrets, so stages read
 * them without a key.
 */
export const subscriptionsField = (mode: Mode) => `${mode}Subscriptions`

/** The subscriptions in a stored field; none for an absent one. */
function subscriptionsIn (text: string | null | undefined): readonly EventSubscription[] {
  if (!text) return []
  const subscriptions = JSON.parse(text) as readonly EventSubscription[]
  // A newer release may have written types that this one does not know.
  return subscriptions.map(({ endpoint, events }) =>
    ({ endpoint, events: EVENT_TYPES.filter(type => events.includes(type)) }))
}

export type Organizations = ReturnType<typeof createOrganizations>

const CACHED_POLICIES = 10_000

/** A random id that begins with the time. */
export const newOrganizationId = (nowMs = Date.now()): string => newId('org', nowMs)

/** The organizations, kept in Redis as `org:<id>`. */
export function createOrganizations (redis: RedisClient, now: () => number = Date.now) {
  const records = createAccountRecords(redis)
  const policies = createPolicies(records, now)

  return {
    find: (orgId: string) => find(records, orgId),

    /** All organizations, the oldest first. */
    list: async (): Promise<readonly Organization[]> => {
      const tenants = await redis.smembers(ORGANIZATION_TENANTS_KEY)
      // Their ids begin with the time.
      const ids = [...new Set(tenants.map(tenant => parseTenant(tenant).orgId))].toSorted()
      const organizations = await Promise.all(ids.map(id => find(records, id)))
      return organizations.filter(organization => organization !== undefined)
    },

    /** Creates an organization with both its tenants, without keys and money. */
    async create (name: string, id = newOrganizationId(now())): Promise<Organization> {
      const createdAtMs = now()
      const fields = { name, createdAt: String(createdAtMs) }
      await records.change({ name: organizationRecord(id), fields, from: 0, random: true })
      return { id, name, createdAtMs, policy: DEFAULT_POLICY }
    },

    /** Changes its policy. Throws RangeError for a value out of range. */
    async setPolicy (orgId: string, change: PolicyChange): Promise<void> {
      await records.change({ name: organizationRecord(orgId), fields: fieldsOfPolicy(change) })
      policies.forget(orgId)
    },

    /**
     * Marks an organization as erased, from when on it has no valid API key, person or session, and
     * no new job. The time of an earlier mark stays.
     */
    async markErased (orgId: string): Promise<void> {
      if ((await find(records, orgId))?.erasedAtMs !== undefined) return
      const fields = { [ERASED_FIELD]: String(now()) }
      await records.change({ name: organizationRecord(orgId), fields })
      policies.forget(orgId)
    },

    /**
     * Whether an organization is marked as erased, as known a second ago at most.
     * @throws AccountsRecoveringError, as `policy` and `subscriptions`, while that may be missing.
     */
    isErased: async (orgId: string): Promise<boolean> => (await policies.read(orgId)).isErased,

    /** The policy of a tenant's organization, at most a second old. */
    policy: async (tenant: string): Promise<Policy> =>
      (await policies.read(parseTenant(tenant).orgId)).policy,

    /** The subscriptions of a tenant's webhook endpoints, of the same age; samples have none. */
    subscriptions: async (tenant: string): Promise<readonly EventSubscription[]> => {
      if (isSampleTenant(tenant)) return []
      const { orgId, mode } = parseTenant(tenant)
      return subscriptionsIn((await policies.read(orgId)).subscriptions[mode])
    },

    /** The last known policy, without waiting; refreshes it in the background. */
    cachedOrgPolicy: policies.now,

    /** The last known weight of a tenant, likewise; the default for a text that names no tenant. */
    cachedWeight: (tenant: string): number =>
      (isTenant(tenant) ? policies.now(parseTenant(tenant).orgId) : DEFAULT_POLICY).weight,
  }
}

/** A cache of policies by organization. */
function createPolicies (records: AccountRecords, now: () => number) {
  const cache = new LRUCache<string, { readonly readAtMs: number } & Terms>({
    max: CACHED_POLICIES,
  })
  const load = async (orgId: string): Promise<Terms> => {
    const readAtMs = now()
    // Not the whole record: it has all endpoints of its webhooks.
    const terms = parseTerms(await records.readCurrentFields(organizationRecord(orgId), FIELDS))
    cache.set(orgId, { readAtMs, ...terms })
    return terms
  }
  const fresh = (orgId: string): Terms | undefined => {
    const entry = cache.get(orgId)
    return entry !== undefined && now() - entry.readAtMs < ACCOUNTS_CACHE_MS ? entry : undefined
  }
  return {
    forget: (orgId: string) => { cache.delete(orgId) },
    read: async (orgId: string): Promise<Terms> => fresh(orgId) ?? await load(orgId),
    now: (orgId: string): Policy => {
      const terms = cache.get(orgId) ?? DEFAULT_TERMS
      if (fresh(orgId) === undefined) {
        cache.set(orgId, { ...terms, readAtMs: now() })
        // After a failure the last known policy stays in force.
        load(orgId).catch(() => {})
      }
      return terms.policy
    },
  }
}

async function find (records: AccountRecords, orgId: string): Promise<Organization | undefined> {
  const { fields = {} } = await records.read(organizationRecord(orgId)) ?? {}
  const { name, createdAt, [ERASED_FIELD]: erasedAt } = fields
  if (name === undefined) return undefined
  return {
    id: orgId,
    name,
    createdAtMs: Number(createdAt),
    policy: parsePolicy(fields),
    ...erasedAt !== undefined && { erasedAtMs: Number(erasedAt) },
  }
}

/** The limits of an organization; the configuration applies where one is undefined. */
export type Policy = {
  /** Maximum age of a cached record, in days; 0 disables the cache for this organization. */
  readonly freshnessDays: number
  /** Share of a busy stage, as a multiple of the default share. */
  readonly weight: number
  /** Jobs with fresh rows at a time, of each of its tenants. */
  readonly activeJobs?: number
  /** Requests, as `LIMIT_POST_BURST`, `LIMIT_POST_SUSTAINED` and `LIMIT_GET`. */
  readonly postBurst?: number
  readonly postSustained?: number
  readonly gets?: number
  /** Its webhook endpoints get `balance.low` when a reservation takes it below; in USD micros. */
  readonly lowBalanceMicros?: number
  /** The longest lifetime of a new API key, in days. */
  readonly keyDays?: number
}

/** What is cached of an organization: its policy, and per mode its subscriptions as stored. */
type Terms = {
  readonly policy: Policy
  readonly isErased: boolean
  readonly subscriptions: Readonly<Record<Mode, string | null>>
}

/** Maximum of every policy, as the public API promises. */
export const MAX_FRESHNESS_DAYS = 90

const DEFAULT_POLICY: Policy = { freshnessDays: MAX_FRESHNESS_DAYS, weight: 1 }

type Range = { readonly min: number, readonly max: number }

const MAX_REQUESTS = 1_000_000
/** The largest amount of a wallet. */
const MAX_AMOUNT_MICROS = 999_999_999_999_999

/** The allowed range of each field. */
export const POLICY_RANGES: Readonly<Record<keyof Policy, Range>> = {
  freshnessDays: { min: 0, max: MAX_FRESHNESS_DAYS },
  weight: { min: 1, max: 100 },
  activeJobs: { min: 1, max: 10_000 },
  postBurst: { min: 1, max: MAX_REQUESTS },
  postSustained: { min: 1, max: MAX_REQUESTS },
  gets: { min: 1, max: MAX_REQUESTS },
  lowBalanceMicros: { min: 1, max: MAX_AMOUNT_MICROS },
  keyDays: { min: 1, max: 3_650 },
}

/** New values by name; `default` resets one to the configuration. */
export type PolicyChange = { readonly [Name in keyof Policy]?: number | 'default' }

const NAMES = Object.keys(POLICY_RANGES) as readonly (keyof Policy)[]
const FIELDS = [...NAMES, ...MODES.map(subscriptionsField), ERASED_FIELD]

const DEFAULT_TERMS: Terms = {
  policy: DEFAULT_POLICY,
  isErased: false,
  subscriptions: { live: null, test: null },
}

/** The terms in the values of `FIELDS`. */
function parseTerms (values: readonly (string | null)[]): Terms {
  const fields = Object.fromEntries(FIELDS.map((name, index) => [name, values[index] ?? undefined]))
  const of = (mode: Mode) => fields[subscriptionsField(mode)] ?? null
  return {
    policy: parsePolicy(fields),
    isErased: fields[ERASED_FIELD] !== undefined,
    subscriptions: { live: of('live'), test: of('test') },
  }
}

/**
 * The stored fields of a change.
 * @throws RangeError for a value out of range.
 */
function fieldsOfPolicy (change: PolicyChange): Readonly<Record<string, string>> {
  return Object.fromEntries(NAMES.flatMap(name => {
    const value = change[name]
    if (value === undefined) return []
    if (value === 'default') return [[name, '']]
    const { min, max } = POLICY_RANGES[name]
    if (Number.isInteger(value) && value >= min && value <= max) return [[name, String(value)]]
    const shown = Number.isNaN(value) ? 'not a whole number' : value
    throw new RangeError(
      `${name} is ${shown}; use an integer from ${min} to ${max}, or "default".`)
  }))
}

/** The policy in stored fields, clamped to the allowed ranges. */
function parsePolicy (fields: Readonly<Record<string, string | undefined>>): Policy {
  const set = NAMES.flatMap(name => {
    const { min, max } = POLICY_RANGES[name]
    const value = Math.min(Math.max(Number(fields[name]), min), max)
    return fields[name] === '' || Number.isNaN(value) ? [] : [[name, value] as const]
  })
  return { ...DEFAULT_POLICY, ...Object.fromEntries(set) }
}
