import { beforeEach, describe, expect, it } from 'vitest'
import type { Attempt } from '../../services/webhooks/deliveries.ts'
import { deriveEventId } from '../../services/webhooks/event.ts'
import { jobRedisKeys } from '../../services/jobs/job-record.ts'
import { MissingOrganizationKeyError } from '../../services/runtime/crypto/key-ring.ts'
import { InfrastructureError } from '../../services/runtime/platform/errors.ts'
import { moneyKeys } from '../../services/money/redis-keys.ts'
import { republish } from '../../services/ledger/restore-deliveries.ts'
import { acceptClaimed, accepted, acceptRequest, bindingOf, jobClaim } from '../support/jobs.ts'
import { startLockedRedis } from '../support/redis/redis.ts'
import { unlockAll } from '../support/redis/unlock.ts'
import { endRun, putBack, snapshotOf } from '../support/redis/content.ts'
import { createScenario, type Scenario } from '../support/recovery/recovery-scenario.ts'
import {
  createRecoveryEnvironment, entriesOf, type LedgerDeps, runLedger, snapshotAll,
} from '../support/recovery/recovery-environment.ts'
import { deliveryAttempt } from '../support/webhooks/deliveries.ts'

const { redis } = await startLockedRedis()
const TENANT = 'org_a.live'
const KEY = '0b2f0b86-6a3f-4f0e-9a44-6f3f6b0d3a01'

let environment: ReturnType<typeof createRecoveryEnvironment>
let scenario: Scenario
beforeEach(async () => {
  await redis.flushall()
  environment = createRecoveryEnvironment(redis)
  scenario = createScenario(redis, environment, TENANT)
  await unlockAll(redis, [TENANT])
  await scenario.act({ do: 'topUp', id: 1, micros: 9_000 })
})

const slots = () => redis.hget(moneyKeys(TENANT).wallet, 'slots')

const tally = { do: 'tally', unknown: [], inputs: true, late: false } as const

/** A job of 10 rows, 2 of which are charged, that has come to its end. */
async function settled (id: string): Promise<void> {
  await scenario.accept(id, 100)
  await scenario.act({ ...tally, job: id, live: [0, 1] })
  await scenario.finish(id)
}

it('a running job is the one that was accepted, before anything of it was counted', async () => {
  const feed = {
    partner: 'acme', partition: 3, cursor: 'c', from: -1, to: 8, unitPriceMicros: null,
  }
  await accepted(scenario.store, TENANT, acceptRequest('job_1', {
    service: 'whatsapp',
    lane: 'bulk',
    chunks: 2,
    cacheHits: 5,
    invalidRows: 3,
    duplicateRows: 2,
    unitPriceMicros: 4,
    forceFresh: true,
    header: Buffer.from('sealed'),
    events: ['job.progress'],
    feed,
  }))
  await scenario.ship(false)
  const recordOf = async () => await redis.hgetall(jobRedisKeys(TENANT, 'job_1').job)
  // The claim is not in the journal.
  const {
    claimedAt: _, claimedIn: _in, fingerprint: _print, owner: _owner, quoteOnly: _quote, ...before
  } = await recordOf()
  await redis.flushall()
  await runLedger(environment.deps)
  expect(await recordOf()).toEqual({
    ...before,
    status: 'verifying',
    rebuilt: '1',
    acceptBy: expect.any(String),
    updatedAtMs: expect.any(String),
  })
})

