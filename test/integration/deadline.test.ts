import { describe, expect, it } from 'vitest'
import type { WaitingBatch } from '../../services/jobs/job.ts'
import { jobKeys } from '../../services/jobs/redis-keys.ts'
import { createJobStore } from '../../services/jobs/store.ts'
import { createWallet } from '../../services/money/wallet.ts'
import { acceptRequest, accepted } from '../support/jobs.ts'
import { startRedis } from '../support/redis/redis.ts'

const { redis } = await startRedis()
const store = createJobStore(redis)
const TENANT = 'org_1.live'
await createWallet(redis).topUp(TENANT, { id: 'a', amountMicros: 1_000_000, reason: '' })

describe('the deadline of a job', () => {
  it('counts from its claim, and reaches its job, its batches and the journal', async () => {
    const claimed = await store.claim(TENANT, {
      job: 'job_1',
      idempotencyKey: '',
      fingerprint: '',
      acceptWithinMs: 60_000,
      wrappedKey: Buffer.of(1),
      endWithinMs: 90_000,
    })
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
    const batches: Readonly<Record<string, WaitingBatch>> = {
      '0:0': { reasons: { greylisted: 2, no_answer: 1 }, lastDueMs: 5_000 },
      '0:1': { reasons: { greylisted: 3 }, lastDueMs: 4_000 },
    }
    for (const [batch, waiting] of Object.entries(batches)) {
      await redis.hset(jobKeys(TENANT, 'job_2').waiting, batch, JSON.stringify(waiting))
    }
    expect(await store.waitingRows(TENANT, 'job_2'))
      .toEqual({ rows: 6, reasons: { greylisted: 5, no_answer: 1 }, lastDueMs: 5_000 })
  })
})
