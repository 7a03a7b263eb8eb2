import type { Redis } from 'ioredis'
import { LRUCache } from 'lru-cache'
import { ulid } from 'ulid'
import { createAccountRecords, type AccountRecords } from './records.ts'
import { partsOf } from './tenant.ts'

export type Organization = {
  readonly id: string
  readonly name: string
  readonly createdAtMs: number
  /** How old a record may be, in days, and still answer for this organization; 0 is never. */
  readonly freshnessDays: number
}

export type Organizations = ReturnType<typeof createOrganizations>

/** No policy makes a record usable for longer; the public interface promises it. */
export const MAX_FRESHNESS_DAYS = 90

const DAY_MS = 86_400_000
const CACHE_MS = 1_000
const CACHED_POLICIES = 10_000

const keyOf = (orgId: string) => `org:${orgId}`

/** The organizations, kept in Redis as `org:<id>`. */
export function createOrganizations (redis: Redis, now: () => number = Date.now) {
  const policies: Policies = new LRUCache({ max: CACHED_POLICIES })
  const records = createAccountRecords(redis)

  return {
    find: (orgId: string) => find(records, orgId),

    /** Makes an organization with both its tenants, without keys and without money. */
    async create (name: string): Promise<Organization> {
      const id = `org_${ulid(now()).toLowerCase()}`
      const organization = { id, name, createdAtMs: now(), freshnessDays: MAX_FRESHNESS_DAYS }
      await write(records, organization)
      return organization
    },

    /** Sets how many days a record counts as fresh, 0 to 90; throws RangeError outside of it. */
    async setFreshnessDays (orgId: string, days: number): Promise<void> {
      if (!Number.isInteger(days) || days < 0 || days > MAX_FRESHNESS_DAYS) {
        throw new RangeError(`Freshness is a whole number of days from 0 to ${MAX_FRESHNESS_DAYS}.`)
      }
      await records.change({ name: keyOf(orgId), fields: { freshnessDays: String(days) } })
      policies.delete(orgId)
    },

    /** How long a record counts as fresh for a tenant: its policy, at most 90 days. */
    async freshnessMs (tenant: string): Promise<number> {
      const { orgId } = partsOf(tenant)
      const cached = policies.get(orgId)
      if (cached !== undefined && now() - cached.readAtMs < CACHE_MS) return msOf(cached.days)
      const days = await readFreshnessDays(redis, orgId)
      policies.set(orgId, { readAtMs: now(), days })
      return msOf(days)
    },
  }
}

/** Policies as they were when last read, by organization. */
type Policies = LRUCache<string, { readonly readAtMs: number, readonly days: number }>

const msOf = (days: number) => Math.min(days, MAX_FRESHNESS_DAYS) * DAY_MS

async function find (records: AccountRecords, orgId: string): Promise<Organization | undefined> {
  const { fields } = await records.read(keyOf(orgId)) ?? {}
  if (fields?.['name'] === undefined) return undefined
  return {
    id: orgId,
    name: fields['name'],
    createdAtMs: Number(fields['createdAt']),
    freshnessDays: Number(fields['freshnessDays']),
  }
}

async function write (records: AccountRecords, organization: Organization): Promise<void> {
  const { id, name, createdAtMs, freshnessDays } = organization
  const fields = { name, createdAt: String(createdAtMs), freshnessDays: String(freshnessDays) }
  await records.change({ name: keyOf(id), fields, from: 0, random: true })
}

async function readFreshnessDays (redis: Redis, orgId: string): Promise<number> {
  const stored = await redis.hget(keyOf(orgId), 'freshnessDays')
  return stored === null ? MAX_FRESHNESS_DAYS : Number(stored)
}
