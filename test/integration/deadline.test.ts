import { describe, expect, it } from 'vitest'
import type { WaitingBatch } from '../../services/jobs/job.ts'
import { jobKeys } from '../../services/jobs/redis-keys.ts'
import { createJobStore } from '../../services/jobs/store.ts'
import { createWallet } from '../../services/money/wallet.ts'
import { acceptRequest, accepted, jobClaim } from '../support/jobs.ts'
import { startRedis } from '../support/redis/redis.ts'

const { redis } = await startRedis()
const store = createJobStore(redis)
const TENANT = 'org_1.live'
await createWallet(redis).topUp(TENANT, { id: 'a', amountMicros: 1_000_000, reason: '' })

describe('the deadline of a job', () => {
  it('counts from its claim, and reaches its job, its batches and the journal', async () => {
    const claimed = await store.claim(TENANT, jobClaim('job_1', { endWithinMs: 90_000 }))
    if (claimed.kind !== 'new') throw new Error(claimed.kind)
    const deadlineMs = claimed.nowMs + 90_000
    const answer = await store.accept(TENANT, acceptRequest('job_1'))
    if (answer.kind !== 'accepted') throw new Error(answer.kind)
    expect(answer.job.deadlineMs).toBe(deadlineMs)
    // What a lost job is rebuilt from.
    expect(JSON.parse(answer.entry?.reason ?? '{}'))
      .toMatchObject({ deadlineMs: String(deadlineMs) })
    expect(await store.batchAction(TENANT, 'job_1')).toEqual({ action: 'run', deadlineMs })
    expect(await store.read(TENANT, 'job_1')).toMatchObject({ deadlineMs })
  })

  it('is none without the option', async () => {
    expect((await accepted(store, TENANT, acceptRequest('job_2'))).deadlineMs).toBeUndefined()
    expect(await store.batchAction(TENANT, 'job_2')).toEqual({ action: 'run' })
  })
})

describe('the waiting rows of a job', () => {
  it('are the sums of its batches, until the last of them', async () => {
    expect(await store.waitingRows(TENANT, 'job_2')).toBeUndefined()
    const record = async (number: number, waiting: WaitingBatch | undefined) => {
      const batch = { chunk: 0, batch: number }
      // A redelivered batch records it again.
      for (let at = 0; at < 2; at++) {
        await store.recordWaiting({ tenant: TENANT, job: 'job_2', batch, waiting })
      }
    }
    await record(0, { reasons: { greylisted: 2, no_answer: 1 }, lastDueMs: 5_000 })
    await record(1, { reasons: { greylisted: 3 }, lastDueMs: 4_000 })
    const times = { dueRows: 1, deadlineMs: 9_000 }
    await record(2, { reasons: { greylisted: 2 }, lastDueMs: 1_000, ...times })
    // Records of earlier releases do not say how many are due.
    expect(await store.waitingRows(TENANT, 'job_2')).toEqual({
      rows: 8,
      reasons: { greylisted: 7, no_answer: 1 },
      lastDueMs: 5_000,
      dueRows: 7,
      earlier: expect.anything(),
    })
    await record(0, undefined)
    await record(1, undefined)
    expect(await store.waitingRows(TENANT, 'job_2')).toEqual({
      rows: 2, reasons: { greylisted: 2 }, lastDueMs: 1_000, ...times, earlier: expect.anything(),
    })
    await record(2, undefined)
    expect(await store.waitingRows(TENANT, 'job_2')).toBeUndefined()
  })

  it('have the pace of the last minutes', async () => {
    const { job: key } = jobKeys(TENANT, 'job_2')
    const record = async (answered: number, minutesLater: number) => {
      await redis.hset(key, 'freshRecords', answered - 1, 'unknownRecords', 1)
      const pace = await redis.hget(key, 'pace')
      // In place of the time that passes.
      const earlier = pace?.replace(/\d{13}/g, ms => `${Number(ms) - minutesLater * 60_000}`)
      if (earlier !== undefined) await redis.hset(key, 'pace', earlier)
      const waiting = { reasons: { timeout: 1 }, lastDueMs: 5_000 }
      await store.recordWaiting(
        { tenant: TENANT, job: 'job_2', batch: { chunk: 0, batch: 1 }, waiting })
      const { earlier: since } = await store.waitingRows(TENANT, 'job_2') ?? {}
      const [seconds, micros] = (await redis.time()).map(Number) as [number, number]
      const agoMs = seconds * 1_000 + micros / 1_000 - (since?.atMs ?? 0)
      return [Math.round(agoMs / 60_000), since?.answered]
    }
    await redis.hdel(key, 'pace')
    expect(await record(10, 0)).toEqual([0, 10])
    expect(await record(20, 4)).toEqual([4, 10])
    expect(await record(30, 2)).toEqual([6, 10])
    expect(await record(40, 4)).toEqual([10, 10])
    expect(await record(50, 2)).toEqual([6, 30])
    expect(await record(60, 20)).toEqual([20, 50])
    expect(await record(70, 1)).toEqual([21, 50])
    expect(await record(80, 5)).toEqual([6, 60])
    // A clock that was set back does not stop it.
    expect(await record(90, -60)).toEqual([-60, 80])
    expect(await record(91, 5)).toEqual([5, 90])
    await store.recordWaiting(
      { tenant: TENANT, job: 'job_2', batch: { chunk: 0, batch: 1 }, waiting: undefined })
  })

  it('are forgotten with its end, and a late record brings none back', async () => {
    const waiting = { reasons: { greylisted: 1 }, lastDueMs: 5_000 }
    const record = async (job: string) => {
      await store.recordWaiting({ tenant: TENANT, job, batch: { chunk: 0, batch: 0 }, waiting })
    }
    await accepted(store, TENANT, acceptRequest('job_3'))
    await record('job_3')
    expect(await redis.pttl(jobKeys(TENANT, 'job_3').waiting)).toBeGreaterThan(2 * 86_400_000)
    await redis.hset(jobKeys(TENANT, 'job_3').job, 'ended', '1')
    expect(await store.close(TENANT, 'job_3')).toBe(true)
    expect(await store.waitingRows(TENANT, 'job_3')).toBeUndefined()
    for (const job of ['job_3', 'job_of_a_lost_redis']) {
      await record(job)
      expect(await store.waitingRows(TENANT, job)).toBeUndefined()
    }
  })
})
