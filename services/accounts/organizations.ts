import type { Redis } from 'ioredis'
import { LRUCache } from 'lru-cache'
import { ulid } from 'ulid'
import {
  DEFAULT_POLICY, fieldsOfPolicy, policyOf, type Policy, type PolicyChange,
} from './policy.ts'
import { createAccountRecords, type AccountRecords } from './records.ts'
import { isTenant, partsOf } from './tenant.ts'

export type Organization = {
  readonly id: string
  readonly name: string
  readonly createdAtMs: number
  readonly policy: Policy
}

export type Organizations = ReturnType<typeof createOrganizations>

const CACHE_MS = 1_000
const CACHED_POLICIES = 10_000

const keyOf = (orgId: string) => `org:${orgId}`

/** The organizations, kept in Redis as `org:<id>`. */
export function createOrganizations (redis: Redis, now: () => number = Date.now) {
  const records = createAccountRecords(redis)
  const policies = createPolicies(redis, now)

  return {
    find: (orgId: string) => find(records, orgId),

    /** Creates an organization with both its tenants, without keys and money. */
    async create (name: string): Promise<Organization> {
      const id = `org_${ulid(now()).toLowerCase()}`
      const createdAtMs = now()
      const fields = { name, createdAt: String(createdAtMs) }
      await records.change({ name: keyOf(id), fields, from: 0, random: true })
      return { id, name, createdAtMs, policy: DEFAULT_POLICY }
    },

    /** Changes its policy. Throws RangeError for a value out of range. */
    async setPolicy (orgId: string, change: PolicyChange): Promise<void> {
      await records.change({ name: keyOf(orgId), fields: fieldsOfPolicy(change) })
      policies.forget(orgId)
    },

    /** The policy of a tenant's organization, at most a second old. */
    policy: async (tenant: string): Promise<Policy> => await policies.read(partsOf(tenant).orgId),

    /**
     * The last known policy, without waiting; refreshes it in the background. A text that names no
     * tenant gets the default.
     */
    cachedPolicy: (tenant: string): Policy =>
      isTenant(tenant) ? policies.now(partsOf(tenant).orgId) : DEFAULT_POLICY,

    /** The last known policy of an organization, likewise. */
    cachedOrgPolicy: policies.now,
  }
}

/** A cache of policies by organization. */
function createPolicies (redis: Redis, now: () => number) {
  const known = new LRUCache<string, { readonly readAtMs: number, readonly policy: Policy }>({
    max: CACHED_POLICIES,
  })
  const load = async (orgId: string): Promise<Policy> => {
    const policy = policyOf(await redis.hgetall(keyOf(orgId)))
    known.set(orgId, { readAtMs: now(), policy })
    return policy
  }
  const fresh = (orgId: string): Policy | undefined => {
    const found = known.get(orgId)
    return found !== undefined && now() - found.readAtMs < CACHE_MS ? found.policy : undefined
  }
  return {
    forget: (orgId: string) => { known.delete(orgId) },
    read: async (orgId: string): Promise<Policy> => fresh(orgId) ?? await load(orgId),
    now: (orgId: string): Policy => {
      const policy = known.get(orgId)?.policy ?? DEFAULT_POLICY
      if (fresh(orgId) === undefined) {
        known.set(orgId, { readAtMs: now(), policy })
        // After a failure the last known policy stays in force.
        load(orgId).catch(() => {})
      }
      return policy
    },
  }
}

async function find (records: AccountRecords, orgId: string): Promise<Organization | undefined> {
  const { fields = {} } = await records.read(keyOf(orgId)) ?? {}
  const { name, createdAt } = fields
  if (name === undefined) return undefined
  return { id: orgId, name, createdAtMs: Number(createdAt), policy: policyOf(fields) }
}
