import { describe, expect, it } from 'vitest'
import { subscribeToJobs, OutcomeWaiter } from '../../services/jobs/job-waiter.ts'
import { jobRedisKeys } from '../../services/jobs/job-record.ts'
import { MAX_PRICE_MICROS } from '../../services/money/prices.ts'
import { moneyKeys } from '../../services/money/redis-keys.ts'
import { redisClock } from '../../services/runtime/platform/redis.ts'
import { createOutbox } from '../../services/money/wallet.ts'
import {
  acceptClaimed, accepted, acceptRequest, bindingOf, blockOf, jobClaim, upTo,
} from '../support/jobs.ts'
import { expectLifetime } from '../support/lifetime.ts'
import { startJobStore } from '../support/redis/redis.ts'
import type { WaitingBatch } from '../../services/jobs/job.ts'
import { jobKeysOf } from '../support/keys/organization-keys.ts'

const { redis, connect, store, wallet, fundedTenant } = await startJobStore()
const outbox = createOutbox(redis)
const FULL = { kind: 'refused', refusal: { code: 'concurrent_jobs_limit' } }

const DAY_MS = 86_400_000
const whole = (job: string) =>
  blockOf({ job, chunkRows: 10, inputs: true }, { live: upTo(8), unknown: [8], invalid: [9] })

describe('accept', () => {
  it('reserves, stores header and price, and repeats the same answer', async () => {
    const tenant = await fundedTenant()
    const request = acceptRequest('job_1',
      { header: Buffer.of(1, 2), invalidRows: 1, cacheHits: 2 })
    const answer = await acceptClaimed(store, tenant, request)
    if (answer.kind !== 'accepted') throw new Error(answer.kind)
    expect(answer.job).toMatchObject({
      id: 'job_1',
      tenant,
      status: 'queued',
      preflight: request.preflight,
      header: Buffer.of(1, 2),
      unitPriceMicros: 2_000,
      announced: false,
      ended: false,
    })
    expect(answer.entry).toMatchObject({
      seq: 2,
      entryId: 'job_1:reserve',
      type: 'reserve',
      amountMicros: 24_000,
      availableMicros: 976_000,
      reservedMicros: 24_000,
      header: Buffer.of(1, 2),
    })
    expect(await acceptClaimed(store, tenant, { ...request, unitPriceMicros: 0 })).toEqual(answer)
    await outbox.remove(tenant, await outbox.pending(tenant))
    expect(await acceptClaimed(store, tenant, request)).toEqual({ ...answer, entry: undefined })
    expect(await wallet.balance(tenant)).toMatchObject({ reservedMicros: 24_000, seq: 2 })
  })

  it('writes an entry of zero for a job that costs nothing', async () => {
    const tenant = 'org_free.test'
    const request = acceptRequest('job_1', { unitPriceMicros: 0 })
    const answer = await acceptClaimed(store, tenant, request)
    expect(answer)
      .toMatchObject({ kind: 'accepted', entry: { seq: 1, type: 'reserve', amountMicros: 0 } })
    const tallied = await store.tally(tenant, whole('job_1'))
    expect(tallied)
      .toMatchObject({ ended: true, entry: { seq: 2, type: 'settle', amountMicros: 0 } })
  })

  it('refuses for lack of money, cache hits included, and repeats that refusal', async () => {
    const tenant = await fundedTenant(19_999)
    const request = acceptRequest('job_1', { freshChecks: 0, cacheHits: 10 })
    const refusal = {
      code: 'insufficient_balance', requiredMicros: 20_000, availableMicros: 19_999,
    }
    const { job: key } = jobRedisKeys(tenant, 'job_1')
    const answer = await expectLifetime(redis, { key, ms: 120_000 }, async () =>
      await acceptClaimed(store, tenant, request))
    expect(answer).toEqual({ kind: 'refused', refusal })
    await wallet.topUp(tenant, { id: 'b', amountMicros: 1, reason: '' })
    expect(await acceptClaimed(store, tenant, request)).toEqual({ kind: 'refused', refusal })
    expect(await store.outcome(tenant, 'job_1')).toEqual({ kind: 'refused', refusal })
  })

  it('refuses with amounts that are whole numbers, however large', async () => {
    const tenant = await fundedTenant(1_000)
    const request = acceptRequest('job_1', {
      freshChecks: 100_000, unitPriceMicros: MAX_PRICE_MICROS,
    })
    expect(await acceptClaimed(store, tenant, request)).toEqual({
      kind: 'refused',
      refusal: {
        code: 'insufficient_balance',
        requiredMicros: 100_000 * MAX_PRICE_MICROS,
        availableMicros: 1_000,
      },
    })
    expect(await redis.hget(jobRedisKeys(tenant, 'job_1').job, 'requiredMicros'))
      .toBe('100000000000000')
  })

  it('grants ten slots to jobs with fresh checks, and frees each at their end', async () => {
    const tenant = await fundedTenant()
    for (const number of upTo(10)) await accepted(store, tenant, acceptRequest(`job_${number}`))
    expect(await acceptClaimed(store, tenant, acceptRequest('job_10'))).toEqual(FULL)
    const cached = acceptRequest('job_11', { freshChecks: 0, cacheHits: 3 })
    expect((await acceptClaimed(store, tenant, cached)).kind).toBe('accepted')
    await store.tally(tenant, whole('job_3'))
    expect((await acceptClaimed(store, tenant, acceptRequest('job_12'))).kind).toBe('accepted')
    expect(await redis.hget(moneyKeys(tenant).wallet, 'slots')).toBe('10')
  })

  it('refuses after acceptBy, and a maximum that is not the price of its rows', async () => {
    const tenant = await fundedTenant()
    const late = acceptRequest('job_1', { acceptByMs: Date.now() - 1_000 })
    expect(await acceptClaimed(store, tenant, late))
      .toEqual({ kind: 'refused', refusal: { code: 'expired' } })
    const { preflight, ...request } = acceptRequest('job_2')
    const wrong = { ...request, preflight: { ...preflight, maxQuoteMicros: 1 } }
    await expect(acceptClaimed(store, tenant, wrong)).rejects.toThrow('not the price of the rows')
    expect(await store.read(tenant, 'job_2')).toBeUndefined()
  })
})

