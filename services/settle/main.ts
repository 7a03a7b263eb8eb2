import type { Completed } from '../../schemas/types.ts'
import type { Job, Tallied } from '../jobs/job.ts'
import { createJobMessageCodec } from '../jobs/message-codec.ts'
import type { Archive, ArchivedJob } from '../jobs/results/archive.ts'
import { readMessageRows, toTallyBlock, unresolvableBlock } from '../jobs/results/block.ts'
import {
  archiveEnded, type BlockOrRecord, createRepositories, type EndedJob, readEndRecord,
  remainingSteps, type RemainingSteps, storeBlock,
} from '../jobs/results/finish-job.ts'
import { blockDigest, packInlineResults, type ResultBlocks } from '../jobs/results/result-blocks.ts'
import type { JobStore } from '../jobs/store.ts'
import { connectDeps } from '../runtime/engine/connections.ts'
import { runStage } from '../runtime/engine/engine.ts'
import type {
  DeadSource, Decision, Emission, EmittedBy, MessageCodec, Stage,
} from '../runtime/engine/stage.ts'
import type { RawMessage, TopicPartition } from '../runtime/kafka/bus.ts'
import type { Codec } from '../runtime/kafka/registry.ts'
import { RefusedRowsError } from '../runtime/platform/clickhouse.ts'
import { FatalError, isInfrastructure, isOutageOrFatal } from '../runtime/platform/errors.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import { boundedCache } from '../runtime/platform/limits.ts'
import type { Clock } from '../runtime/platform/retry.ts'
import { run, type Running, type ServiceContext } from '../runtime/platform/run.ts'
import { listSubscriptions } from '../runtime/platform/topics.ts'
import { finishedTenths } from '../webhooks/event.ts'
import {
  type Counted, type Message, type Messages, messagesByJob, SettleBuffer, type Stored,
} from './buffer.ts'
import { FLUSH_EVERY_MS, settleConfig, type SettleConfig } from './config.ts'

type SettleDeps = {
  readonly archive: Pick<Archive, 'save'>
  readonly blocks: ResultBlocks
  /** Stores blocks and final records in one insert. */
  readonly saveBlocksAndRecords: (rows: readonly BlockOrRecord[]) => Promise<void>
  readonly store: Pick<JobStore, 'tallyAll' | 'readWithManifest' | 'read' | 'close'>
  /** Seal and read the blocks of rows whose own block cannot be read. */
  readonly messageCodec: MessageCodec
  readonly codec: Codec
  /** Redis time. */
  readonly clock: Clock
  /** Maximum number of messages in one call of `decide`, and of those that wait for others. */
  readonly batch: number
  /** Maximum size of the messages of a partition that wait for others. */
  readonly batchBytes: number
}

/**
 * Counts the rows of blocks, then stores the blocks and the final records of jobs that end with
 * them, many per insert. Rows may be counted before they are stored, because their message is in
 * the topic until its offset is committed, and readers wait until the job is closed. Blocks that
 * end no job wait for further ones. While inserts follow each other closely, small jobs whose
 * blocks are kept with them wait as well, until `flushHeld`.
 * The stage closes each job that ends with a block. A redelivered block is stored again, and also
 * closes a job that ended earlier and was left open, once all of its blocks are stored. The
 * progress of a job that an endpoint follows is emitted with each tenth of its rows.
 */
export class SettleStage implements Stage<'settle'> {
  readonly name = 'settle'
  readonly batch: number
  readonly #deps: SettleDeps
  readonly #progress = new JobProgress()
  readonly #buffer: SettleBuffer
  /** The insert under way, which all partitions share. */
  #storing: Promise<unknown> | undefined

