import { accountKey } from '../../../services/accounts/records.ts'
import { describe, expect, it } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import { ended, newCustomer, newNumbers, service, shared, workspace } from './support.ts'
import { commandOn } from '../../support/admin.ts'

const policy = commandOn('policy')

const setDays = (org: string, days: number) =>
  workspace(parts => policy(parts, { org, freshnessDays: String(days) }))
const daysOf = (row: Readonly<Record<string, string>> | undefined) =>
  (Date.parse(row?.expires_at ?? '') - Date.parse(row?.checked_at ?? '')) / 86_400_000

describe.concurrent('the freshness policy of an organization', () => {
  it('that is shortened counts at once, for records that are already there as well; ' +
    'expires_at follows the policy', async () => {
    const { orgId, live } = await newCustomer()
    const inputs = newNumbers(1)
    const first = await ended(live, { service, inputs })
    expect(daysOf(first.rows[0])).toBe(90)
    const quote = async () => (await live.client.quote({ service, inputs })).preflight.cacheHits
    expect(await quote()).toBe(1)
    await setDays(orgId, 30)
    // A policy is cached for a second.
    const shortened = async () => daysOf((await ended(live, { service, inputs })).rows[0])
    await eventually(async () => expect(await shortened()).toBe(30))
    await setDays(orgId, 0)
    await eventually(async () => expect(await quote()).toBe(0))
    const again = await ended(live, { service, inputs })
    expect([again.job.freshRecords, daysOf(again.rows[0])]).toEqual([1, 0])
  })

  it('is at most 90 days', async () => {
    const { orgId, live } = await newCustomer()
    await expect(setDays(orgId, 91)).rejects.toThrow('from 0 to 90')
    const { redis } = shared()
    await redis.hset(accountKey(`org:${orgId}`), 'freshnessDays', '365')
    const { rows } = await ended(live, { service, inputs: newNumbers(1) })
    expect(daysOf(rows[0])).toBe(90)
  })
})