describe('an idempotency key', () => {
  const claim = (job: string, fingerprint = 'f') =>
    jobClaim(job, { idempotencyKey: 'key', fingerprint })

  it('is bound for 24 h once its job is accepted, and to its request', async () => {
    const tenant = await fundedTenant()
    const mine = await store.claim(tenant, claim('job_1'))
    if (mine.kind !== 'new') throw new Error(mine.kind)
    const binding = await bindingOf(redis, tenant, 'key')
    expect(binding).toMatchObject({ job: 'job_1', endsAtMs: mine.nowMs + DAY_MS })
    expect(await redis.pexpiretime(binding!.hash)).toBeGreaterThanOrEqual(binding!.endsAtMs)
    expect(mine.acceptByMs - mine.nowMs).toBe(60_000)
    expect(await store.claim(tenant, claim('job_1'))).toEqual(mine)
    await accepted(store, tenant, acceptRequest('job_1', { idempotencyKey: 'key', ...mine }))
    expect(await store.claim(tenant, claim('job_2'))).toEqual({
      kind: 'same', job: 'job_1', acceptByMs: mine.acceptByMs, owner: '',
    })
    expect(await store.claim(tenant, claim('job_2', 'other'))).toEqual({ kind: 'reused' })
  })

  it('is that of the same request by any of its fingerprints, as after a rotation', async () => {
    const tenant = await fundedTenant()
    const before = { ...claim('job_1', 'a1'), otherFingerprints: ['b2'] }
    expect((await store.claim(tenant, before)).kind).toBe('new')
    expect(await bindingOf(redis, tenant, 'key')).toMatchObject({ fingerprint: 'a1' })
    const after = { ...claim('job_2', 'b2'), otherFingerprints: ['c3', 'a1'] }
    expect(await store.claim(tenant, after)).toMatchObject({ kind: 'same', job: 'job_1' })
    expect(await store.claim(tenant, { ...after, otherFingerprints: ['c3'] }))
      .toEqual({ kind: 'reused' })
  })

  it('stays bound to a closed job that Redis has forgotten, whatever comes late', async () => {
    const tenant = await fundedTenant()
    await store.claim(tenant, claim('job_1'))
    const request = acceptRequest('job_1', { idempotencyKey: 'key' })
    const job = await accepted(store, tenant, request)
    await store.tally(tenant, whole('job_1'))
    await store.close(tenant, 'job_1')
    await redis.del(jobRedisKeys(tenant, 'job_1').job)
    const before = await bindingOf(redis, tenant, 'key')
    const forgotten = { kind: 'refused', refusal: { code: 'expired' }, forgotten: true }
    expect(await store.refuse(tenant, 'job_1', 'expired')).toEqual(forgotten)
    expect(await store.accept(tenant, { ...request, acceptByMs: Date.now() + 60_000 }))
      .toEqual({ kind: 'refused', refusal: { code: 'expired' } })
    expect(await store.tally(tenant, whole('job_1'))).toEqual({ kind: 'skip' })
    expect(await bindingOf(redis, tenant, 'key')).toEqual(before)
    expect(await redis.exists(jobRedisKeys(tenant, 'job_1').job)).toBe(0)
    const again = await store.claim(tenant, claim('job_2'))
    expect(again).toEqual({ kind: 'same', job: 'job_1', acceptByMs: 0, owner: '' })
    expect(await store.claim(tenant, claim('job_2', 'other'))).toEqual({ kind: 'reused' })
    const clock = await redisClock(redis)
    const findArchived = async () => ({ job })
    const notifications = await subscribeToJobs(connect())
    const outcomes = new OutcomeWaiter({ store, findArchived, notifications, clock })
    expect(await outcomes.wait({ tenant, job: 'job_1', acceptByMs: 0 }))
      .toEqual({ kind: 'accepted', job })
    outcomes.stop()
    clock.stop()
  })

  it('is free again after a refusal, and the old job stays refused', async () => {
    const tenant = await fundedTenant(1)
    await store.claim(tenant, claim('job_1'))
    const poor = acceptRequest('job_1', { idempotencyKey: 'key' })
    expect((await acceptClaimed(store, tenant, poor)).kind).toBe('refused')
    expect((await store.claim(tenant, claim('job_2', 'other'))).kind).toBe('new')
    expect((await acceptClaimed(store, tenant, poor)).kind).toBe('refused')
    expect(await store.refuse(tenant, 'job_2', 'internal'))
      .toEqual({ kind: 'refused', refusal: { code: 'internal' } })
    expect((await store.claim(tenant, claim('job_3'))).kind).toBe('new')
  })

  it('does not expire early', async () => {
    const tenant = await fundedTenant()
    await store.claim(tenant, claim('job_1'))
    expect(await store.refuse(tenant, 'job_1', 'expired')).toEqual({ kind: 'open' })
    expect(await store.outcome(tenant, 'job_1')).toEqual({ kind: 'open' })
    await accepted(store, tenant, acceptRequest('job_1', { idempotencyKey: 'key' }))
    expect(await store.refuse(tenant, 'job_1', 'internal')).toMatchObject({ kind: 'accepted' })
  })
})

