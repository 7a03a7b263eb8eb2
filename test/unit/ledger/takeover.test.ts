import { describe, expect, it } from 'vitest'
import { MissingKeyError } from '../../../services/runtime/crypto/key-ring.ts'
import { SealError } from '../../../services/runtime/crypto/seal.ts'
import { JobKeyLostError } from '../../../services/jobs/job-keys.ts'
import { createMessageCodec } from '../../../services/jobs/message-codec.ts'
import type { Job } from '../../../services/jobs/job.ts'
import type { FailBlock } from '../../../services/jobs/store-types.ts'
import { FatalError, InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import type { Emission } from '../../../services/runtime/engine/stage.ts'
import type { Owned } from '../../../services/ledger/owners.ts'
import { startTakingOver, takeOver, type TakeoverDeps } from '../../../services/ledger/takeover.ts'
import { storeBlock } from '../../../services/jobs/results/repositories.ts'
import {
  codec, createBlocksDouble, endedJob, messageCodec,
} from '../../support/clickhouse/results.ts'
import {
  bitmapOf, createManualClock, entryOf, JOB, rowsOf, TENANT,
} from '../../support/stage-doubles.ts'

const running = endedJob({ ended: false, status: 'verifying' }, 4)

function setUp (
  {
    job = running, waits = false, idleMs = 0, rowsIdleMs = 100_000, ages = [] as number[],
    isOwned = false,
  } = {}
) {
  const clock = createManualClock()
  const blocks = createBlocksDouble()
  const emitted: Emission[] = []
  const removed: number[] = []
  const done: string[] = []
  const fails: FailBlock[] = []
  const counts: string[] = []
  const asked: Owned[] = []
  const jobs = new Map<string, Job>([
    [JOB, { ...job, updatedAtMs: clock.now() - rowsIdleMs }],
  ])
  const entries = ages.map((age, index) =>
    ({ ...entryOf(TENANT, running), seq: index + 1, at: clock.now() - age }))
  const deps: TakeoverDeps = {
    clock,
    log: { warn: () => {}, error: () => { done.push('error') } },
    metrics: {
      count: (name, labels, more = 1) => { counts.push(`${Object.values(labels).join()} ${more}`) },
      watch: () => {},
    },
    orphanAgeMs: 2_000,
    stalledAfterMs: 60_000,
    tenants: { active: async () => [{ tenant: TENANT, sinceMs: 0 }] },
    emitter: { emit: async (all) => { emitted.push(...all) } },
    outbox: {
      pending: async () => entries.filter(({ seq }) => !removed.includes(seq)),
      tenantsWithPending: async () => entries.length > 0 ? [TENANT] : [],
      remove: async (_tenant, seqs) => { removed.push(...seqs) },
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
      read: async (_tenant, id) => jobs.get(id),
      readWithManifest: async (_tenant, id) => {
        const found = jobs.get(id)
        return found && { job: found, manifest: [] }
      },
      close: async () => { done.push('close'); return true },
      unfinishedRows: async () => bitmapOf(4, [1, 2]),
      end: async () => ({ kind: 'skip' }),
      fail: async (_tenant, _job, block) => {
        fails.push(block)
        jobs.set(JOB, { ...job, ended: true, status: 'failed' })
        const failed = endedJob({ status: 'failed' })
        return { kind: 'counted', ended: true, job: failed, entry: undefined }
      },
    },
  }
  return { parts: deps, blocks, emitted, removed, done, fails, counts, asked }
}

const topics = (emitted: readonly Emission[]) => emitted.map(({ topic }) => topic)

describe('a takeover', () => {
  it('ships orphaned entries, and leaves young ones to their process', async () => {
    const { parts, emitted, removed, counts } = setUp({ ages: [5_000, 2_000, 1_999] })
    expect((await takeOver(parts)).entries).toBe(1)
    expect(emitted.map(({ value }) => 'seq' in value && value.seq)).toEqual([1, 2])
    expect(removed).toEqual([1, 2])
    expect(counts).toEqual(['entry 2'])
  })

  it('leaves old entries and ended jobs to the stage that made them', async () => {
    const { parts, emitted, removed, done, asked } =
      setUp({ ages: [5_000], job: endedJob(), idleMs: 90_000, isOwned: true })
    expect(await takeOver(parts)).toEqual({ entries: 1, stalledJobs: 0 })
    expect([emitted, removed, done]).toEqual([[], [], []])
    expect(asked.map(({ stage, lane }) => [stage, lane]))
      .toEqual([['lookup', 'small'], ['settle', 'small']])
  })

  it('ships a movement without a job at once, as no stage does', async () => {
    const { parts, removed, asked } = setUp({ ages: [5_000], isOwned: true })
    const [entry] = await parts.outbox.pending(TENANT)
    const outbox = {
      ...parts.outbox, pending: async () => [{ ...entry!, type: 'topup', job: '' }],
    }
    await takeOver({ ...parts, outbox })
    expect([removed, asked]).toEqual([[1], []])
  })

  it('ships no entry that its stage has shipped meanwhile', async () => {
    const { parts, emitted } = setUp({ ages: [5_000] })
    const [entry] = await parts.outbox.pending(TENANT)
    const reads = [[entry!], []]
    const outbox = { ...parts.outbox, pending: async () => reads.shift() ?? [] }
    expect((await takeOver({ ...parts, outbox })).entries).toBe(0)
    expect(emitted).toEqual([])
  })

  it('keeps entries that were not acknowledged, and continues with the jobs', async () => {
    const { parts, removed, done } = setUp({ ages: [5_000], job: endedJob(), idleMs: 5_000 })
    let failed = false
    const emitter = {
      emit: async () => {
        if (failed) return
        failed = true
        throw new Error('down')
      }
    }
    await takeOver({ ...parts, emitter })
    expect(removed).toEqual([])
    expect(done).toEqual(['error', 'save', 'close'])
  })

  it('closes an ended job that is still open, after a delay', async () => {
    const young = setUp({ job: endedJob(), idleMs: 1_999 })
    await takeOver(young.parts)
    expect(young.done).toEqual([])
    const { parts, done, emitted, counts } = setUp({ job: endedJob(), idleMs: 2_000 })
    await takeOver(parts)
    expect(done).toEqual(['save', 'close'])
    expect(topics(emitted)).toEqual(['jobs.settled'])
    expect(counts).toEqual(['ended_job 1'])
  })

  it('fails a stalled job: its open rows end unknown in one block of the whole job', async () => {
    const { parts, blocks, done, emitted, fails } = setUp({ idleMs: 60_000 })
    await takeOver(parts)
    expect(fails.map(({ finished }) => rowsOf(finished))).toEqual([[1, 2]])
    expect(blocks.stored).toMatchObject([
      { chunk: running.chunks, firstRow: 0, rows: 4, inputs: false },
    ])
    expect(done).toEqual(['save', 'close'])
    expect(topics(emitted)).toEqual(['jobs.settled'])
  })

  it('retries a stalled job whose block cannot be stored', async () => {
    const { parts, done, fails } = setUp({ idleMs: 60_000 })
    await takeOver({ ...parts, storeBlock: async () => { throw new InfrastructureError('down') } })
    expect([done, fails]).toEqual([['error'], []])
  })

  it('retries a stalled job whose organization lacks a key, and goes on', async () => {
    const { parts, done, fails } = setUp({ idleMs: 60_000 })
    const missing = new MissingKeyError('no key', { wraps: 'rows', advice: 'restart ledger' })
    await takeOver({ ...parts, storeBlock: async () => { throw missing } })
    expect([done, fails]).toEqual([['error'], []])
  })

  it.each([
    ['nowhere', new JobKeyLostError('gone')], ['inconsistent', new SealError('changed')],
  ])('ends a stalled job without a block if its key is %s', async (_, error) => {
    const { parts, blocks, fails, done } = setUp({ idleMs: 60_000 })
    const logged: unknown[] = []
    const lacking = createMessageCodec({ codec, keys: { get: async () => { throw error } } })
    await takeOver({
      ...parts,
      storeBlock: emission => storeBlock({ messageCodec: lacking, codec, blocks }, emission),
      log: { warn: () => {}, error: (fields: unknown) => { logged.push(fields) } } as never,
    })
    expect(fails).toEqual([{ digest: '', finished: bitmapOf(4, [1, 2]) }])
    expect([blocks.stored, done]).toEqual([[], ['save', 'close']])
    expect(logged).toEqual([{ tenant: running.tenant, job: running.id, err: error }])
  })

  it('skips a job with progress, or with rows in a topic', async () => {
    const skipped = [
      setUp({ idleMs: 59_999 }),
      setUp({ idleMs: 90_000, rowsIdleMs: 59_999 }),
      setUp({ idleMs: 90_000, waits: true }),
    ]
    for (const some of skipped) {
      await takeOver(some.parts)
      expect([some.fails, some.done, some.blocks.stored]).toEqual([[], [], []])
    }
  })

  it('does not end a job that made progress meanwhile', async () => {
    const { parts, done, emitted } = setUp({ idleMs: 60_000 })
    const store = {
      ...parts.store,
      fail: async () => ({ kind: 'known', ended: false, job: running, entry: undefined } as const),
    }
    await takeOver({ ...parts, store })
    expect([done, emitted]).toEqual([[], []])
  })
})

describe('startTakingOver', () => {
  it('is not ready after a failed run, continues, and stops with the stage', async () => {
    const { parts } = setUp()
    const rounds: string[] = []
    const rested = Promise.withResolvers<void>()
    const active = async () => {
      rounds.push('round')
      if (rounds.length === 1) throw new Error('down')
      if (rounds.length === 3) rested.resolve()
      return []
    }
    const stopped: string[] = []
    const stage = { ready: () => true, stop: async () => { stopped.push('stage') } }
    const fatal = () => { throw new Error('nothing was fatal') }
    const running = startTakingOver(
      stage, { ...parts, tenants: { active }, isLeader: () => true, fatal }, 5)
    expect(running.ready()).toBe(true)
    await new Promise(resolve => setImmediate(resolve))
    expect(running.ready()).toBe(false)
    await rested.promise
    expect(running.ready()).toBe(true)
    await running.stop()
    expect(stopped).toEqual(['stage'])
  })

  it('ends the process and its loop when the key ring lacks a key', async () => {
    const { parts, fails } = setUp({ idleMs: 60_000 })
    const lacking = new FatalError('RESULTS_ROOT_KEYS lacks key "7"')
    const storeBlock = async () => { throw lacking }
    const fatal = Promise.withResolvers<unknown>()
    const stage = { ready: () => true, stop: async () => {} }
    const running = startTakingOver(
      stage, { ...parts, storeBlock, isLeader: () => true, fatal: fatal.resolve }, 1)
    expect(await fatal.promise).toBe(lacking)
    expect([running.ready(), fails]).toEqual([false, []])
    await running.stop()
  })

  it('does nothing while another ledger leads', async () => {
    const { parts, done, fails } = setUp({ idleMs: 60_000 })
    const asked = Promise.withResolvers<void>()
    let times = 0
    const isLeader = () => {
      if (++times === 3) asked.resolve()
      return false
    }
    const stage = { ready: () => true, stop: async () => {} }
    const running = startTakingOver(stage, { ...parts, isLeader, fatal: asked.reject }, 1)
    await asked.promise
    await running.stop()
    expect([running.ready(), done, fails]).toEqual([true, [], []])
  })
})