  constructor (deps: SettleDeps) {
    this.#deps = deps
    this.batch = deps.batch
    this.#buffer = new SettleBuffer(
      { maxBytes: deps.batchBytes, maxMessages: deps.batch }, deps.clock)
  }

  async decide (messages: Messages): Promise<readonly Decision<'settle'>[]> {
    const ready = this.#buffer.hold(messages)
    if (ready.length === 0) return []
    const { generation } = this.#buffer
    const batch = await this.#countReady(ready)
    if (batch === undefined) return []
    const isDeferred = this.#buffer.canDefer(batch)
    const stored = isDeferred ? [] : await this.#store([batch])
    if (isDeferred) this.#buffer.defer(batch, generation)
    this.#buffer.release(ready.map(({ raw }) => raw))
    return isDeferred ? [] : toDecisions(stored, this.#progress)
  }

  async flushHeld (partition: TopicPartition): Promise<readonly Decision<'settle'>[]> {
    this.#buffer.dropExpired(partition)
    const dead = await this.#countLate(messagesByJob(this.#buffer.overdue(partition)))
    if (dead.length > 0 || !this.#buffer.hasCounted(partition)) return dead
    while (this.#buffer.hasUnstored(partition)) {
      this.#storing ??= this.#storeCounted().finally(() => { this.#storing = undefined })
      const uncounted = await this.#storing
      if (uncounted !== undefined && this.#buffer.hasUnstored(partition)) throw uncounted
    }
    const stored = this.#buffer.takeStored(partition)
    return stored.length === 0 ? [] : toDecisions(stored, this.#progress)
  }

  async resolveDead (
    headers: RawMessage['headers'], source: DeadSource
  ): Promise<readonly EmittedBy<'settle'>[]> {
    this.#buffer.release([source])
    await this.#finishUnresolvableRows(headers)
    return []
  }

  forget (): void {
    this.#buffer.forget()
  }

  /**
   * Counts messages of several jobs. If one of them cannot be counted, the next flush counts each
   * job alone: the engine would give up the messages that it decides, whichever job fails.
   */
  async #countReady (ready: Messages): Promise<Counted | undefined> {
    try {
      return await this.#count(ready)
    } catch (error) {
      throwUnlessOfMessages(error)
      this.#buffer.markOverdue(ready)
      return undefined
    }
  }

  /** Counts what waited long enough; returns the messages that cannot be counted. */
  async #countLate (jobs: readonly Messages[]): Promise<readonly Decision<'settle'>[]> {
    const { generation } = this.#buffer
    const dead = await Promise.all(jobs.map(async messages => {
      const batches = await this.#countOrGiveUp(messages)
      this.#buffer.release(messages.map(({ raw }) => raw))
      for (const batch of batches) if (!('dead' in batch)) this.#buffer.defer(batch, generation)
      return batches.filter(batch => 'dead' in batch)
    }))
    return dead.flat()
  }

  /**
   * Resolves to the error of a batch that cannot be counted again, as its Redis is away: the others
   * do not wait for it. One that cannot be counted for another reason is given up job by job, at
   * the next flush of its partition.
   */
  async #storeCounted (): Promise<unknown> {
    const unstored = this.#buffer.unstored()
    const counts = await Promise.allSettled(unstored.map(async batch =>
      this.#buffer.isExpired(batch) ? await this.#count(batch.messages) : batch))
    const errors = counts.flatMap(result => result.status === 'rejected' ? [result.reason] : [])
    const fatal = errors.find(error => error instanceof FatalError)
    if (fatal !== undefined) throw fatal
    for (const [index, result] of counts.entries()) {
      const batch = unstored[index]
      if (batch === undefined || result.status === 'fulfilled') continue
      if (!isInfrastructure(result.reason)) this.#buffer.uncount(batch)
    }
    const batches = counts.flatMap(result => result.status === 'fulfilled' ? [result.value] : [])
    if (batches.length > 0) this.#buffer.endStore(await this.#store(batches))
    return errors.find(error => isInfrastructure(error))
  }

  /**
   * Stores counted messages in one insert. Returns what is left to do for each batch. What
   * ClickHouse refuses keeps only its own job open: a block is given up, and of a job whose record
   * is refused the last message, so that its replay closes the job.
   */
  async #store (batches: readonly Counted[]): Promise<readonly Stored[]> {
    this.#buffer.beginStore()
    const ended = await Promise.all(batches.map(batch => readEnded(this.#deps, batch)))
    const refusals = await insertAll(this.#deps, ended)
    return await Promise.all(ended.map(batch => finishBatch(this.#deps, batch, refusals)))
  }

  /**
   * Counts messages of one job, each alone if they cannot be counted together. The rows of one that
   * cannot be counted end `unknown`; if that fails as well, `ledger` fails the job.
   */
  async #countOrGiveUp (messages: Messages): Promise<readonly (Counted | GivenUp)[]> {
    try {
      return [await this.#count(messages)]
    } catch (error) {
      throwUnlessOfMessages(error)
      const [first, ...others] = messages
      if (first === undefined || others.length > 0) {
        const counted: (Counted | GivenUp)[] = []
        for (const message of messages) counted.push(...await this.#countOrGiveUp([message]))
        return counted
      }
      await this.#finishUnresolvableRows(first.raw.headers).catch(throwUnlessOfMessages)
      return [{ completes: messages, emits: [], dead: `decision failed: ${String(error)}` }]
    }
  }

  async #count (messages: Messages): Promise<Counted> {
    const countedAtMs = this.#deps.clock.now()
    const counts = await Promise.all(messagesByJob(messages).map(ofJob =>
      this.#tally(ofJob.map(({ value }) => value))))
    failpoint('settle.tallied')
    return {
      messages,
      tallied: counts.flatMap(({ tallied }) => tallied),
      countedAtMs,
      mayWait: counts.every(({ mayWait }) => mayWait),
    }
  }

  /**
   * Counts blocks of one job in their order. If they end the job, its end is visible from here on,
   * and requests that wait for a small job get its blocks.
   */
  async #tally (blocks: readonly Completed[]): Promise<Pick<Counted, 'tallied' | 'mayWait'>> {
    const text = packInlineResults(blocks)
    const keeps = text !== '' && text.length <= MAX_KEPT_CHARACTERS
    const tallied = await this.#deps.store.tallyAll(
      blocks[0]?.tenant ?? '', blocks.map(toTallyBlock), { text, keeps })
    for (const count of tallied) if (count.kind !== 'skip') this.#buffer.recordCount(count.job)
    const mayWait = keeps && tallied.every(count => count.kind === 'counted' && count.ended)
    return { tallied, mayWait }
  }

  /**
   * Ends the rows of an unreadable block as `unknown`, free of charge. If that ends the job,
   * `ledger` closes it. The block held the inputs of its chunk unless its headers say
   * `inputs: false`; then blank ones take their place.
   */
  async #finishUnresolvableRows (headers: RawMessage['headers']): Promise<void> {
    const lost = readMessageRows(headers)
    if (lost === undefined) return
    const job = await this.#deps.store.read(lost.coordinates.tenant, lost.coordinates.job)
    if (job === undefined || job.ended) return
    const inputs = headers['inputs'] !== 'false'
    const block = await storeBlock(
      this.#deps, unresolvableBlock(lost, { atMs: job.createdAtMs, inputs }))
    await this.#tally([block])
  }
}

type GivenUp = Decision<'settle'> & { readonly dead: string }

/** Throws an error that says nothing about the messages, such as that of a store. */
function throwUnlessOfMessages (error: unknown): void {
  if (isOutageOrFatal(error)) throw error
}

/** They stay in the append-only file until its rewrite: only for jobs of a few dozen rows. */
const MAX_KEPT_CHARACTERS = 4_096

const REFUSED_BLOCK = 'result block refused by ClickHouse'
const REFUSED_RECORD = 'final record refused by ClickHouse'

/** A counted batch, and the jobs that ended with it. */
type EndedBatch = {
  readonly batch: Counted
  /** All of their blocks are stored, or in the insert, which has their final records as well. */
  readonly records: readonly (EndedJob & { readonly archived: ArchivedJob })[]
  /** They ended earlier, and may have counted blocks that a crash kept from being stored. */
  readonly earlier: readonly EndedJob[]
}

async function readEnded (deps: SettleDeps, batch: Counted): Promise<EndedBatch> {
  const jobs = await Promise.all(endedJobs(batch.tallied).map(async job =>
    ({ ...job, archived: await readEndRecord(deps, job) })))
  // A job that is closed meanwhile has no record.
  const open = jobs.flatMap(({ archived, ...job }) =>
    archived === undefined ? [] : [{ ...job, archived }])
  // A job that is counted again ended earlier, but most have all their blocks in this insert.
  const digests = new Set(open.every(({ isNew }) => isNew)
    ? []
    : batch.messages.map(({ value }) => blockDigest(value)))
  const { records = [], earlier = [] } = Object.groupBy(open, ({ isNew, archived }) =>
    isNew || archived.manifest.every(({ digest }) => digests.has(digest)) ? 'records' : 'earlier')
  return { batch, records, earlier }
}

/** What ClickHouse refused of an insert: blocks by their messages, records by their jobs. */
type Refusals = { readonly blocks: ReadonlySet<Message>, readonly records: ReadonlySet<string> }

async function insertAll (deps: SettleDeps, ended: readonly EndedBatch[]): Promise<Refusals> {
  const messages = ended.flatMap(({ batch }) => batch.messages)
  const archived = ended.flatMap(({ records }) => records.map(record => record.archived))
  const rows = [
    ...messages.map(({ value }) => ({ block: value })), ...archived.map(archived => ({ archived })),
  ]
  const refusedRows = await refusedBy(() => deps.saveBlocksAndRecords(rows))
  failpoint('settle.stored')
  return {
    blocks: new Set(messages.filter((_, at) => refusedRows.has(at))),
    records: new Set(archived.filter((_, at) => refusedRows.has(messages.length + at))
      .map(({ job }) => job.id)),
  }
}

/** What is left to do for a batch that is stored but for what was refused. */
async function finishBatch (
  deps: SettleDeps, { batch, records, earlier }: EndedBatch, refusals: Refusals
): Promise<Stored> {
  const refused = new Map(batch.messages.filter(message => refusals.blocks.has(message))
    .map(message => [message, REFUSED_BLOCK]))
  const lacking = new Set([...refused.keys()].map(({ value }) => value.job))
  const giveUpRecord = (id: string) => {
    const last = batch.messages.findLast(({ value }) => value.job === id)
    if (last !== undefined && !lacking.has(id)) refused.set(last, REFUSED_RECORD)
  }
  const archivedNow = await Promise.all(earlier.map(async ({ job, entry }) => {
    let remaining: RemainingSteps | undefined
    const { size } = await refusedBy(async () => {
      remaining = await archiveEnded(deps, { job, entry })
    })
    if (size > 0) giveUpRecord(job.id)
    return remaining
  }))
  const complete = records.filter(({ job }) => !lacking.has(job.id))
  const { stored = [], refusedRecords = [] } = Object.groupBy(complete, ({ job }) =>
    refusals.records.has(job.id) ? 'refusedRecords' : 'stored')
  for (const { job } of refusedRecords) giveUpRecord(job.id)
  const steps = [
    ...archivedNow.filter(remaining => remaining !== undefined),
    ...stored.map(record => remainingSteps(deps, record)),
  ]
  return { ...batch, steps, refused }
}

/** The positions of the rows that ClickHouse refuses of an insert. */
async function refusedBy (insert: () => Promise<void>): Promise<ReadonlySet<number>> {
  try {
    await insert()
    return new Set()
  } catch (error) {
    if (error instanceof RefusedRowsError) return error.rows
    throw error
  }
}

/** Emits the end of the jobs that ended with stored messages, then closes them. */
function toDecisions (
  stored: readonly Stored[], progress: JobProgress
): readonly Decision<'settle'>[] {
  const advanced = progress.advance(stored.flatMap(({ tallied }) => tallied))
  const steps = stored.flatMap(batch => batch.steps)
  const refused = stored.flatMap(batch => [...batch.refused])
  const dead = new Set(refused.map(([message]) => message))
  return [
    {
      completes: stored.flatMap(({ messages }) => messages)
        .filter(message => !dead.has(message)),
      emits: [...steps.flatMap(({ emits }) => emits), ...advanced.emits],
      afterProduced: async () => {
        advanced.remember()
        await Promise.all(steps.map(({ close }) => close()))
      },
    },
    ...refused.map(([message, reason]) => ({ completes: [message], emits: [], dead: reason })),
  ]
}

/**
 * Each ended job once, with its journal entry if the answer to any of its blocks had it. `isNew`:
 * one of these blocks ended it, so all blocks before them are stored.
 */
function endedJobs (
  tallied: readonly Tallied[]
): readonly (EndedJob & { readonly isNew: boolean })[] {
  const jobs = new Map<string, EndedJob & { readonly isNew: boolean }>()
  for (const count of tallied) {
    if (count.kind === 'skip' || !count.ended || count.job.closed) continue
    const earlier = jobs.get(count.job.id)
    const { job, entry = earlier?.entry, manifest = earlier?.manifest } = count
    const isNew = count.kind === 'counted' || earlier?.isNew === true
    jobs.set(job.id, { job, entry, manifest, isNew })
  }
  return [...jobs.values()]
}

/** The progress to emit; `remember` must be called once it is acknowledged. */
type Advanced = {
  readonly emits: readonly Emission<'jobs.events'>[]
  readonly remember: () => void
}

/** Jobs under way at a time, per process; an evicted one repeats an event, which counts once. */
const MAX_FOLLOWED_JOBS = 10_000

/**
 * Which progress of jobs to emit: each tenth of the rows once, and of several in one batch only the
 * latest. Only jobs that had a subscriber when they were accepted report any; an ended one reports
 * none. After a restart a tenth is emitted again, with the id it had.
 */
class JobProgress {
  readonly #emitted = boundedCache<number>({ entries: MAX_FOLLOWED_JOBS })

  advance (tallied: readonly Tallied[]): Advanced {
    const latest = new Map<string, Job>()
    for (const count of tallied) {
      if (count.kind === 'skip' || count.job.events?.includes('job.progress') !== true) continue
      if (count.ended) latest.delete(count.job.id)
      else latest.set(count.job.id, count.job)
    }
    const jobs = [...latest.values()].filter(job =>
      finishedTenths(job) > (this.#emitted.get(job.id) ?? 0))
    return {
      emits: jobs.map(job => ({
        topic: 'jobs.events',
        lane: job.lane,
        value: {
          tenant: job.tenant,
          job: job.id,
          type: 'job.progress',
          tenth: finishedTenths(job),
          at: job.updatedAtMs,
        },
        rows: undefined,
      })),
      remember: () => {
        for (const job of jobs) this.#emitted.set(job.id, finishedTenths(job))
      },
    }
  }
}

/** Wires the stage and starts it. */
async function startSettle (
  config: SettleConfig, context: ServiceContext
): Promise<Running> {
  const connected = await connectDeps(config, context, [
    'bus', 'codec', 'state', 'clickhouse', 'recordMac', 'clock', 'gate', 'attempts',
  ])
  const messageCodec = createJobMessageCodec(connected, config)
  const stage = () => new SettleStage({
    ...createRepositories(connected),
    messageCodec,
    codec: connected.codec,
    clock: connected.clock,
    batch: config.SETTLE_BATCH_MESSAGES,
    batchBytes: config.INSERT_BATCH_BYTES,
  })
  const subscriptions = listSubscriptions('settle', { lanes: config.LANES })
  return await runStage<'settle'>(stage, {
    ...connected, messageCodec, subscriptions, flushHeldMs: FLUSH_EVERY_MS, flushOnStop: true,
  })
}

export const settleService = { config: settleConfig, start: startSettle }

if (import.meta.main) await run('settle', settleConfig, startSettle)
