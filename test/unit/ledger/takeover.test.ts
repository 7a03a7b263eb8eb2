import { describe, expect, it } from 'vitest'
import { MissingKeyError } from '../../../services/runtime/crypto/key-ring.ts'
import { SealError } from '../../../services/runtime/crypto/seal.ts'
import { createMessageCodec } from '../../../services/jobs/message-codec.ts'
import type { Job, FailBlock } from '../../../services/jobs/job.ts'
import { FatalError, InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import type { Emission } from '../../../services/runtime/engine/stage.ts'
import {
  type Owned, Owners, Takeover, type TakeoverDeps,
} from '../../../services/ledger/takeover.ts'
import { storeBlock } from '../../../services/jobs/results/finish-job.ts'
import {
  codec, createBlocksDouble, endedJob, messageCodec,
} from '../../support/clickhouse/results.ts'
import {
  bitmapOf, createManualClock, entryOf, JOB, rowsOf, TENANT,
} from '../../support/stage-messages.ts'

const running = endedJob({ ended: false, status: 'verifying' }, 4)

type World = {
  readonly job?: Job
  /** Whether a topic may still have rows of the job. */
  readonly waits?: boolean
  readonly idleMs?: number
  readonly rowsIdleMs?: number
  /** When rows that wait for a host are due; none wait if left out. */
  readonly dueInMs?: number
  /** The ages of entries in the outbox. */
  readonly ages?: readonly number[]
  readonly isOwned?: boolean
}

/** A tenant with one open job; `done` has what happened to it, `run` takes it over. */
function setUp ({
  job = running, waits = false, idleMs = 0, rowsIdleMs = 100_000, ages = [], isOwned = false,
  dueInMs,
}: World) {
  const clock = createManualClock()
  const blocks = createBlocksDouble()
  const emitted: Emission[] = []
  const [removed, done, counts]: [number[], string[], string[]] = [[], [], []]
  const fails: FailBlock[] = []
  const logged: unknown[] = []
  const asked: Owned[] = []
  const failures: Record<string, string> = {}
  let stored: Job = { ...job, updatedAtMs: clock.now() - rowsIdleMs }
  const entries = ages.map((age, index) =>
    ({ ...entryOf(TENANT, running), seq: index + 1, at: clock.now() - age, text: '' }))
  const deps: TakeoverDeps = {
    clock,
    log: { warn: () => {}, error: (fields: unknown) => { logged.push(fields) } } as never,
    metrics: {
      count: (name, labels, more = 1) => { counts.push(`${Object.values(labels).join()} ${more}`) },
      watch: () => {},
    },
    orphanAgeMs: 2_000,
    stalledAfterMs: 60_000,
    redis: {
      hgetall: async () => ({ ...failures }),
      hset: async (_key: string, name: string, at: number) => { failures[name] = String(at) },
      hdel: async (_key: string, name: string) => { delete failures[name] },
    } as never,
    tenants: { active: async () => [{ tenant: TENANT, sinceMs: 0 }] },
    emitter: { emit: async (all) => { emitted.push(...all) } },
    outbox: {
      pending: async () => entries.filter(({ seq }) => !removed.includes(seq)),
      tenantsWithPending: async () => entries.length > 0 ? [TENANT] : [],
      remove: async (_tenant, shipped) => { removed.push(...shipped.map(({ seq }) => seq)) },
    },
    archive: { save: async () => { done.push('save') } },
    blocks,
    owners: {
      findOrphans: async owned => {
        asked.push(...owned)
        return new Set(isOwned ? [] : owned.map(({ id }) => id))
      },
    },
    backlog: { mayContain: async () => waits },
    storeBlock: emission => storeBlock({ messageCodec, codec, blocks }, emission),
    store: {
      openJobs: async () => [{ job: JOB, sinceMs: clock.now() - idleMs }],
      read: async () => stored,
      readWithManifest: async () => ({ job: stored, manifest: [] }),
      close: async () => { done.push('close'); return true },
      unfinishedRows: async () => bitmapOf(4, [1, 2]),
      end: async () => ({ kind: 'skip' }),
      waitingRows: async () => dueInMs === undefined
        ? undefined
        : { rows: 1, reasons: { greylisted: 1 }, lastDueMs: clock.now() + dueInMs, dueRows: 0 },
      fail: async (_tenant, _job, block) => {
        fails.push(block)
        stored = { ...job, ended: true, status: 'failed' }
        const failed = endedJob({ status: 'failed' })
        return { kind: 'counted', ended: true, job: failed, entry: undefined }
      },
    },
  }
  const run = (change: Partial<TakeoverDeps> = {}) => new Takeover({ ...deps, ...change }).run()
  return {
    deps, clock, run, blocks, emitted, removed, done, fails, counts, asked, logged, failures,
  }
}

const topics = (emitted: readonly Emission[]) => emitted.map(({ topic }) => topic)

describe('a takeover', () => {
  it('ships orphaned entries, and leaves young ones to their process', async () => {
    const { run, emitted, removed, counts } = setUp({ ages: [5_000, 2_000, 1_999] })
    expect((await run()).entries).toBe(1)
    expect(emitted.map(({ value }) => 'seq' in value && value.seq)).toEqual([1, 2])
    expect(removed).toEqual([1, 2])
    expect(counts).toEqual(['entry 2'])
  })

  it('leaves old entries and ended jobs to the stage that made them', async () => {
    const { run, emitted, removed, done, asked } =
      setUp({ ages: [5_000], job: endedJob(), idleMs: 90_000, isOwned: true })
    expect(await run()).toEqual({ entries: 1, stalledJobs: 0 })
    expect([emitted, removed, done]).toEqual([[], [], []])
    expect(asked.map(({ stage, lane }) => [stage, lane]))
      .toEqual([['lookup', 'small'], ['settle', 'small']])
  })

  it('ships a movement without a job at once, as no stage does', async () => {
    const { deps: { outbox }, run, removed, asked } = setUp({ ages: [5_000], isOwned: true })
    const [entry] = await outbox.pending(TENANT)
    const pending = async () => [{ ...entry!, type: 'topup', job: '' }]
    await run({ outbox: { ...outbox, pending } })
    expect([removed, asked]).toEqual([[1], []])
  })

  it.each<readonly [string, World, readonly string[], readonly string[]]>([
    ['leaves a young ended job open', { job: endedJob(), idleMs: 1_999 }, [], []],
    ['closes an ended job that is still open', { job: endedJob(), idleMs: 2_000 },
      ['save', 'close'], ['ended_job 1']],
    ['fails a stalled job', { idleMs: 60_000 }, ['save', 'close'], ['stalled_job 1']],
    ['leaves a job that is young', { idleMs: 59_999 }, [], []],
    ['leaves a job with progress', { idleMs: 90_000, rowsIdleMs: 59_999 }, [], []],
    ['leaves a job with rows in a topic', { idleMs: 90_000, waits: true }, [], []],
    ['leaves a job with rows that wait for a host', { idleMs: 90_000, dueInMs: 7_200_000 }, [], []],
    ['leaves a job with rows that were due a moment ago', { idleMs: 90_000, dueInMs: -59_999 },
      [], []],
    ['fails a job whose waiting rows nobody carries on', { idleMs: 90_000, dueInMs: -60_000 },
      ['save', 'close'], ['stalled_job 1']],
  ])('%s', async (_, world, done, counts) => {
    const taken = setUp(world)
    await taken.run()
    expect([taken.done, taken.counts]).toEqual([done, counts])
    expect(topics(taken.emitted)).toEqual(done.length === 0 ? [] : ['jobs.settled'])
    const isFailed = counts.includes('stalled_job 1')
    // Its open rows end unknown in one block of the whole job.
    expect(taken.fails.map(({ finished }) => rowsOf(finished))).toEqual(isFailed ? [[1, 2]] : [])
    expect(taken.blocks.stored).toMatchObject(isFailed
      ? [{ chunk: running.chunks, firstRow: 0, rows: 4, inputs: false }]
      : [])
  })

  it.each([
    ['whose block cannot be stored', new InfrastructureError('down')],
    ['whose organization lacks a key',
      new MissingKeyError('no key', { wraps: 'rows', advice: 'restart ledger' })],
  ])('retries a stalled job %s, and goes on', async (_, error) => {
    const { run, done, fails, logged } = setUp({ idleMs: 60_000 })
    await run({ storeBlock: async () => { throw error } })
    expect([logged.length, done, fails]).toEqual([1, [], []])
  })

  it('leaves operators time to replay the letters of a job that can be read again', async () => {
    const { deps, clock, run, done, failures } = setUp({ idleMs: 90_000 })
    const unavailable = async () => { throw new InfrastructureError('down') }
    let damage: Error | undefined = new Error('WRONGTYPE')
    const read: TakeoverDeps['store']['read'] = async (...of) => {
      if (damage !== undefined) throw damage
      return await deps.store.read(...of)
    }
    await run({ store: { ...deps.store, read } })
    // Its server does not respond, and then another ledger leads.
    clock.advance(30_000)
    await run({ store: { ...deps.store, openJobs: unavailable } })
    damage = undefined
    clock.advance(59_999)
    await run({ store: { ...deps.store, read } })
    expect(done).toEqual([])
    clock.advance(1)
    await run({ store: { ...deps.store, read } })
    expect(done).toEqual(['save', 'close'])
    await run({ store: { ...deps.store, openJobs: async () => [] } })
    expect(failures).toEqual({})
  })

  it('goes on when the jobs of one tenant cannot be listed', async () => {
    const { deps, run, done } = setUp({ idleMs: 90_000 })
    const active = async () => ['org_x.live', TENANT].map(tenant => ({ tenant, sinceMs: 0 }))
    const openJobs: TakeoverDeps['store']['openJobs'] = async tenant => {
      if (tenant !== TENANT) throw new Error('WRONGTYPE')
      return await deps.store.openJobs(tenant)
    }
    await run({ tenants: { active }, store: { ...deps.store, openJobs } })
    expect(done).toEqual(['save', 'close'])
  })

  it('ends a stalled job without a block if its key is inconsistent', async () => {
    const { run, blocks, fails, done, logged } = setUp({ idleMs: 60_000 })
    const error = new SealError('changed')
    const lacking = createMessageCodec({ codec, keys: { get: async () => { throw error } } })
    await run({
      storeBlock: emission => storeBlock({ messageCodec: lacking, codec, blocks }, emission),
    })
    expect(fails).toEqual([{ digest: '', finished: bitmapOf(4, [1, 2]) }])
    expect([blocks.stored, done]).toEqual([[], ['save', 'close']])
    expect(logged).toEqual([{ tenant: running.tenant, job: running.id, err: error }])
  })

  it('does not end a job that made progress meanwhile', async () => {
    const { deps: { store }, run, done, emitted } = setUp({ idleMs: 60_000 })
    const fail = async () =>
      ({ kind: 'known', ended: false, job: running, entry: undefined } as const)
    await run({ store: { ...store, fail } })
    expect([done, emitted]).toEqual([[], []])
  })
})

/** Takes over in a loop; `fatal` resolves with what ends it. */
function start (deps: TakeoverDeps, isLeader = () => true) {
  const fatal = Promise.withResolvers<unknown>()
  const takeover = new Takeover(deps)
  takeover.start({ isLeader, fatal: fatal.resolve, everyMs: 1 })
  return { takeover, fatal: fatal.promise }
}

describe('the loop of takeovers', () => {
  it('is not ready after a failed run, and continues', async () => {
    let rounds = 0
    const rested = Promise.withResolvers<void>()
    const active = async () => {
      rounds += 1
      if (rounds === 1) throw new Error('down')
      if (rounds === 3) rested.resolve()
      return []
    }
    const { takeover } = start({ ...setUp({}).deps, tenants: { active } })
    expect(takeover.ready()).toBe(true)
    await new Promise(resolve => setImmediate(resolve))
    expect(takeover.ready()).toBe(false)
    await rested.promise
    expect(takeover.ready()).toBe(true)
    await takeover.stop()
  })

  it('ends with the process when the key ring lacks a key', async () => {
    const { deps, fails } = setUp({ idleMs: 60_000 })
    const lacking = new FatalError('RESULTS_ROOT_KEYS lacks key "7"')
    const storeBlock = async () => { throw lacking }
    const { takeover, fatal } = start({ ...deps, storeBlock })
    expect(await fatal).toBe(lacking)
    expect([takeover.ready(), fails]).toEqual([false, []])
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
