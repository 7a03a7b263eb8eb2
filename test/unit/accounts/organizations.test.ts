import { beforeEach, describe, expect, it, vi } from 'vitest'
import {
  createOrganizations, type Organizations,
} from '../../../services/accounts/organizations.ts'
import { accountKey } from '../../../services/accounts/records.ts'
import { parseTenant, tenantOf } from '../../../services/accounts/tenant.ts'
import { workerRedis as redis, emptyRedis } from '../../support/redis/worker.ts'

const DEFAULT_POLICY = { freshnessDays: 90, weight: 1 }
let organizations: Organizations
let nowMs: number
beforeEach(async () => {
  await emptyRedis()
  nowMs = 1_700_000_000_000
  organizations = createOrganizations(redis, () => nowMs)
})

describe('a tenant', () => {
  it('is an organization in one mode', () => {
    expect(tenantOf('org_1', 'live')).toBe('org_1.live')
    expect(parseTenant('org_1.test')).toEqual({ orgId: 'org_1', mode: 'test' })
  })

  it.each(['org_1', 'org_1.', 'org_1.LIVE', '.live', ''])('is not "%s"', text => {
    expect(() => parseTenant(text)).toThrow('names no tenant')
  })
})

describe('an organization', () => {
  it('is erased once, seen elsewhere within a second', async () => {
    const { id, createdAtMs } = await organizations.create('Example')
    const elsewhere = createOrganizations(redis, () => nowMs)
    expect(await elsewhere.isErased(id)).toBe(false)
    await organizations.markErased(id)
    expect(await organizations.isErased(id)).toBe(true)
    nowMs += 1_000
    expect([await elsewhere.isErased(id), elsewhere.cachedOrgPolicy(id)])
      .toEqual([true, DEFAULT_POLICY])
    await organizations.markErased(id)
    expect(await organizations.find(id)).toMatchObject({ erasedAtMs: createdAtMs })
  })

  it('changes what it may, seen elsewhere within a second', async () => {
    const { id } = await organizations.create('Example')
    const elsewhere = createOrganizations(redis, () => nowMs)
    expect(await elsewhere.policy(`${id}.live`)).toEqual(DEFAULT_POLICY)
    const changed = { freshnessDays: 7, weight: 3 }
    await organizations.setPolicy(id, changed)
    expect(await organizations.policy(`${id}.test`)).toEqual(changed)
    expect(await elsewhere.policy(`${id}.live`)).toEqual(DEFAULT_POLICY)
    nowMs += 1_000
    expect(await elsewhere.policy(`${id}.live`)).toEqual(changed)
    expect((await organizations.find(id))?.policy).toEqual(changed)
  })

  it('is known at once where that is needed, as far as it was read', async () => {
    const { id } = await organizations.create('Example')
    await organizations.setPolicy(id, { gets: 5 })
    expect(organizations.cachedOrgPolicy(id)).toEqual(DEFAULT_POLICY)
    await vi.waitFor(() =>
      expect(organizations.cachedOrgPolicy(id)).toEqual({ ...DEFAULT_POLICY, gets: 5 }))
  })

  it.each([
    [{ freshnessDays: -1 }, '0 to 90'], [{ freshnessDays: 1.5 }, '0 to 90'],
    [{ freshnessDays: 91 }, 'freshnessDays is 91; use an integer from 0 to 90, or "default".'],
    [{ freshnessDays: NaN }, 'freshnessDays is not a whole number; use'],
    [{ weight: 0 }, '1 to 100'], [{ weight: 101 }, '1 to 100'], [{ activeJobs: 0 }, 'from 1 to'],
    [{ postBurst: 0 }, 'from 1 to'], [{ postSustained: 0 }, 'from 1 to'],
    [{ gets: 1_000_001 }, 'from 1 to 1000000'],
  ])('takes no policy of %o', async (change, fault) => {
    const { id } = await organizations.create('Example')
    const setting = organizations.setPolicy(id, change)
    await expect(setting).rejects.toThrow(RangeError)
    await expect(setting).rejects.toThrow(fault)
    expect((await organizations.find(id))?.policy).toEqual(DEFAULT_POLICY)
  })

  it('has no policy beyond what one may be, whatever is stored', async () => {
    const { id } = await organizations.create('Example')
    await redis.hset(accountKey(`org:${id}`), { freshnessDays: '365', weight: 'x', gets: '0' })
    expect(await organizations.policy(`${id}.live`)).toEqual({ ...DEFAULT_POLICY, gets: 1 })
  })
})
