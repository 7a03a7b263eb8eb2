import { beforeEach, describe, expect, it } from 'vitest'
import {
  createOrganizations, type Organizations,
} from '../../../services/accounts/organizations.ts'
import { partsOf, tenantOf } from '../../../services/accounts/tenant.ts'
import { memoryRedis } from './memory-redis.ts'

const DAY_MS = 86_400_000

let memory: ReturnType<typeof memoryRedis>
let organizations: Organizations
let nowMs: number
beforeEach(() => {
  memory = memoryRedis()
  nowMs = 1_700_000_000_000
  organizations = createOrganizations(memory.redis, () => nowMs)
})

describe('a tenant', () => {
  it('is an organization in one mode', () => {
    expect(tenantOf('org_1', 'live')).toBe('org_1.live')
    expect(partsOf('org_1.test')).toEqual({ orgId: 'org_1', mode: 'test' })
  })

  it.each(['org_1', 'org_1.', 'org_1.LIVE', '.live', ''])('is not "%s"', text => {
    expect(() => partsOf(text)).toThrow('A tenant is named')
  })
})

describe('an organization', () => {
  it('is made with both its tenants', async () => {
    const made = await organizations.create('Example')
    expect(made.id).toMatch(/^org_[0-9a-hjkmnp-tv-z]{26}$/)
    expect(made).toMatchObject({ name: 'Example', createdAtMs: nowMs, freshnessDays: 90 })
    expect(await organizations.find(made.id)).toEqual(made)
    expect([...memory.sets.get('tenants') ?? []]).toEqual([`${made.id}.live`, `${made.id}.test`])
  })

  it('that was never made is not found, and has the longest freshness', async () => {
    expect(await organizations.find('org_none')).toBeUndefined()
    expect(await organizations.freshnessMs('org_none.live')).toBe(90 * DAY_MS)
  })

  it('sets how long records count as fresh, seen elsewhere within a second', async () => {
    const { id } = await organizations.create('Example')
    const elsewhere = createOrganizations(memory.redis, () => nowMs)
    expect(await elsewhere.freshnessMs(`${id}.live`)).toBe(90 * DAY_MS)
    await organizations.setFreshnessDays(id, 7)
    expect(await organizations.freshnessMs(`${id}.test`)).toBe(7 * DAY_MS)
    expect(await elsewhere.freshnessMs(`${id}.live`)).toBe(90 * DAY_MS)
    nowMs += 1_000
    expect(await elsewhere.freshnessMs(`${id}.live`)).toBe(7 * DAY_MS)
  })

  it.each([-1, 91, 1.5, NaN])('takes no policy of %d days', async days => {
    const { id } = await organizations.create('Example')
    await expect(organizations.setFreshnessDays(id, days)).rejects.toThrow(RangeError)
    expect((await organizations.find(id))?.freshnessDays).toBe(90)
  })
})