describe('the states of a job', () => {
  it('only move forward', async () => {
    const tenant = await fundedTenant()
    const status = async () => (await store.read(tenant, 'job_1'))?.status
    await store.announce(tenant, 'job_1')
    expect(await store.batchAction(tenant, 'job_1')).toEqual({ action: 'skip' })
    expect(await redis.exists(jobRedisKeys(tenant, 'job_1').job)).toBe(0)
    await accepted(store, tenant, acceptRequest('job_1'))
    await store.announce(tenant, 'job_1')
    expect(await store.batchAction(tenant, 'job_1')).toEqual({ action: 'run' })
    expect(await status()).toBe('preparing')
    await store.tally(tenant, blockOf({ job: 'job_1', chunkRows: 10, inputs: true }, { live: [0] }))
    await store.announce(tenant, 'job_1')
    expect(await status()).toBe('verifying')
    expect(await store.close(tenant, 'job_1')).toBe(false)
    await store.tally(tenant, whole('job_1'))
    expect(await status()).toBe('completed')
    expect(await store.batchAction(tenant, 'job_1')).toEqual({ action: 'skip' })
  })

  it('include no live checks for a job without rows to check live', async () => {
    const tenant = await fundedTenant()
    await accepted(store, tenant, acceptRequest('job_1', { freshChecks: 0, cacheHits: 10 }))
    await store.announce(tenant, 'job_1')
    await store.tally(tenant, blockOf({ job: 'job_1', chunkRows: 10, inputs: true }, {}))
    expect((await store.read(tenant, 'job_1'))?.status).toBe('preparing')
  })
})

