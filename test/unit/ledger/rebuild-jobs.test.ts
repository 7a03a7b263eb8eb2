import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import type { Job } from '../../../services/jobs/job.ts'
import type { JournalState } from '../../../services/ledger/journal-state.ts'
import type { JobInRedis, RebuiltJob } from '../../../services/ledger/recovery-store.ts'
import {
  rebuildEnded, rebuildOpen, type Ended, type RebuildDeps, recountLostJobs, type RecountDeps,
} from '../../../services/ledger/rebuild-jobs.ts'
import {
  arrived, blockEmission, codec, createBlocksDouble, endedJob, live, messageCodec,
} from '../../support/clickhouse/results.ts'
import { createManualClock, entryOf, TENANT, JOB, NO_COUNTS } from '../../support/stage-messages.ts'
import { fieldsOf, jobOf } from '../../../services/jobs/job-record.ts'
import { MissingOrganizationKeyError } from '../../../services/runtime/crypto/key-ring.ts'
import type { RawMessage } from '../../../services/runtime/kafka/bus.ts'
import { InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import { tallyBlockOf } from '../../../services/jobs/results/block.ts'

const term = { run: 'r', fence: '1' }
const reserve = (job: string, change: Partial<Journal> = {}): Journal => ({
  ...entryOf(TENANT, endedJob({ id: job })), at: 40, reason: '{"unitPriceMicros":"4"}', ...change,
})
const end = (job: string): Journal =>
  ({ ...reserve(job), type: 'settle', seq: 9, chargeMicros: 4, reason: '' })

/** Redis that answers each `rebuild` in turn, and an archive that records its queries. */
function setUp (steps: readonly string[] = [], archived: readonly Job[] = [], nowMs = 1_000) {
  const rebuilt: RebuiltJob[] = []
  const left = [...steps]
  const made: number[] = []
  const calls: (readonly [readonly string[], number])[] = []
  const deps: RebuildDeps = {
    recoveryStore: {
      rebuild: async (_term, job) => {
        rebuilt.push(job)
        return (left.shift() ?? 'made') as 'made'
      },
    },
    archive: {
      findAll: async (tenants, jobs) => {
        calls.push([tenants, jobs.length])
        return new Map(archived.map(job => [job.id, job]))
      },
    },
    history: { listAll: async () => [] },
    subscriptions: async () => [],
    emitter: { emit: async () => {} },
    clock: createManualClock(nowMs),
    metrics: { count: (_name, _labels, more = 1) => { made.push(more) } },
  }
  return { parts: deps, rebuilt, made, calls }
}

const openOf = (entries: readonly Journal[]): JournalState['open'] =>
  new Map(entries.map(entry => [entry.job, { ...entry, entry }]))
const knownOf = (state: JobInRedis['state'], ...jobs: readonly string[]) =>
  new Map(jobs.map(job => [job, { job, sinceMs: 0, state }]))
const endedOf = (job: string, change: Partial<Ended> = {}): Ended =>
  ({ reserve: reserve(job), end: end(job), term, isOpen: false, ...change })

describe('the open jobs of a journal', () => {
  it('are rebuilt if Redis lacks them, and recounted', async () => {
    const { parts, rebuilt, made } = setUp(['made', 'done'])
    const entries = [reserve('job_1', { at: 70 }), reserve('job_2')]
    expect(await rebuildOpen(parts, term, { open: openOf(entries), known: new Map() }))
      .toEqual({ made: 1, superseded: false, faults: [], uncounted: entries })
    expect(rebuilt.map(({ job, settled, isClosed }) => [job, settled, isClosed]))
      .toEqual([['job_1', undefined, false], ['job_2', undefined, false]])
    expect(made).toEqual([1])
  })

  it('without terms in an entry must be in Redis', async () => {
    const open: JournalState['open'] = new Map([
      ...openOf([reserve('job_1', { reason: '' })]),
      ['job_2', { job: 'job_2', seq: 4, at: 5, amountMicros: 6 }],
    ])
    const known = new Map([...knownOf('running', 'job_1'), ...knownOf('gone', 'job_2')])
    expect(await rebuildOpen(setUp().parts, term, { open, known })).toEqual({
      made: 0, superseded: false, uncounted: [], faults: ['no entry describes the open job job_2'],
    })
    expect(await rebuildOpen(setUp().parts, term, { open, known: new Map() }))
      .toMatchObject({
        faults: [1, 2].map(number =>
        `no entry describes the open job job_${number}`)
      })
  })
})

describe('the ended jobs of a journal', () => {
  it('are closed from the archive or recounted, in any number', async () => {
    const ids = Array.from({ length: 2_500 }, (_, index) => `job_${index}`)
    const archived = ids.filter(id => id !== 'job_7').map(id => endedJob({ id }))
    const { parts, rebuilt, made, calls } = setUp([], archived)
    expect(await rebuildEnded(parts, ids.map(id => endedOf(id))))
      .toEqual({ made: 2_500, superseded: false, uncounted: [reserve('job_7')] })
    expect(rebuilt.map(({ job }) => job)).toEqual(ids)
    const open = rebuilt.filter(({ isClosed }) => !isClosed)
    expect(open.map(({ job, settled }) => [job, settled?.seq])).toEqual([['job_7', 9]])
    expect([made, calls])
      .toEqual([[2_500], [1_000, 1_000, 500].map(jobs => [[TENANT], jobs])])
  })

  it('without terms are closed from the archive, or if Redis has them', async () => {
    const { parts, rebuilt } = setUp([], [endedJob({ id: 'job_1' })])
    const lacking = { reserve: undefined }
    const jobs = [
      endedOf('job_1', lacking), endedOf('job_2', { ...lacking, isOpen: true }),
      endedOf('job_3', lacking),
    ]
    expect((await rebuildEnded(parts, jobs)).uncounted).toEqual([end('job_2')])
    expect(rebuilt.map(({ job, isClosed, fields }) => [job, isClosed, fields.length > 0]))
      .toEqual([['job_1', true, true], ['job_2', false, false]])
  })

  it('are left to the new leader', async () => {
    expect(await rebuildEnded(setUp(['superseded']).parts, [endedOf('job_1')]))
      .toMatchObject({ superseded: true })
  })
})

const DAY_MS = 86_400_000
/** As accept.lua writes them: all values are text. */
const terms = {
  unitPriceMicros: '4',
  acceptBy: '60',
  idempotencyKey: 'k',
  fingerprint: 'f',
  claimedAt: '1000',
  cursor: 'c',
  cursorTo: '8',
  service: 'whatsapp',
  lane: 'bulk',
  totalRows: '20',
  invalidRows: '3',
  duplicateRows: '2',
  quotedHits: '5',
  quotedFresh: '10',
  quoteId: 'quot_9',
  chunks: '2',
  forceFresh: '1',
  createdAtMs: '900',
  feed: 'acme:3',
  apiKey: 'key_1',
}
const accepted: Journal = {
  ...entryOf(TENANT, endedJob()),
  seq: 6,
  amountMicros: 60,
  at: 1_500,
  header: Buffer.from('sealed'),
  reason: JSON.stringify(terms),
}

/** The job as it is rebuilt from an entry, by default at 2,000 ms. */
async function openJob (entry: Journal, nowMs = 2_000): Promise<RebuiltJob> {
  const { parts, rebuilt } = setUp([], [], nowMs)
  await rebuildOpen(parts, term, { open: openOf([entry]), known: new Map() })
  return rebuilt[0]!
}

describe('a job from its reserve entry', () => {
  it('is the one that was accepted, before anything of it was counted', async () => {
    const { fields, ...binding } = await openJob(accepted)
    expect(binding).toEqual({
      tenant: TENANT,
      job: JOB,
      nowMs: 2_000,
      idempotencyKey: 'k',
      fingerprint: 'f',
      claimedAt: '1000',
      feed: { partner: 'acme', partition: 3, cursor: 'c', to: '8' },
      settled: undefined,
      isClosed: false,
    })
    expect(jobOf(TENANT, fieldsOf(fields))).toEqual({
      id: JOB,
      tenant: TENANT,
      apiKey: 'key_1',
      service: 'whatsapp',
      lane: 'bulk',
      status: 'verifying',
      preflight: {
        totalRows: 20,
        invalidRows: 3,
        duplicateRows: 2,
        cacheHits: 5,
        freshChecks: 10,
        maxQuoteMicros: 60,
        quoteId: 'quot_9',
      },
      unitPriceMicros: 4,
      chunks: 2,
      feed: { partner: 'acme', partition: 3 },
      forceFresh: true,
      header: Buffer.from('sealed'),
      createdAtMs: 900,
      updatedAtMs: 1_500,
      announced: false,
      rebuilt: true,
      ended: false,
      closed: false,
      endedAtMs: 0,
      counts: NO_COUNTS,
      verdicts: {},
      chargedMicros: 0,
      releasedMicros: 0,
    })
    expect(fieldsOf(fields)).toMatchObject({ reserveSeq: '6', idempotencyKey: 'k' })
    expect(fieldsOf(fields)).not.toHaveProperty('fingerprint')
  })

  it('keeps its key for 24 hours from its claim', async () => {
    expect((await openJob(accepted, 999 + DAY_MS)).idempotencyKey).toBe('k')
    expect((await openJob(accepted, 1_000 + DAY_MS)).idempotencyKey).toBe('')
  })

  it('needs no key, feed or slot', async () => {
    const { feed: _feed, ...rest } = terms
    const plain = { ...rest, idempotencyKey: '', claimedAt: '', cursor: '' }
    expect(await openJob({ ...accepted, header: null, reason: JSON.stringify(plain) }))
      .toMatchObject({
        idempotencyKey: '', feed: { partner: '', partition: -1, cursor: '' },
      })
  })
})

const CHUNK = { chunk: 1, chunks: 2, firstRow: 4, rows: 4, totalRows: 8 }
const block = async (rows: readonly number[]) => (await arrived(
  blockEmission(CHUNK, rows.map(row => [row, live('c', row)] as const), { batch: 3 }))).value
const messageOf = async (value: object | Buffer | null, offset: number, job = JOB) => ({
  value: value === null || Buffer.isBuffer(value)
    ? value
    : await codec.encode('rows.completed-value', value),
  topic: 'rows.completed.small',
  partition: 2,
  offset: BigInt(offset),
  headers: { tenant: TENANT, job },
} as unknown as RawMessage)

const OTHER_JOB = 'job_other'

/** Redis with two marked jobs, whose topic has these messages. */
function setUpRecount (
  tally: (digest: string) => void = () => {},
  codecOfRows: RecountDeps['messageCodec'] = messageCodec
) {
  const [tallied, logged, unmarked]: [unknown[], unknown[], string[]] = [[], [], []]
  const blocks = createBlocksDouble()
  const messages: RawMessage[] = []
  const deps: RecountDeps = {
    redis: {
      smembers: async () => [TENANT],
      hgetall: async () => ({ [JOB]: '5', [OTHER_JOB]: '6' }),
      hdel: async (_key: string, ...jobs: readonly string[]) => { unmarked.push(...jobs) },
      hlen: async () => 0,
      srem: async () => 1,
    } as never,
    reader: {
      read: async (topic, onMessages) => {
        if (topic === 'rows.completed.small') await onMessages(messages)
        return new Map()
      },
    },
    metrics: { count: () => {} },
    messageCodec: codecOfRows,
    blocks,
    store: {
      tally: async (tenant, counted) => {
        tally(counted.digest)
        tallied.push([tenant, counted])
        return { kind: 'skip' }
      },
    },
    log: {
      error: (fields: object, message: string) => { logged.push([fields, message]) },
      warn: () => {},
    } as never,
  }
  const recount = async (...some: readonly Promise<RawMessage>[]) => {
    messages.push(...await Promise.all(some))
    return await recountLostJobs(deps, new AbortController().signal)
  }
  return { recount, blocks, tallied, logged, unmarked }
}

describe('recount', () => {
  it('stores blocks before it tallies them, with the same values as before', async () => {
    const [one, two] = [await block([0, 2]), await block([3])]
    const { recount, blocks, tallied, logged } = setUpRecount()
    await recount(messageOf(one, 1), messageOf(null, 2), messageOf(two, 3))
    expect(blocks.inserts).toEqual([2])
    expect(blocks.stored).toEqual([one, two])
    expect(tallied).toEqual([[one.tenant, tallyBlockOf(one)], [two.tenant, tallyBlockOf(two)]])
    expect(tallyBlockOf(one)).toMatchObject({
      chunk: 1,
      firstRow: 4,
      inputs: false,
      replacesLost: false,
      duplicates: [{ row: 2, count: 2 }],
      finished: Buffer.from([5]),
    })
    expect(tallyBlockOf({ ...one, batch: -2 }).replacesLost).toBe(true)
    expect(logged).toEqual([])
  })

  it('logs blocks that cannot be decoded or tallied, and tallies the others', async () => {
    const [one, two] = [await block([0]), await block([1])]
    const broken = tallyBlockOf(one).digest
    const { recount, tallied, logged } = setUpRecount(digest => {
      if (digest === broken) throw new Error('no such chunk')
    })
    // Bitmaps are bound to the seal: with another bitmap nothing can be decrypted.
    const changed = { ...two, live: Buffer.from([7]) }
    await recount(messageOf(Buffer.from('garbage'), 7), messageOf(one, 8), messageOf(two, 9),
      messageOf(changed, 10))
    expect(tallied).toEqual([[two.tenant, tallyBlockOf(two)]])
    const undecodable =
      'recount skipped a block that cannot be decoded; settle dead-lettered it before'
    expect(logged).toMatchObject([
      [{ topic: 'rows.completed.small', partition: 2, offset: '7' }, undecodable],
      [{ offset: '10', reason: 'seal_broken' }, undecodable],
      [{ tenant: one.tenant, job: one.job }, 'recount skipped a block that cannot be tallied; ' +
        'its rows stay open until ledger fails the job'],
    ])
  })

  it('leaves the jobs of an organization that lacks a key, and goes on with others', async () => {
    const [one, two] = [await block([0]), await block([1])]
    const lack = new MissingOrganizationKeyError('no key', { wraps: 'rows', advice: 'wait' })
    const { recount, tallied, logged, unmarked } = setUpRecount(() => {}, {
      decode: async raw => {
        if (raw.headers['job'] === OTHER_JOB) throw lack
        return await messageCodec.decode(raw)
      },
    })
    const messages = [messageOf(one, 1, OTHER_JOB), messageOf(one, 2, OTHER_JOB), messageOf(two, 3)]
    expect(await recount(...messages)).toEqual({ left: 1 })
    expect(tallied).toEqual([[two.tenant, tallyBlockOf(two)]])
    expect(unmarked).toEqual([JOB])
    expect(logged).toEqual([[{ tenant: TENANT, job: OTHER_JOB, err: lack },
      'recount of a job waits for a key of its organization; retrying']])
  })

  it('rejects while a store is unavailable', async () => {
    const { recount } = setUpRecount(() => { throw new InfrastructureError('no Redis') })
    await expect(recount(messageOf(await block([0]), 1))).rejects.toThrow('no Redis')
  })
})
