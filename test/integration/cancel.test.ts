import { describe, expect, it } from 'vitest'
import { jobRedisKeys } from '../../services/jobs/job-record.ts'
import { eraseOrganization } from '../../services/admin/erasure.ts'
import { accepted, acceptRequest, blockOf, jobClaim, upTo } from '../support/jobs.ts'
import { expectLifetime } from '../support/lifetime.ts'
import { startJobStore } from '../support/redis/redis.ts'

const { redis, store, wallet, fundedTenant } = await startJobStore()

describe('cancel', () => {
  it('charges what was checked, releases the rest and ends as cancelled', async () => {
    const tenant = await fundedTenant()
    await accepted(store, tenant, acceptRequest('job_1'))
    await store.announce(tenant, 'job_1')
    expect(await store.batchAction(tenant, 'job_1')).toEqual({ action: 'run' })
    expect(await store.cancel(tenant, 'job_1'))
      .toMatchObject({ kind: 'cancelling', job: { status: 'cancelling', ended: false } })
    expect(await store.batchAction(tenant, 'job_1')).toEqual({ action: 'cancelling' })
    const first = blockOf({ job: 'job_1', chunkRows: 10, inputs: true }, { live: upTo(3) })
    const rest = blockOf({ job: 'job_1', chunkRows: 10 }, { cancelled: [3, 4, 5, 6, 7, 8, 9] })
    await store.tally(tenant, first)
    expect(await store.tally(tenant, rest)).toMatchObject({
      ended: true,
      job: {
        status: 'cancelled',
        chargedMicros: 6_000,
        releasedMicros: 14_000,
        counts: { freshRecords: 3, cancelledRecords: 7, unknownRecords: 0, failedRecords: 7 },
      },
    })
    expect(await wallet.balance(tenant)).toMatchObject({
      availableMicros: 994_000, reservedMicros: 0, chargedMicros: 6_000,
    })
  })

  it('answers the same when repeated, until the job has ended', async () => {
    const tenant = await fundedTenant()
    await accepted(store, tenant, acceptRequest('job_1', { freshChecks: 1 }))
    const first = await store.cancel(tenant, 'job_1')
    expect(first.kind).toBe('cancelling')
    expect(await store.cancel(tenant, 'job_1')).toEqual(first)
    await store.announce(tenant, 'job_1')
    expect(await store.read(tenant, 'job_1')).toMatchObject({ status: 'cancelling' })
    const block = blockOf({ job: 'job_1', chunkRows: 1, inputs: true }, { unknown: [0] })
    await store.tally(tenant, block)
    expect(await store.cancel(tenant, 'job_1'))
      .toMatchObject({ kind: 'ended', job: { status: 'cancelled' } })
  })

  it('that Redis has lost is restored by the rows that it ended', async () => {
    const tenant = await fundedTenant()
    await accepted(store, tenant, acceptRequest('job_1'))
    const first = blockOf({ job: 'job_1', chunkRows: 10, inputs: true }, { cancelled: upTo(3) })
    await store.tally(tenant, first)
    expect(await store.batchAction(tenant, 'job_1')).toEqual({ action: 'cancelling' })
    const rest = blockOf({ job: 'job_1', chunkRows: 10 }, { live: [3, 4, 5, 6, 7, 8, 9] })
    expect(await store.tally(tenant, rest)).toMatchObject({
      ended: true, job: { status: 'cancelled', chargedMicros: 14_000, releasedMicros: 6_000 },
    })
  })

  it('is refused for a job that has ended, and 404 for an unknown one', async () => {
    const tenant = await fundedTenant()
    await accepted(store, tenant, acceptRequest('job_1', { freshChecks: 1 }))
    const block = blockOf({ job: 'job_1', chunkRows: 1, inputs: true }, { live: [0] })
    await store.tally(tenant, block)
    expect(await store.cancel(tenant, 'job_1'))
      .toMatchObject({ kind: 'ended', job: { status: 'completed' } })
    expect(await store.cancel(tenant, 'job_2')).toEqual({ kind: 'unknown' })
  })
})

describe('a claim that wants a quote alone', () => {
  const claim = jobClaim('job_1', { wrappedKey: Buffer.from('wrapped') })

  it('reserves nothing, becomes no job, and leaves nothing that opens its rows', async () => {
    const tenant = await fundedTenant()
    const before = await wallet.balance(tenant)
    const { acceptByMs } =
      await store.claim(tenant, { ...claim, quoteOnly: true }) as { readonly acceptByMs: number }
    expect(await redis.get(jobRedisKeys(tenant, 'job_1').dataKey)).toBe('wrapped')
    const request = acceptRequest('job_1', { cacheHits: 2, maxActiveJobs: 0 })
    const { preflight } = request
    const refusal = { code: 'quoted', preflight, expiresAtMs: acceptByMs + 60_000 }
    const key = jobRedisKeys(tenant, 'job_1').job
    const answer = await expectLifetime(redis, { key, ms: 120_000 }, async () =>
      await store.accept(tenant, request))
    expect(answer).toEqual({ kind: 'refused', refusal })
    expect(await store.accept(tenant, request)).toEqual({ kind: 'refused', refusal })
    expect(await store.outcome(tenant, 'job_1')).toEqual({ kind: 'refused', refusal })
    expect(await store.refuse(tenant, 'job_1', 'internal')).toEqual({ kind: 'refused', refusal })
    expect(await store.read(tenant, 'job_1')).toBeUndefined()
    expect(await wallet.balance(tenant)).toEqual(before)
    expect(await store.openJobs(tenant)).toEqual([])
    expect(await redis.exists(jobRedisKeys(tenant, 'job_1').dataKey)).toBe(0)
  })

  it('is not held up by an empty wallet, and expires like any other', async () => {
    const tenant = 'org_poor.live'
    await store.claim(tenant, { ...claim, quoteOnly: true })
    expect(await store.accept(tenant, acceptRequest('job_1')))
      .toMatchObject({ refusal: { code: 'quoted' } })
    const late = acceptRequest('job_2', { acceptByMs: Date.now() - 60_000 })
    await store.claim(tenant, { ...claim, job: 'job_2', quoteOnly: true })
    expect(await store.accept(tenant, late))
      .toEqual({ kind: 'refused', refusal: { code: 'expired' } })
  })
})

it('an organization that is erased has its jobs of both modes cancelled', async () => {
  const [live, other] = [await fundedTenant(), await fundedTenant()]
  const test = live.replace('.live', '.test')
  await wallet.topUp(test, { id: 'a', amountMicros: 1_000_000, reason: '' })
  const jobs = [[live, 'job_1'], [test, 'job_2'], [other, 'job_3']] as const
  for (const [tenant, job] of jobs) await accepted(store, tenant, acceptRequest(job))
  const deps = { redis, partners: { list: async () => [] }, sleep: async () => {} }
  await expect(eraseOrganization(deps as never, live.replace('.live', ''), {
    deadlineMs: 0, onProgress: () => {},
  })).rejects.toThrow('not closed in time: 2 jobs')
  const statuses = await Promise.all(jobs.map(async ([tenant, job]) =>
    (await store.read(tenant, job))?.status))
  expect(statuses).toEqual(['cancelling', 'cancelling', 'queued'])
})