describe('an entry of the outbox', () => {
  /** Returns what brings Redis back to now: it loses what it does until then. */
  const keep = async (tenant: string, job: string) => {
    const keys = [moneyKeys(tenant).wallet, jobRedisKeys(tenant, job).job]
    for (const key of keys) await redis.copy(key, `${key}:kept`, 'REPLACE')
    return async () => {
      for (const key of keys) {
        await redis.del(key)
        await redis.copy(`${key}:kept`, key)
      }
    }
  }
  const accept = async (tenant: string, job: string) => {
    const answer = await acceptClaimed(store, tenant, acceptRequest(job))
    return answer.kind === 'accepted' ? answer.entry?.seq : undefined
  }
  const end = async (tenant: string, job: string) => {
    const answer = await store.tally(tenant, whole(job))
    return answer.kind === 'skip' ? undefined : answer.entry?.seq
  }
  const waiting = async (tenant: string) => (await outbox.pending(tenant)).map(({ seq }) => seq)

  it('stays if its number was that of a reservation that Redis lost', async () => {
    const tenant = await fundedTenant()
    const lose = await keep(tenant, 'job_1')
    expect(await accept(tenant, 'job_1')).toBe(2)
    await lose()
    expect(await accept(tenant, 'job_2')).toBe(2)
    await store.announce(tenant, 'job_1', 2)
    expect(await waiting(tenant)).toEqual([1, 2])
    await store.announce(tenant, 'job_2', 2)
    expect(await waiting(tenant)).toEqual([1])
  })

  it('stays if its number was that of an end that Redis lost', async () => {
    const tenant = await fundedTenant()
    await accept(tenant, 'job_1')
    const lose = await keep(tenant, 'job_1')
    expect(await end(tenant, 'job_1')).toBe(3)
    await lose()
    expect([await accept(tenant, 'job_2'), await end(tenant, 'job_1')]).toEqual([3, 4])
    await store.close(tenant, 'job_1', 3)
    expect(await waiting(tenant)).toEqual([1, 2, 3, 4])
    await store.close(tenant, 'job_1', 4)
    expect(await waiting(tenant)).toEqual([1, 2, 3])
  })
})

