import { beforeEach, describe, expect, it } from 'vitest'
import { jobRedisKeys } from '../../../services/jobs/job-record.ts'
import { createMessageCodec } from '../../../services/jobs/message-codec.ts'
import { toTallyBlock } from '../../../services/jobs/results/block.ts'
import { storeBlock } from '../../../services/jobs/results/finish-job.ts'
import { createJobStore } from '../../../services/jobs/store.ts'
import {
  type Owned, Owners, Takeover, type TakeoverDeps,
} from '../../../services/ledger/takeover.ts'
import { FAILED_TAKEOVERS_KEY, moneyKeys } from '../../../services/money/redis-keys.ts'
import { createOutbox, createTenants, createWallet } from '../../../services/money/wallet.ts'
import { MissingKeyError } from '../../../services/runtime/crypto/key-ring.ts'
import { SealError } from '../../../services/runtime/crypto/seal.ts'
import type { Emission } from '../../../services/runtime/engine/stage.ts'
import { FatalError, InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import {
  blockEmission, codec, createBlocksDouble, live, messageCodec,
} from '../../support/clickhouse/results.ts'
import { accepted, acceptRequest } from '../../support/jobs.ts'
import { emptyRedis, workerRedis as redis } from '../../support/redis/worker.ts'
import { unlockAll } from '../../support/redis/unlock.ts'
import { createManualClock, JOB, TENANT } from '../../support/stage-messages.ts'

const store = createJobStore(redis)
const outbox = createOutbox(redis)
const wallet = createWallet(redis)
const MONEY = { id: 'first', amountMicros: 1_000_000, reason: '' }
const clearOutbox = async () => await outbox.remove(TENANT, await outbox.pending(TENANT))

beforeEach(async () => {
  await emptyRedis()
  await unlockAll(redis, [TENANT])
  // A wallet marks its tenant once.
  await createTenants(redis).activate([TENANT])
  await wallet.topUp(TENANT, MONEY)
  await clearOutbox()
})

type OpenJob = {
  readonly isEnded?: boolean
  readonly idleMs?: number
  readonly rowsIdleMs?: number
  /** When rows that wait for a host are due; none wait if left out. */
  readonly dueInMs?: number
}

/** A ledger on the real Redis; `run` takes over, what it does elsewhere is recorded. */
function setUp ({ isOwned = false, waits = false } = {}) {
  const clock = createManualClock(Date.now())
  const blocks = createBlocksDouble()
  const emitted: Emission[] = []
  const [archived, counts]: [string[], string[]] = [[], []]
  const logged: unknown[] = []
  const asked: Owned[] = []
  const deps: TakeoverDeps = {
    clock,
    blocks,
    outbox,
    redis,
    store,
    log: { warn: () => {}, error: (fields: unknown) => { logged.push(fields) } } as never,
    metrics: {
      count: (name, labels, more = 1) => { counts.push(`${Object.values(labels).join()} ${more}`) },
      watch: () => {},
    },
    orphanAgeMs: 2_000,
    stalledAfterMs: 60_000,
    tenants: createTenants(redis),
    emitter: { emit: async (all) => { emitted.push(...all) } },
    archive: {
      save: async jobs => { archived.push(...jobs.map(({ job }) => `${job.id} ${job.status}`)) },
    },
    owners: {
      findOrphans: async owned => {
        asked.push(...owned)
        return new Set(isOwned ? [] : owned.map(({ id }) => id))
      },
    },
    backlog: { mayContain: async () => waits },
    messageCodec,
    codec,
  }
  /** Rows of the job end, in a block of theirs. */
  const count = async (...rows: readonly number[]) => {
    const block = blockEmission({ chunk: 0, chunks: 1, firstRow: 0, rows: 4, totalRows: 4 },
      rows.map(row => [row, live('')]), { inputs: ['', '', '', ''] })
    await store.tally(TENANT, toTallyBlock(await storeBlock(deps, block)))
  }
  /** A job of four rows that is open for so long, of which two have ended before, or all. */
  const openJob = async (
    { isEnded = false, idleMs = 90_000, rowsIdleMs = 100_000, dueInMs }: OpenJob = {}
  ) => {
    await accepted(store, TENANT, acceptRequest(JOB, { freshChecks: 4 }))
    await count(0, 3)
    if (isEnded) await count(1, 2)
    await redis.hset(moneyKeys(TENANT).wallet, `open:${JOB}`, clock.now() - idleMs)
    await redis.hset(jobRedisKeys(TENANT, JOB).job, 'updatedAtMs', clock.now() - rowsIdleMs)
    if (dueInMs === undefined) return
    const waiting = { reasons: { greylisted: 1 }, lastDueMs: clock.now() + dueInMs }
    await store.recordWaiting({ tenant: TENANT, job: JOB, batch: { chunk: 0, batch: 0 }, waiting })
  }
  /** The outbox, whose entries have these ages. */
  const aged = (...ages: readonly number[]): TakeoverDeps['outbox'] => ({
    ...outbox,
    pending: async tenant => (await outbox.pending(tenant)).map((entry, index) =>
      ({ ...entry, at: clock.now() - (ages[index] ?? 0) })),
  })
  const run = (change: Partial<TakeoverDeps> = {}) => new Takeover({ ...deps, ...change }).run()
  return {
    deps, clock, run, blocks, emitted, archived, counts, asked, logged, count, openJob, aged,
  }
}

const pendingSeqs = async () => (await outbox.pending(TENANT)).map(({ seq }) => seq)
const isClosed = async () => (await store.read(TENANT, JOB))?.closed

describe('a takeover', () => {
  it('ships orphaned entries, and leaves young ones to their process', async () => {
    const { run, emitted, counts, aged } = setUp()
    for (const job of ['job_1', 'job_2', 'job_3']) {
      await accepted(store, TENANT, acceptRequest(job))
    }
    await run({ outbox: aged(5_000, 2_000, 1_999) })
    expect(emitted.map(({ value }) => 'seq' in value && value.seq)).toEqual([2, 3])
    expect([await pendingSeqs(), counts]).toEqual([[4], ['entry 2']])
  })

  it('leaves old entries and ended jobs to the stage that made them', async () => {
    const { run, emitted, archived, asked, openJob, aged } = setUp({ isOwned: true })
    await openJob({ isEnded: true })
    expect(await run({ outbox: aged(5_000, 5_000) })).toBe(0)
    expect([emitted, archived, await pendingSeqs()]).toEqual([[], [], [2, 3]])
    expect(asked.map(({ id, stage, lane }) => [id.split(' ')[0], stage, lane])).toEqual([
      ['entry', 'lookup', 'small'], ['entry', 'settle', 'small'], ['job', 'settle', 'small'],
    ])
  })

  it('ships a movement without a job at once, as no stage does', async () => {
    const { run, asked, aged } = setUp({ isOwned: true })
    await wallet.topUp(TENANT, { ...MONEY, id: 'second' })
    await run({ outbox: aged(0) })
    expect([await pendingSeqs(), asked]).toEqual([[], []])
  })

  it('ships it first in a round, whatever fails or takes long behind it', async () => {
    const { run, openJob, deps } = setUp()
    await openJob({ isEnded: true })
    await clearOutbox()
    const down = async () => { throw new InfrastructureError('down') }
    const failing: readonly Partial<TakeoverDeps>[] = [
      { owners: { findOrphans: down } }, { tenants: { active: down } },
      { redis: { ...deps.redis, hgetall: down } },
    ]
    for (const [index, change] of failing.entries()) {
      await wallet.topUp(TENANT, { ...MONEY, id: `top-up ${index}` })
      await expect(run(change)).rejects.toThrow('down')
      expect(await pendingSeqs()).toEqual([])
    }
  })

  it.each<readonly [string, OpenJob]>([
    ['an ended job that is young', { isEnded: true, idleMs: 1_999 }],
    ['a job that is young', { idleMs: 59_999 }],
    ['a job with progress', { rowsIdleMs: 59_999 }],
    ['a job with rows that wait for a host', { dueInMs: 7_200_000 }],
    ['a job with rows that were due a moment ago', { dueInMs: -59_999 }],
  ])('leaves %s', async (_, job) => {
    const { run, openJob, emitted, archived, counts } = setUp()
    await openJob(job)
    await clearOutbox()
    await run()
    expect([await isClosed(), emitted, archived, counts]).toEqual([false, [], [], []])
  })

  it('leaves a job with rows in a topic', async () => {
    const { run, openJob } = setUp({ waits: true })
    await openJob()
    await run()
    expect(await isClosed()).toBe(false)
  })

  it('closes an ended job that is still open', async () => {
    const { run, openJob, emitted, archived, counts } = setUp()
    await openJob({ isEnded: true, idleMs: 2_000 })
    await clearOutbox()
    expect(await run()).toBe(0)
    expect([await isClosed(), archived, counts]).toEqual([true, [`${JOB} completed`],
      ['ended_job 1']])
    expect(emitted.map(({ topic }) => topic)).toEqual(['jobs.settled'])
  })

  it.each<readonly [string, OpenJob]>([
    ['a stalled job', { idleMs: 60_000, rowsIdleMs: 60_000 }],
    ['a job whose waiting rows nobody carries on', { dueInMs: -60_000 }],
  ])('fails %s: its open rows end unknown in one block of all', async (_, job) => {
    const { run, openJob, emitted, archived, counts, blocks } = setUp()
    await openJob(job)
    await clearOutbox()
    expect(await run()).toBe(1)
    expect([archived, counts]).toEqual([[`${JOB} failed`], ['stalled_job 1']])
    expect(emitted.map(({ topic }) => topic)).toEqual(['jobs.settled', 'wallet.journal'])
    expect(await store.read(TENANT, JOB)).toMatchObject({
      closed: true, chargedMicros: 4_000, releasedMicros: 4_000, counts: { unknownRecords: 2 },
    })
    expect(blocks.stored.slice(1))
      .toMatchObject([{ chunk: 1, firstRow: 0, rows: 4, inputs: false, finished: Buffer.of(6) }])
  })

  it('fails a stalled job whatever its stage has to do: it owns complete ones', async () => {
    const { run, openJob, asked } = setUp({ isOwned: true })
    await openJob()
    await clearOutbox()
    await run()
    expect([await isClosed(), asked]).toEqual([true, []])
  })

  it.each([
    ['whose block cannot be stored', new InfrastructureError('down')],
    ['whose organization lacks a key',
      new MissingKeyError('no key', { wraps: 'rows', advice: 'restart ledger' })],
  ])('retries a stalled job %s, and goes on', async (_, error) => {
    const { run, openJob, archived, logged } = setUp()
    await openJob()
    await run({ messageCodec: { ...messageCodec, encode: async () => { throw error } } })
    expect([logged.length, archived, (await store.read(TENANT, JOB))?.ended])
      .toEqual([1, [], false])
  })

  it('leaves operators time to replay the letters of a job that can be read again', async () => {
    const { clock, run, openJob } = setUp()
    await openJob()
    const unavailable = async () => { throw new InfrastructureError('down') }
    await run({ store: { ...store, read: async () => { throw new Error('WRONGTYPE') } } })
    // Its server does not respond, and then another ledger leads.
    clock.advance(30_000)
    await run({ store: { ...store, openJobs: unavailable } })
    clock.advance(59_999)
    await run()
    expect(await isClosed()).toBe(false)
    clock.advance(1)
    await run()
    expect(await isClosed()).toBe(true)
    await run()
    expect(await redis.hgetall(FAILED_TAKEOVERS_KEY)).toEqual({})
  })

  it('goes on when the jobs of one tenant cannot be listed', async () => {
    const { run, openJob } = setUp()
    await openJob()
    const active = async () => ['org_x.live', TENANT].map(tenant => ({ tenant, sinceMs: 0 }))
    await redis.set(moneyKeys('org_x.live').wallet, 'no hash')
    await run({ tenants: { active } })
    expect(await isClosed()).toBe(true)
  })

  it('ends a stalled job without a block if its key is inconsistent', async () => {
    const { run, openJob, blocks, logged } = setUp()
    await openJob()
    const error = new SealError('changed')
    const lacking = createMessageCodec({ codec, keys: { get: async () => { throw error } } })
    await run({ messageCodec: lacking })
    expect([await isClosed(), blocks.stored.length]).toEqual([true, 1])
    expect(logged).toEqual([{ tenant: TENANT, job: JOB, err: error }])
  })

  it('does not end a job that made progress meanwhile', async () => {
    const { deps, run, openJob, count, archived } = setUp()
    await openJob()
    const insert: TakeoverDeps['blocks']['insert'] = async blocks => {
      await deps.blocks.insert(blocks)
      await count(1)
    }
    await run({ blocks: { ...deps.blocks, insert } })
    expect([(await store.read(TENANT, JOB))?.ended, archived]).toEqual([false, []])
  })
})

/** Takes over in a loop; `fatal` resolves with what ends it. */
function start (deps: TakeoverDeps) {
  const fatal = Promise.withResolvers<unknown>()
  const takeover = new Takeover(deps)
  takeover.start({ isLeader: () => true, fatal: fatal.resolve, everyMs: 1 })
  return { takeover, fatal: fatal.promise }
}

describe('the loop of takeovers', () => {
  it('is not ready after a failed run, and continues', async () => {
    let rounds = 0
    const [failed, rested] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const active = async () => {
      rounds += 1
      if (rounds === 1) throw new Error('down')
      if (rounds === 2) await failed.promise
      if (rounds === 4) rested.resolve()
      return []
    }
    const { takeover } = start({ ...setUp().deps, tenants: { active } })
    expect(takeover.ready()).toBe(true)
    await expect.poll(() => takeover.ready()).toBe(false)
    failed.resolve()
    await rested.promise
    expect(takeover.ready()).toBe(true)
    await takeover.stop()
  })

  it('ends with the process when the key ring lacks a key', async () => {
    const { deps, openJob } = setUp()
    await openJob()
    const lacking = new FatalError('RESULTS_ROOT_KEYS lacks key "7"')
    const { takeover, fatal } = start({
      ...deps, messageCodec: { ...messageCodec, encode: async () => { throw lacking } },
    })
    expect(await fatal).toBe(lacking)
    expect([takeover.ready(), (await store.read(TENANT, JOB))?.ended]).toEqual([false, false])
    await takeover.stop()
  })
})

const ENTRY: Owned = { id: 'entry', stage: 'lookup', lane: 'small' }
const ENDED_JOB: Owned = { id: 'job', stage: 'settle', lane: 'small' }

/** A topic of two partitions, each with a committed offset and an end. */
function createOwners () {
  const partitions = [{ offset: 5, end: 5 }, { offset: 3, end: 4 }]
  const asked: string[] = []
  let nowMs = 0
  const owners = new Owners({
    readOffsets: async groups => {
      asked.push(...groups)
      return groups.flatMap(group => partitions.map(({ offset, end }, partition) =>
        ({ stage: 'settle' as const, group, topic: group, partition, offset, lag: end - offset })))
    },
    now: () => nowMs,
  })
  return {
    asked,
    find: async (...owned: readonly Owned[]) => [...await owners.findOrphans(owned)],
    move: (partition: number, change: { offset?: number, end?: number }) => {
      Object.assign(partitions[partition]!, change)
    },
    pass: (ms: number) => { nowMs += ms },
  }
}

describe('an unfinished entry or job', () => {
  it('is an orphan once its stage has committed all that there was', async () => {
    const { find, move, asked } = createOwners()
    move(0, { end: 6 })
    expect(await find(ENDED_JOB)).toEqual([])
    move(0, { offset: 6 })
    expect(await find(ENDED_JOB)).toEqual([])
    move(1, { offset: 4, end: 9 })
    expect(await find(ENDED_JOB)).toEqual(['job'])
    expect(new Set(asked)).toEqual(new Set(['settle.small']))
  })

  it('is none of a slow stage that makes progress, however long it takes', async () => {
    const { find, move, pass } = createOwners()
    move(1, { end: 100 })
    expect(await find(ENDED_JOB)).toEqual([])
    for (let offset = 4; offset < 100; offset++) {
      pass(299_000)
      move(1, { offset })
      expect(await find(ENDED_JOB)).toEqual([])
    }
  })

  it('is an orphan of a stage that is behind and commits nothing for five minutes', async () => {
    const { find, pass } = createOwners()
    await find(ENDED_JOB)
    pass(299_999)
    expect(await find(ENDED_JOB)).toEqual([])
    pass(1)
    expect(await find(ENDED_JOB)).toEqual(['job'])
  })

  it('is none of a stage whose topic was empty for long', async () => {
    const { find, move, pass } = createOwners()
    move(1, { offset: 4 })
    await find(ENTRY)
    pass(600_000)
    await find(ENTRY)
    move(1, { end: 5 })
    await find(ENTRY, ENDED_JOB)
    expect(await find(ENDED_JOB)).toEqual([])
  })
})
