import fc from 'fast-check'
import { expect, it } from 'vitest'
import { ROW_COUNTERS } from '../../schemas/api/job.ts'
import { jobBody } from '../../services/jobs/job-view.ts'
import { createJobStore } from '../../services/jobs/store.ts'
import { createWallet } from '../../services/money/wallet.ts'
import { accepted } from '../support/jobs.ts'
import { countsOf, deadOf, layOut, randomJob, requestOf } from '../support/recovery/random-jobs.ts'
import { startRedis } from '../support/redis/redis.ts'

const { redis } = await startRedis()
const store = createJobStore(redis)
const header = { metadata: {}, webhookUrl: '' }

/** What happens between the deliveries of blocks: position, and step. */
const steps = fc.array(fc.tuple(
  // The first block changes the status, so half of the steps come before it.
  fc.oneof(fc.constant(0), fc.nat({ max: 36 })),
  fc.constantFrom('announce', 'cancel', 'fail', 'lose' as const)
), { maxLength: 4 })
const stories = fc.record({
  given: randomJob, steps, dead: fc.array(fc.boolean(), { minLength: 36, maxLength: 36 }),
})

/** Takes a step of the only job of a tenant. */
async function take (tenant: string, step: string): Promise<void> {
  if (step === 'announce') await store.announce(tenant, 'job_1')
  else if (step === 'cancel') await store.cancel(tenant, 'job_1')
  else {
    const finished = await store.unfinishedRows(tenant, 'job_1')
    const digest = step === 'lose' ? '' : 'f'.repeat(64)
    if (finished !== undefined) await store.fail(tenant, 'job_1', { digest, finished })
  }
}

it('the counters of a job add up to its rows in every state', async () => {
  const seen = new Set<string>()
  let tenants = 0
  const check = async (tenant: string) => {
    const job = await store.read(tenant, 'job_1')
    const body = jobBody(job!, header)
    seen.add(job!.status)
    const counters = ROW_COUNTERS.map(name => body[name])
    expect(Math.min(...counters)).toBeGreaterThanOrEqual(0)
    expect(counters.reduce((sum, one) => sum + one, 0)).toBe(body.totalRows)
    if (!job!.ended) return body
    expect(body.pendingRecords).toBe(0)
    expect(body.successRecords + body.failedRecords).toBe(body.totalRows)
    expect(body.successRecords).toBeGreaterThanOrEqual(body.cacheHits + body.freshRecords)
    expect(body.successRecords)
      .toBeLessThanOrEqual(body.cacheHits + body.freshRecords + body.duplicateRecords)
    return body
  }
  await fc.assert(fc.asyncProperty(stories, async ({ given, steps, dead }) => {
    const tenant = `org_${tenants += 1}.live`
    await createWallet(redis).topUp(tenant, { id: 'a', amountMicros: 1_000_000_000, reason: '' })
    const { rows, deliveries } = layOut(given)
    await accepted(store, tenant, requestOf(rows))
    let body = await check(tenant)
    for (const [number, block] of deliveries.entries()) {
      for (const [at, step] of steps) {
        if (at !== number) continue
        await take(tenant, step)
        await check(tenant)
      }
      await store.tally(tenant, dead[number] === true ? deadOf(block, number) : block)
      body = await check(tenant)
    }
    const isWhole = deliveries.every((_, number) => dead[number] !== true) &&
      (await store.read(tenant, 'job_1'))!.status !== 'failed'
    const { finishedRows: _, inputBlocks: _i, ...counts } = countsOf(rows)
    if (isWhole) expect(body).toMatchObject(counts)
    await store.close(tenant, 'job_1')
    await check(tenant)
  }), { numRuns: 150 })
  expect([...seen].toSorted()).toEqual([
    'cancelled', 'cancelling', 'completed', 'failed', 'preparing', 'queued', 'verifying',
  ])
})