describe('the end of a job', () => {
  it('settles, waits to be closed, and is then a header for 10 minutes', async () => {
    const tenant = await fundedTenant()
    await accepted(store, tenant, acceptRequest('job_1'))
    const last = await store.tally(tenant, whole('job_1'))
    const { digest } = whole('job_1')
    const manifest = [
      { chunk: 0, digest, won: Buffer.of(255, 3), firstRow: 0, inputs: true, order: 1 },
    ]
    expect(last).toMatchObject({
      kind: 'counted',
      ended: true,
      entry: {
        type: 'settle', entryId: 'job_1:settle', amountMicros: 20_000, chargeMicros: 16_000,
      },
      manifest,
    })
    const resealed = { ...whole('job_1'), digest: 'e'.repeat(64) }
    expect(await store.tally(tenant, resealed))
      .toEqual({ ...last, kind: 'known', manifest: undefined })
    expect((await store.readWithManifest(tenant, 'job_1'))!.manifest).toEqual(manifest)
    const { job } = jobRedisKeys(tenant, 'job_1')
    await expectLifetime(redis, { key: job, ms: 600_000 }, async () => {
      expect(await store.close(tenant, 'job_1')).toBe(true)
      expect(await store.close(tenant, 'job_1')).toBe(true)
    })
    expect(await store.tally(tenant, whole('job_1'))).toEqual({ kind: 'skip' })
    expect(await store.read(tenant, 'job_1'))
      .toMatchObject({ status: 'completed', closed: true, announced: true })
    expect(await store.openJobs(tenant)).toEqual([])
  })

  it('changes nothing if less is reserved than the job needs, whatever ends it', async () => {
    const tenant = await fundedTenant()
    const keys = [moneyKeys(tenant).wallet, jobRedisKeys(tenant, 'job_1').job]
    const state = () => Promise.all(keys.map(key => redis.hgetall(key)))
    const failsToEnd = async (end: () => Promise<unknown>) => {
      const before = await state()
      await expect(end()).rejects.toThrow('the wallet has 1 micros reserved, the job needs 20000')
      expect(await state()).toEqual(before)
    }
    await accepted(store, tenant, acceptRequest('job_1'))
    await redis.hset(moneyKeys(tenant).wallet, 'reserved', '1')
    await failsToEnd(() => store.tally(tenant, whole('job_1')))
    const finished = (await store.unfinishedRows(tenant, 'job_1'))!
    await failsToEnd(() => store.fail(tenant, 'job_1', { digest: 'f'.repeat(64), finished }))
    await redis.hset(moneyKeys(tenant).wallet, 'frozen', 'why')
    await store.tally(tenant, whole('job_1'))
    await redis.hdel(moneyKeys(tenant).wallet, 'frozen')
    await failsToEnd(() => store.end(tenant, 'job_1'))
  })

  it('waits for the inputs of every chunk, even if they win no row', async () => {
    const tenant = await fundedTenant()
    await accepted(store, tenant, acceptRequest('job_1'))
    const rows = blockOf({ job: 'job_1', chunkRows: 10 }, { live: upTo(10) })
    expect(await store.tally(tenant, rows)).toMatchObject({ kind: 'counted', ended: false })
    const inputs = (label: string) =>
      blockOf({ job: 'job_1', chunkRows: 10, inputs: true, label }, {})
    expect(await store.tally(tenant, inputs('first'))).toMatchObject({ ended: true })
    expect(await store.tally(tenant, inputs('second')))
      .toMatchObject({ kind: 'known', ended: true })
    const noted = (await store.readWithManifest(tenant, 'job_1'))!.manifest
    expect(noted.map(({ digest }) => digest).sort())
      .toEqual([rows.digest, inputs('first').digest].sort())
  })

  it('fails a stalled job: one block for open rows, a charge for verified ones', async () => {
    const tenant = await fundedTenant()
    await accepted(store, tenant, acceptRequest('job_1', { freshChecks: 20, chunks: 2 }))
    const part = blockOf({ job: 'job_1', chunkRows: 7, chunk: 1, firstRow: 13 }, { live: [0, 6] })
    await store.tally(tenant, part)
    const open = (await store.unfinishedRows(tenant, 'job_1'))!
    expect(open).toEqual(Buffer.of(0xff, 0b11011111, 0b0111))
    const digest = 'a'.repeat(64)
    const failed = await store.fail(tenant, 'job_1', { digest, finished: open })
    expect(failed).toMatchObject({
      kind: 'counted',
      ended: true,
      entry: { type: 'settle', amountMicros: 40_000, chargeMicros: 4_000 },
      job: { status: 'failed', counts: { finishedRows: 20, successRecords: 2, failedRecords: 18 } },
    })
    expect(await store.fail(tenant, 'job_1', { digest, finished: open }))
      .toEqual({ ...failed, kind: 'known' })
    expect((await store.readWithManifest(tenant, 'job_1'))!.manifest.at(-1))
      .toEqual({ chunk: 2, digest, won: open, firstRow: 0, inputs: false, order: 2 })
    expect(await store.unfinishedRows(tenant, 'job_1')).toBeUndefined()
  })

  it('is not forced on a job that moved meanwhile, and void when nothing is charged', async () => {
    const tenant = await fundedTenant()
    await accepted(store, tenant, acceptRequest('job_1'))
    const before = (await store.unfinishedRows(tenant, 'job_1'))!
    await store.tally(tenant, blockOf({ job: 'job_1', chunkRows: 10 }, { unknown: [2] }))
    const fail = (finished: Buffer) =>
      store.fail(tenant, 'job_1', { digest: 'a'.repeat(64), finished })
    expect(await fail(before)).toMatchObject({ kind: 'known', ended: false })
    const now = (await store.unfinishedRows(tenant, 'job_1'))!
    expect(await fail(Buffer.of(now[0]! & 0b11111110, now[1]!))).toMatchObject({ ended: false })
    expect(await fail(now)).toMatchObject(
      { ended: true, entry: { type: 'void', entryId: 'job_1:void', chargeMicros: 0 } }
    )
    expect(await store.fail(tenant, 'job_none', { digest: '', finished: now }))
      .toEqual({ kind: 'skip' })
  })
})