describe('a job whose entries have no terms, as those of old releases', () => {
  /** Ships the entries with the reasons that they had then. */
  const shipOld = async () => {
    const entries = await scenario.outbox.pending(TENANT)
    await environment.emitter.emit(entries.map(({ text: _, ...entry }) => {
      const value = { ...entry, reason: '' }
      return { topic: 'wallet.journal', lane: 'small', value, rows: undefined }
    }))
    await scenario.outbox.remove(TENANT, entries)
  }
  const frozen = () => redis.hget(moneyKeys(TENANT).wallet, 'frozen')

  it('stays as it is in Redis, and freezes a wallet without it', async () => {
    await scenario.accept('job_1', 100)
    await shipOld()
    await endRun(redis)
    await runLedger(environment.deps)
    expect([await frozen(), (await scenario.store.read(TENANT, 'job_1'))?.status])
      .toEqual([null, 'queued'])
    await redis.flushall()
    await runLedger(environment.deps)
    expect(await frozen()).toBe('no entry describes the open job job_1')
  })

  it('is closed from the archive once it has ended, counted where Redis has it, or left out',
    async () => {
      await scenario.accept('job_3', 100)
      const old = await snapshotOf(redis)
      for (const id of ['job_1', 'job_2']) await settled(id)
      await scenario.finish('job_3')
      await shipOld()
      await scenario.archive('job_1', true)
      await putBack(redis, old)
      await runLedger(environment.deps)
      expect(await frozen()).toBe(null)
      const jobs = await Promise.all(['job_1', 'job_2', 'job_3'].map(id =>
        scenario.store.read(TENANT, id)))
      expect(jobs.map(job => [job?.ended, job?.closed]))
        .toEqual([[true, true], [undefined, undefined], [true, false]])
    })
})

describe('blocks that are counted again', () => {
  const ended = async (...ids: readonly string[]) => await Promise.all(ids.map(async id =>
    (await scenario.store.read(TENANT, id))?.ended))
  const messages = () => environment.logged.map(([, message]) => message)
  beforeEach(async () => {
    for (const id of ['job_1', 'job_2']) await settled(id)
    await scenario.ship(false)
    await redis.flushall()
  })

  it('are stored, and those that cannot be decoded or tallied cost no other', async () => {
    const headers = { tenant: TENANT, job: 'job_1' }
    await environment.bus.producer('any').send([{
      topic: 'rows.completed.small', key: 'job_1', value: Buffer.from('garbage'), headers,
    }])
    const { tally } = environment.deps.store
    const store: LedgerDeps['store'] = {
      tally: async (tenant, block, options) => {
        if (block.job === 'job_2') throw new Error('no such chunk')
        return await tally(tenant, block, options)
      },
    }
    await runLedger({ ...environment.deps, store })
    expect(await ended('job_1', 'job_2')).toEqual([true, false])
    expect(new Set(environment.blocks.stored.map(({ job }) => job)))
      .toEqual(new Set(['job_1', 'job_2']))
    expect(messages()).toContain(
      'recount skipped a block that cannot be decoded; settle dead-lettered it before')
    expect(messages()).toContain('recount skipped a block that cannot be tallied; its rows stay ' +
      'open until ledger fails the job')
  })

  it('of an organization that lacks a key wait for it, and others are counted', async () => {
    const { messageCodec } = environment.deps
    const decode: typeof messageCodec.decode = async raw => {
      if (raw.headers['job'] === 'job_1') {
        throw new MissingOrganizationKeyError('no key', { wraps: 'rows', advice: 'wait' })
      }
      return await messageCodec.decode(raw)
    }
    const { recounts } = moneyKeys(TENANT)
    await runLedger({ ...environment.deps, messageCodec: { decode } })
    expect([await ended('job_1', 'job_2'), await redis.hkeys(recounts)])
      .toEqual([[false, true], ['job_1']])
    expect(messages().filter(text => text.startsWith('recount of a job waits for a key')).length)
      .toBe(1)
    await runLedger(environment.deps)
    expect([await ended('job_1', 'job_2'), await redis.exists(recounts)]).toEqual([[true, true], 0])
  })

  it('wait while a store does not respond', async () => {
    const tally = async () => { throw new InfrastructureError('away') }
    await expect(runLedger({ ...environment.deps, store: { tally } })).rejects.toThrow('away')
    await runLedger(environment.deps)
    expect(await ended('job_1', 'job_2')).toEqual([true, true])
  })
})

