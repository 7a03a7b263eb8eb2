import type { Completed } from '../../schemas/types.ts'
import type { Job, Tallied } from '../jobs/job.ts'
import { createJobMessageCodec } from '../jobs/message-codec.ts'
import type { Archive } from '../jobs/results/archive.ts'
import { coordinatesOfHeaders, toTallyBlock, unresolvableBlock } from '../jobs/results/block.ts'
import {
  archiveEnded, type BlockOrRecord, createRepositories, type EndedJob, readEndRecord,
  remainingSteps, type RemainingSteps, storeBlock,
} from '../jobs/results/finish-job.ts'
import { blockDigest, packInlineResults, type ResultBlocks } from '../jobs/results/result-blocks.ts'
import type { JobStore } from '../jobs/store.ts'
import { ENTRY_VALID_MS } from '../money/redis-keys.ts'
import { connectDeps } from '../runtime/engine/connections.ts'
import { runStage } from '../runtime/engine/engine.ts'
import {
  type DeadSource, type Decision, type Emission, type EmittedBy, HeldMessages, type Incoming,
  type MessageCodec, readRowCount, type Stage,
} from '../runtime/engine/stage.ts'
import type { RawMessage } from '../runtime/kafka/bus.ts'
import type { Codec } from '../runtime/kafka/registry.ts'
import { RefusedRowsError } from '../runtime/platform/clickhouse.ts'
import { FatalError, isInfrastructure, isOutageOrFatal } from '../runtime/platform/errors.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import { boundedCache } from '../runtime/platform/limits.ts'
import type { Clock } from '../runtime/platform/retry.ts'
import { run, type Running, type ServiceContext } from '../runtime/platform/run.ts'
import { listSubscriptions } from '../runtime/platform/topics.ts'
import { FLUSH_EVERY_MS, settleConfig, type SettleConfig } from './config.ts'
import { finishedTenths } from '../webhooks/event.ts'

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
  /** Called with each job after some of its rows were counted. */
  readonly onCounted?: (job: EndedJob['job']) => void
  /** Maximum number of messages in one call of `decide`, and of those that wait for others. */
  readonly batch: number
  /** Maximum size of the messages of a partition that wait for others. */
  readonly batchBytes: number
}

type Message = Incoming<'rows.completed'>
type Messages = readonly Message[]
type Partition = Pick<RawMessage, 'topic' | 'partition'>

/** Messages of a partition whose rows are counted. */
type Counted = {
  /** Of the consumer group, see `SettleBuffer`. */
  readonly generation: symbol
  readonly messages: readonly Message[]
  readonly tallied: readonly Tallied[]
  readonly countedAtMs: number
  /** They end jobs whose blocks Redis keeps until they are stored. */
  readonly mayWait: boolean
}

/**
 * They are stored, but for refused ones, with the reason; what is left to do for the jobs that
 * ended with them.
 */