it.each([
  ['a chunk the job lacks', { chunk: 1 }, 'chunk 1 of job job_1 does not exist (chunks 0-0)'],
  ['bitmaps of two lengths', { live: Buffer.of(1) }, 'live has 1 bytes, the bitmap finished 2'],
  ['a row with two outcomes', { invalid: Buffer.of(255, 3) }, '(the second is invalid)'],
  ['more rows than the job has', { finished: Buffer.of(255, 255) }, '16 finished rows of 10'],
])('a block that can not be true ' +
  '%s is refused before anything is written', async (_name, change, fault) => {
  const tenant = await fundedTenant()
  await accepted(store, tenant, acceptRequest('job_1'))
  const before = await store.read(tenant, 'job_1')
  await expect(store.tally(tenant, { ...whole('job_1'), ...change })).rejects.toThrow(fault)
  expect(await store.read(tenant, 'job_1')).toEqual(before)
  expect((await store.readWithManifest(tenant, 'job_1'))!.manifest).toEqual([])
})

it('a wait for an outcome on a real channel ' +
  'is notified of announce and of a refusal, and ends at acceptBy', async () => {
  const clock = await redisClock(redis)
  const notifications = await subscribeToJobs(connect())
  const outcomes = new OutcomeWaiter({ store, notifications, clock, pollMs: 60_000 })
  const tenant = await fundedTenant(20_000)
  const acceptByMs = clock.now() + 60_000
  const waitFor = (job: string) => outcomes.wait({ tenant, job, acceptByMs })
  const [one, other] = [waitFor('job_1'), waitFor('job_2')]
  await accepted(store, tenant, acceptRequest('job_1'))
  await store.announce(tenant, 'job_1')
  expect(await one).toMatchObject({ kind: 'accepted', job: { status: 'preparing' } })
  await acceptClaimed(store, tenant, acceptRequest('job_2'))
  expect(await other).toMatchObject({ refusal: { code: 'insufficient_balance' } })
  const request = {
    job: 'job_3',
    idempotencyKey: '',
    fingerprint: '',
    acceptWithinMs: 30,
    wrappedKey: Buffer.of(1),
  }
  const claim = await store.claim(tenant, request)
  if (claim.kind !== 'new') throw new Error(claim.kind)
  expect(await outcomes.wait({ tenant, job: 'job_3', acceptByMs: claim.acceptByMs }))
    .toEqual({ kind: 'refused', refusal: { code: 'expired' } })
  expect(clock.now()).toBeGreaterThanOrEqual(claim.acceptByMs)
  outcomes.stop()
  clock.stop()
})