describe('a job that has ended and is not archived', () => {
  it('is counted to its end again, and its money moves once', async () => {
    await settled('job_1')
    await scenario.ship(false)
    const before = await scenario.wallet.balance(TENANT)
    const blocks = (await scenario.store.readWithManifest(TENANT, 'job_1'))!.manifest
    expect(before).toMatchObject({ chargedMicros: 200, reservedMicros: 0, seq: 3 })
    await redis.flushall()
    await runLedger(environment.deps)
    expect(await scenario.wallet.balance(TENANT)).toEqual(before)
    expect((await scenario.store.readWithManifest(TENANT, 'job_1'))!.manifest).toEqual(blocks)
    expect(await scenario.store.read(TENANT, 'job_1')).toMatchObject({
      status: 'completed', ended: true, closed: false, chargedMicros: 200, releasedMicros: 800,
    })
    expect(await scenario.outbox.pending(TENANT)).toEqual([])
    // The process that closes ended jobs finds it, and archives it.
    await scenario.archive('job_1', true)
    const archived = await environment.deps.archive.findAll([TENANT], ['job_1'])
    expect(archived.get('job_1')).toMatchObject({
      id: 'job_1', chargedMicros: 200, counts: { freshRecords: 2, finishedRows: 10 },
    })
    expect((await scenario.store.read(TENANT, 'job_1'))?.closed).toBe(true)
  })

  it.each([
    ['nothing', false], ['an old file', true],
  ])('keeps its charge in a Redis with %s though it failed at first', async (_, hasFile) => {
    await scenario.accept('job_1', 100)
    const old = hasFile ? await snapshotOf(redis) : []
    await scenario.act({ ...tally, job: 'job_1', live: [0, 1, 2] })
    await scenario.act({ do: 'fail', job: 'job_1' })
    await scenario.ship(false)
    await putBack(redis, old)
    await runLedger(environment.deps)
    expect(await scenario.store.read(TENANT, 'job_1')).toMatchObject({
      ended: false, counts: { finishedRows: 3 },
    })
    expect(await slots()).toBe('0')
    // A snapshot has its end, and Redis restarts before it has ended.
    await snapshotAll(environment.deps)
    await endRun(redis)
    await runLedger(environment.deps)
    expect(await redis.hget(moneyKeys(TENANT).wallet, 'frozen')).toBe(null)
    await scenario.act({ do: 'fail', job: 'job_1' })
    expect(await scenario.store.read(TENANT, 'job_1')).toMatchObject({
      status: 'failed', chargedMicros: 300, releasedMicros: 700,
    })
    expect(await scenario.wallet.balance(TENANT)).toMatchObject({ chargedMicros: 300, seq: 3 })
  })
})