type Stored = Counted & {
  readonly steps: readonly RemainingSteps[]
  readonly refused: ReadonlyMap<Message, string>
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
    const remaining = new RemainingRows()
    this.#deps = {
      ...deps,
      onCounted: job => {
        remaining.update(job)
        deps.onCounted?.(job)
      },
    }
    this.batch = deps.batch
    this.#buffer = new SettleBuffer(
      { maxBytes: deps.batchBytes, maxMessages: deps.batch }, remaining, deps.clock)
  }

  async decide (messages: Messages): Promise<readonly Decision<'settle'>[]> {
    const ready = this.#buffer.hold(messages)
    if (ready.length === 0) return []
    const batch = await this.#countReady(ready)
    if (batch === undefined) return []
    const isDeferred = this.#buffer.canDefer(batch)
    const stored = isDeferred ? [] : await this.#store([batch])
    if (isDeferred) this.#buffer.defer(batch)
    this.#buffer.release(ready.map(({ raw }) => raw))
    return isDeferred ? [] : toDecisions(stored, this.#progress)
  }

  async flushHeld (partition: Partition): Promise<readonly Decision<'settle'>[]> {
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
    await finishUnresolvableRows(this.#deps, headers)
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
      return await count(this.#deps, ready, this.#buffer.generation)
    } catch (error) {
      throwUnlessOfMessages(error)
      this.#buffer.markOverdue(ready)
      return undefined
    }
  }

  /** Counts what waited long enough; returns the messages that cannot be counted. */
  async #countLate (jobs: readonly Messages[]): Promise<readonly Decision<'settle'>[]> {
    const dead = await Promise.all(jobs.map(async messages => {
      const batches = await countOrGiveUp(this.#deps, messages, this.#buffer.generation)
      this.#buffer.release(messages.map(({ raw }) => raw))
      for (const batch of batches) if (!('dead' in batch)) this.#buffer.defer(batch)
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
      this.#buffer.isExpired(batch)
        ? await count(this.#deps, batch.messages, batch.generation)
        : batch))
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

  async #store (batches: readonly Counted[]): Promise<readonly Stored[]> {
    this.#buffer.beginStore()
    return await storeAll(this.#deps, batches)
  }
}

async function count (
  deps: SettleDeps, messages: Messages, generation: symbol
): Promise<Counted> {
  const countedAtMs = deps.clock.now()
  const counts = await Promise.all(messagesByJob(messages).map(ofJob =>
    tally(deps, ofJob.map(({ value }) => value))))
  failpoint('settle.tallied')
  return {
    generation,
    messages,
    tallied: counts.flatMap(({ tallied }) => tallied),
    countedAtMs,
    mayWait: counts.every(({ mayWait }) => mayWait),
  }
}

type GivenUp = Decision<'settle'> & { readonly dead: string }

/**
 * Counts messages of one job, each alone if they cannot be counted together. The rows of one that
 * cannot be counted end `unknown`; if that fails as well, `ledger` fails the job.
 */
async function countOrGiveUp (
  deps: SettleDeps, messages: Messages, generation: symbol
): Promise<readonly (Counted | GivenUp)[]> {
  try {
    return [await count(deps, messages, generation)]
  } catch (error) {
    throwUnlessOfMessages(error)
    const [first, ...others] = messages
    if (first === undefined || others.length > 0) {
      const counted: (Counted | GivenUp)[] = []
      for (const message of messages) {
        counted.push(...await countOrGiveUp(deps, [message], generation))
      }
      return counted
    }
    await finishUnresolvableRows(deps, first.raw.headers).catch(throwUnlessOfMessages)
    return [{ completes: messages, emits: [], dead: `decision failed: ${String(error)}` }]
  }
}

/** Throws an error that says nothing about the messages, such as that of a store. */
function throwUnlessOfMessages (error: unknown): void {
  if (isOutageOrFatal(error)) throw error
}

/**
 * Counts blocks of one job in their order. If they end the job, its end is visible from here on,
 * and requests that wait for a small job get its blocks.
 */
async function tally (
  { store, onCounted }: SettleDeps, blocks: readonly Completed[]
): Promise<Pick<Counted, 'tallied' | 'mayWait'>> {
  const text = packInlineResults(blocks)
  const keeps = text !== '' && text.length <= MAX_KEPT_CHARACTERS
  const tallied = await store.tallyAll(
    blocks[0]?.tenant ?? '', blocks.map(toTallyBlock), { text, keeps })
  for (const count of tallied) if (count.kind !== 'skip') onCounted?.(count.job)
  const mayWait = keeps && tallied.every(count => count.kind === 'counted' && count.ended)
  return { tallied, mayWait }
}

/** They stay in the append-only file until its rewrite: only for jobs of a few dozen rows. */
const MAX_KEPT_CHARACTERS = 4_096

const REFUSED_BLOCK = 'result block refused by ClickHouse'
const REFUSED_RECORD = 'final record refused by ClickHouse'

/**
 * Stores counted messages in one insert. Returns what is left to do for each batch. What ClickHouse
 * refuses keeps only its own job open: a block is given up, and of a job whose record is refused
 * the last message, so that its replay closes the job.
 */
async function storeAll (
  deps: SettleDeps, batches: readonly Counted[]
): Promise<readonly Stored[]> {
  const messages = batches.flatMap(batch => batch.messages)
  const ended = await Promise.all(batches.map(async batch => {
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
  }))
  const archived = ended.flatMap(({ records }) => records.map(record => record.archived))
  const rows = [
    ...messages.map(({ value }) => ({ block: value })), ...archived.map(archived => ({ archived })),
  ]
  const refusedRows = await refusedBy(() => deps.saveBlocksAndRecords(rows))
  failpoint('settle.stored')
  const refusedBlocks = new Set(messages.filter((_, at) => refusedRows.has(at)))
  const refusedRecords = new Set(archived
    .filter((_, at) => refusedRows.has(messages.length + at)).map(({ job }) => job.id))
  return await Promise.all(ended.map(async ({ batch, records, earlier }) => {
    const refused = new Map(batch.messages.filter(message => refusedBlocks.has(message))
      .map(message => [message, REFUSED_BLOCK]))
    const lacking = new Set([...refused.keys()].map(({ value }) => value.job))
    const giveUpRecord = (id: string) => {
      const last = batch.messages.findLast(({ value }) => value.job === id)
      if (last !== undefined && !lacking.has(id)) refused.set(last, REFUSED_RECORD)
    }
    // A job that ended earlier may have counted blocks that a crash kept from being stored.
    const archivedNow = await Promise.all(earlier.map(async ({ job, entry }) => {
      let remaining: RemainingSteps | undefined
      const { size } = await refusedBy(async () => {
        remaining = await archiveEnded(deps, { job, entry })
      })
      if (size > 0) giveUpRecord(job.id)
      return remaining
    }))
    const archivedHere = records.filter(({ job }) => !lacking.has(job.id))
    for (const { job } of archivedHere) if (refusedRecords.has(job.id)) giveUpRecord(job.id)
    const steps = [
      ...archivedNow.filter(remaining => remaining !== undefined),
      ...archivedHere.filter(({ job }) => !refusedRecords.has(job.id))
        .map(record => remainingSteps(deps, record)),
    ]
    return { ...batch, steps, refused }
  }))
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

/**
 * Ends the rows of an unreadable block as `unknown`, free of charge. If that ends the job, `ledger`
 * closes it. The block held the inputs of its chunk unless its headers say `inputs: false`; then
 * blank ones take their place.
 */
async function finishUnresolvableRows (
  deps: SettleDeps, headers: RawMessage['headers']
): Promise<void> {
  const rows = coordinatesOfHeaders(headers)
  if (rows === undefined) return
  const job = await deps.store.read(rows.coordinates.tenant, rows.coordinates.job)
  if (job === undefined || job.ended) return
  const inputs = headers['inputs'] !== 'false'
  const block = await storeBlock(deps, unresolvableBlock(rows, { atMs: job.createdAtMs, inputs }))
  await tally(deps, [block])
}

type Limits = {
  /** Maximum size of the messages of a partition that are held. */
  readonly maxBytes: number
  readonly maxMessages: number
}

/**
 * The blocks of a consumer group that are not settled. The states of a message:
 *
 * 1. held: not counted, until the blocks of its job may end it: the verdicts of a small job follow
 *    its inputs within milliseconds, and one count and one insert of both take half the time;
 * 2. overdue: held at two flushes of its partition, so that it is counted whatever is missing;
 * 3. deferred: counted, and waits for an insert that it shares with others. A batch that may not
 *    wait, or comes after a quiet time, is stored at once and leaves the buffer;
 * 4. stored: inserted, and waits for the flush of its partition that takes it.
 *
 * What is deferred or stored for too long is counted again first.
 *
 * Counted messages and dead letters are released: they are not held any more. A new generation of
 * the group forgets all, as they are delivered again.
 */
class SettleBuffer {
  readonly #limits: Limits
  readonly #remaining: Pick<RemainingRows, 'mayEndJob'>
  readonly #clock: Clock
  readonly #held = new HeldMessages<Message>()
  /** Messages that were held at an earlier call of `overdue`. */
  readonly #seen = new WeakSet<RawMessage>()
  #generation = Symbol('generation')
  #counted: readonly (Counted | Stored)[] = []
  #storedAtMs = -Infinity

  constructor (limits: Limits, remaining: RemainingRows, clock: Clock) {
    this.#limits = limits
    this.#remaining = remaining
    this.#clock = clock
  }

  /** Changes with each generation of the group. */
  get generation (): symbol {
    return this.#generation
  }

  /** Holds messages of a partition. Returns those that should be counted now. */
  hold (messages: readonly Message[]): readonly Message[] {
    const [first] = messages
    if (first === undefined) return []
    for (const message of messages) this.#held.add(message)
    const all = this.#held.of(first.raw)
    const { maxBytes, maxMessages } = this.#limits
    const bytes = all.reduce((sum, { raw }) => sum + (raw.value?.length ?? 0), 0)
    if (all.length >= maxMessages || bytes >= maxBytes) return all
    return messagesByJob(all)
      .filter(ofJob => this.#remaining.mayEndJob(ofJob.map(({ raw }) => raw))).flat()
  }

  /** Uncounted messages of a partition that were there at the last call already. */
  overdue (partition: Partition): readonly Message[] {
    const all = this.#held.of(partition)
    const late = all.filter(({ raw }) => this.#seen.has(raw))
    for (const { raw } of all) this.#seen.add(raw)
    return late
  }

  /** Messages are counted, or dead letters. */
  release (messages: readonly Pick<RawMessage, 'topic' | 'partition' | 'offset'>[]): void {
    this.#held.remove(messages)
  }

  /** Whether counted messages may wait. What comes after a quiet time is stored at once. */
  canDefer (batch: Counted): boolean {
    const isQuiet = this.#counted.length === 0 &&
      this.#clock.now() - this.#storedAtMs >= FLUSH_EVERY_MS
    return batch.mayWait && !isQuiet
  }

  /** Drops a batch of an earlier generation: its messages are delivered again. */
  defer (batch: Counted): void {
    if (batch.generation === this.#generation) this.#counted = [...this.#counted, batch]
  }

  /** Messages that were counted before are to be counted at the next flush. */
  uncount (batch: Counted): void {
    if (!this.#counted.includes(batch)) return
    this.#counted = this.#counted.filter(other => other !== batch)
    for (const message of batch.messages) this.#held.add(message)
    this.markOverdue(batch.messages)
  }

  /** Held messages are to be counted at the next flush. */
  markOverdue (messages: Messages): void {
    for (const { raw } of messages) this.#seen.add(raw)
  }

  /** Whether the answer of its count is too old to be used. */
  isExpired ({ countedAtMs }: Counted): boolean {
    return this.#clock.now() - countedAtMs > ENTRY_VALID_MS
  }

  /**
   * Stored batches of a partition whose flush comes too late, as it waited for a Redis under
   * recovery, are to be counted and stored once more.
   */
  dropExpired (partition: Partition): void {
    this.#counted = this.#counted.map(batch => {
      if (!isStored(batch) || !isIn(partition)(batch) || !this.isExpired(batch)) return batch
      const { steps: _steps, refused: _refused, ...counted } = batch
      return counted
    })
  }

  /** Counted messages that are not stored. */
  unstored (): readonly Counted[] {
    return this.#counted.filter(batch => !isStored(batch))
  }

  beginStore (): void {
    this.#storedAtMs = this.#clock.now()
  }

  endStore (stored: readonly Stored[]): void {
    const byMessages = new Map(stored.map(batch => [batch.messages, batch]))
    this.#counted = this.#counted.map(batch => byMessages.get(batch.messages) ?? batch)
  }

  /** Whether counted messages of a partition are there, stored or not. */
  hasCounted (partition: Partition): boolean {
    return this.#counted.some(isIn(partition))
  }

  /** Whether an insert lacks some of a partition, as one that began before has: wait for more. */
  hasUnstored (partition: Partition): boolean {
    return this.#counted.some(batch => isIn(partition)(batch) && !isStored(batch))
  }

  /** Takes the stored messages of a partition. */
  takeStored (partition: Partition): readonly Stored[] {
    const taken = this.#counted.filter(isStored).filter(isIn(partition))
    this.#counted = this.#counted.filter(batch => !taken.some(stored => stored === batch))
    return taken
  }

  /** Drops everything: the group has a new generation. */
  forget (): void {
    this.#held.clear()
    this.#generation = Symbol('generation')
    this.#counted = []
  }
}

const isStored = (batch: Counted | Stored): batch is Stored => 'steps' in batch

const isIn = ({ topic, partition }: Partition) => ({ messages: [first] }: Counted) =>
  first?.raw.topic === topic && first.raw.partition === partition

/** Groups messages by job, in their order. */
function messagesByJob (messages: readonly Message[]): readonly (readonly Message[])[] {
  return [...Map.groupBy(messages, ({ value }) => `${value.tenant} ${value.job}`).values()]
}

/** All rows count as unfinished for a job that the cache has evicted. */
const MAX_COUNTED_JOBS = 10_000

/** The number of unfinished rows of each job that this process has counted rows of. */
class RemainingRows {
  readonly #remaining = boundedCache<number>({ entries: MAX_COUNTED_JOBS })

  /** Stores how many rows of a job are not finished, by its latest count. */
  update ({ id, preflight, counts }: Job): void {
    this.#remaining.set(id, preflight.totalRows - counts.finishedRows)
  }

  /** Whether these blocks may end a job, so that they should not wait for further blocks. */
  mayEndJob (blocks: readonly Pick<RawMessage, 'headers'>[]): boolean {
    const arrived = new Map<string, number>()
    for (const { headers } of blocks) {
      const { job = '', totalRows } = headers
      const rows = (arrived.get(job) ?? 0) + readRowCount(headers)
      arrived.set(job, rows)
      if (rows >= (this.#remaining.get(job) ?? Number(totalRows))) return true
    }
    return false
  }
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
  const repositories = createRepositories({ ...connected, messageCodec })
  const stage = () => new SettleStage({
    ...repositories,
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