const TENANT = await fundedTenant()

describe('the deadline of a job, and the API key of its request', () => {
  it('are those of its claim, and reach its job, its batches and the journal', async () => {
    const terms = { endWithinMs: 90_000, apiKey: 'key_1' }
    const claimed = await store.claim(TENANT, jobClaim('job_1', terms))
    if (claimed.kind !== 'new') throw new Error(claimed.kind)
    const deadlineMs = claimed.nowMs + 90_000
    const answer = await store.accept(TENANT, acceptRequest('job_1'))
    if (answer.kind !== 'accepted') throw new Error(answer.kind)
    expect(answer.job).toMatchObject({ deadlineMs, apiKey: 'key_1' })
    // What a lost job is rebuilt from.
    expect(JSON.parse(answer.entry?.reason ?? '{}'))
      .toMatchObject({ deadlineMs: String(deadlineMs), apiKey: 'key_1' })
    expect(await store.batchAction(TENANT, 'job_1')).toEqual({ action: 'run', deadlineMs })
    expect(await store.tally(TENANT, whole('job_1')))
      .toMatchObject({ ended: true, job: { deadlineMs, apiKey: 'key_1' } })
  })

  it('are none without the options', async () => {
    const { deadlineMs, apiKey } = await accepted(store, TENANT, acceptRequest('job_2'))
    expect([deadlineMs, apiKey]).toEqual([undefined, undefined])
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
    const { job: key } = jobRedisKeys(TENANT, 'job_2')
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
    expect(await redis.pttl(jobRedisKeys(TENANT, 'job_3').waiting)).toBeGreaterThan(2 * 86_400_000)
    await redis.hset(jobRedisKeys(TENANT, 'job_3').job, 'ended', '1')
    expect(await store.close(TENANT, 'job_3')).toBe(true)
    expect(await store.waitingRows(TENANT, 'job_3')).toBeUndefined()
    for (const job of ['job_3', 'job_of_a_lost_redis']) {
      await record(job)
      expect(await store.waitingRows(TENANT, job)).toBeUndefined()
    }
  })
})

describe('data keys', () => {
  it('are wrapped, and last three days from the claim on', async () => {
    const tenant = await fundedTenant()
    const { dataKey } = jobRedisKeys(tenant, 'job_1')
    const { key, wrapped } = await jobKeysOf({ redis }).create(tenant, 'job_1')
    await expectLifetime(redis, { key: dataKey, ms: 72 * 3_600_000 }, async () =>
      await acceptClaimed(store, tenant, { ...acceptRequest('job_1'), wrappedKey: wrapped }))
    expect(await redis.getBuffer(dataKey)).toEqual(wrapped)
    expect(wrapped.includes(key)).toBe(false)
    const other = jobKeysOf({ redis })
    expect(await other.get(tenant, 'job_1')).toEqual(key)
    await redis.copy(dataKey, jobRedisKeys(tenant, 'job_2').dataKey)
    await expect(other.get(tenant, 'job_2')).rejects.toThrow('decryption failed')
  })

  it('are deleted by a refusal', async () => {
    const tenant = await fundedTenant(1)
    for (const job of ['job_1', 'job_2']) {
      const { dataKey } = jobRedisKeys(tenant, job)
      await store.claim(tenant, jobClaim(job))
      expect(await redis.exists(dataKey)).toBe(1)
      if (job === 'job_1') await store.refuse(tenant, job, 'internal')
      else await store.accept(tenant, acceptRequest(job))
      expect(await store.outcome(tenant, job)).toMatchObject({ kind: 'refused' })
      expect(await redis.exists(dataKey)).toBe(0)
    }
  })
})