describe('a job that is archived', () => {
  const attempt = (outcome: Attempt['outcome']) => deliveryAttempt({
    tenant: TENANT, job: 'job_1', event: deriveEventId('job_1', 'job.completed'), outcome,
  })

  it.each([
    ['delivered', 'not again', 0], ['exhausted', 'not again', 0], ['failed', 'once more', 1],
    ['nowhere', 'once more', 1],
  ] as const)('whose event was %s is back, and announced %s', async (outcome, _, times) => {
    await settled('job_1')
    await scenario.archive('job_1', true)
    const before = await scenario.store.read(TENANT, 'job_1')
    const events = () => new Set(environment.bus.messages('jobs.settled').map(({ value }) =>
      value!.toString('hex')))
    const announced = environment.bus.messages('jobs.settled').length
    if (outcome !== 'nowhere') environment.attempts.push(attempt(outcome))
    await redis.flushall()
    await runLedger(environment.deps)
    expect(await scenario.store.read(TENANT, 'job_1'))
      .toEqual({ ...before, updatedAtMs: expect.any(Number) as number })
    expect([await scenario.store.openJobs(TENANT), await slots()]).toEqual([[], '0'])
    expect(await redis.pttl(jobRedisKeys(TENANT, 'job_1').job)).toBeLessThanOrEqual(600_000)
    // The bus may bring a message twice; the repetition says the same.
    expect(Math.sign(environment.bus.messages('jobs.settled').length - announced)).toBe(times)
    expect(events().size).toBe(1)
  })

  it('and that Redis has forgotten since is neither restored nor announced again', async () => {
    await settled('job_1')
    await scenario.archive('job_1', true)
    await scenario.ship(false)
    await redis.del(jobRedisKeys(TENANT, 'job_1').job)
    const announced = environment.bus.messages('jobs.settled').length
    await endRun(redis)
    await runLedger(environment.deps)
    expect(await scenario.store.read(TENANT, 'job_1')).toBeUndefined()
    expect(environment.bus.messages('jobs.settled')).toHaveLength(announced)
  })

  it('is closed where an old file has it open, however long ago it ended', async () => {
    await scenario.accept('job_1', 100)
    const old = await snapshotOf(redis)
    await scenario.finish('job_1')
    await scenario.archive('job_1', true)
    await putBack(redis, old)
    const nowMs = Date.now() + 48 * 3_600_000
    await runLedger({ ...environment.deps, clock: { now: () => nowMs } })
    expect((await scenario.store.read(TENANT, 'job_1'))?.closed).toBe(true)
    expect(await scenario.store.openJobs(TENANT)).toEqual([])
  })

  it('that has not ended has no event', async () => {
    await scenario.accept('job_1', 100)
    await republish(environment.deps, [(await scenario.store.read(TENANT, 'job_1'))!])
    expect(environment.bus.messages('jobs.settled')).toEqual([])
  })
})

describe('a request', () => {
  const claim = (job: string, fingerprint = 'f') =>
    scenario.store.claim(TENANT, jobClaim(job, { idempotencyKey: KEY, fingerprint }))

  it.each([['runs', false], ['is archived', true]])(
    'is answered with its job, which %s, when it is sent again', async (_, isArchived) => {
      await claim('job_1')
      await acceptClaimed(scenario.store, TENANT, acceptRequest('job_1', {
        idempotencyKey: KEY, unitPriceMicros: 100,
      }))
      if (isArchived) {
        await scenario.finish('job_1')
        await scenario.archive('job_1', true)
      }
      await scenario.ship(false)
      const before = await bindingOf(redis, TENANT, KEY)
      await redis.flushall()
      await runLedger(environment.deps)
      expect(await claim('job_2')).toMatchObject({ kind: 'same', job: 'job_1' })
      expect(await bindingOf(redis, TENANT, KEY)).toEqual(before)
      expect(await slots()).toBe(isArchived ? '0' : '1')
      expect(await claim('job_2', 'g')).toEqual({ kind: 'reused' })
    })
  it('gets its old job for a day, and the job is there for an hour more', async () => {
    await claim('job_1')
    await acceptClaimed(scenario.store, TENANT, acceptRequest('job_1', {
      idempotencyKey: KEY, unitPriceMicros: 100,
    }))
    await scenario.finish('job_1')
    await scenario.archive('job_1', true)
    await scenario.ship(false)
    const entries = await entriesOf(environment, TENANT)
    const { claimedAt } = JSON.parse(entries[1]!.reason) as { readonly claimedAt: string }
    const after = async (hours: number, more: number) => {
      const nowMs = Number(claimedAt) + hours * 3_600_000 + more
      await redis.flushall()
      await runLedger({ ...environment.deps, clock: { now: () => nowMs } })
      const job = await scenario.store.read(TENANT, 'job_1')
      return [await bindingOf(redis, TENANT, KEY) !== undefined, job !== undefined]
    }
    expect(await after(24, -1)).toEqual([true, true])
    expect(await after(24, 0)).toEqual([false, true])
    expect(await after(26, 0)).toEqual([false, false])
  })
})
