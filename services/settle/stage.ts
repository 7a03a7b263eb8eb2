import type { Completed } from '../../schemas/types.ts'
import type { JobStore } from '../jobs/store.ts'
import type { Tallied } from '../jobs/store-types.ts'
import type { RawMessage } from '../runtime/kafka/bus.ts'
import type { Clock } from '../runtime/platform/clock.ts'
import { FatalError, isInfrastructure } from '../runtime/platform/errors.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import type { Decision, Emission, Incoming, Stage } from '../runtime/engine/stage.ts'
import { attachBlocks } from '../jobs/results/result-blocks.ts'
import { coordinatesOfHeaders, tallyBlockOf, unresolvableBlock } from '../jobs/results/block.ts'
import {
  type EndedJob, type FinishDeps, finishingOf, finishJob, recordOfEnd,
} from '../jobs/results/finish-job.ts'
import type { SettledRow } from '../jobs/results/settled-rows.ts'
import {
  type Counted, messagesByJob, RemainingRows, SettleBuffer, shareRunning, type Stored,
} from './buffer.ts'
import { LRUCache } from 'lru-cache'
import { finishedTenths } from '../jobs/events.ts'
import type { Job } from '../jobs/job.ts'

type SettleDeps = Omit<FinishDeps, 'store'> & {
  /** Stores blocks and final records in one insert. */
  readonly saveSettled: (rows: readonly SettledRow[]) => Promise<void>
  readonly store: Pick<JobStore, 'tallyAll' | 'readWithManifest' | 'read' | 'close'>
  /** Seals a block and stores it, for rows whose own block cannot be read. */
  readonly storeBlock: (emission: Emission<'rows.completed'>) => Promise<Completed>
  /** Redis time. */
  readonly clock: Clock
  /** Called with each job after some of its rows were counted. */
  readonly onCounted?: (job: EndedJob['job']) => void
  /** Maximum number of messages in one call of `decide`, and of those that wait for others. */
  readonly batch: number
  /** Maximum size of the messages of a partition that wait for others. */
  readonly batchBytes: number
}

type Messages = readonly Incoming<'rows.completed'>[]

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
export function createSettleStage (given: SettleDeps): Stage<'settle'> {
  const progress = new JobProgress()
  const remaining = new RemainingRows()
  const onCounted = (job: EndedJob['job']) => {
    remaining.update(job)
    given.onCounted?.(job)
  }
  const deps: SettleDeps = { ...given, onCounted }
  const buffer = new SettleBuffer(
    { maxBytes: deps.batchBytes, maxMessages: deps.batch }, remaining, deps.clock)
  const store = async (batches: readonly Counted[]) => {
    buffer.beginStore()
    return await storeAll(deps, batches)
  }
  /** All partitions share an insert. */
  const storeCounted = shareRunning(async () => {
    const batches = buffer.unstored()
    if (batches.length > 0) buffer.endStore(await store(batches))
  })
  const countLate = async (jobs: readonly Messages[]): Promise<readonly Decision<'settle'>[]> => {
    const dead = await Promise.all(jobs.map(async messages => {
      const batch = await countOrGiveUp(deps, messages, buffer.generation)
      buffer.release(messages.map(({ raw }) => raw))
      if (!('dead' in batch)) buffer.defer(batch)
      return 'dead' in batch ? [batch] : []
    }))
    return dead.flat()
  }
  return {
    name: 'settle',
    batch: deps.batch,
    decide: async (messages) => {
      const ready = buffer.hold(messages)
      if (ready.length === 0) return []
      const batch = await count(deps, ready, buffer.generation)
      const mayWait = buffer.canDefer(batch)
      const stored = mayWait ? [] : await store([batch])
      if (mayWait) buffer.defer(batch)
      buffer.release(ready.map(({ raw }) => raw))
      return mayWait ? [] : [decisionOf(stored, progress)]
    },
    flushHeld: async (partition) => {
      const dead = await countLate(messagesByJob(buffer.overdue(partition)))
      if (dead.length > 0 || !buffer.hasCounted(partition)) return dead
      while (buffer.hasUnstored(partition)) await storeCounted()
      const stored = buffer.takeStored(partition)
      return stored.length === 0 ? [] : [decisionOf(stored, progress)]
    },
    resolveDead: async (headers, source) => {
      buffer.release([source])
      await finishUnresolvableRows(deps, headers)
      return []
    },
    forget: () => buffer.forget(),
  }
}

async function count (
  deps: SettleDeps, messages: Messages, generation: symbol
): Promise<Counted> {
  const counts = await Promise.all(messagesByJob(messages).map(ofJob =>
    tally(deps, ofJob.map(({ value }) => value))))
  failpoint('settle.tallied')
  return {
    generation,
    messages,
    tallied: counts.flatMap(({ tallied }) => tallied),
    mayWait: counts.every(({ mayWait }) => mayWait),
  }
}

/** Counts messages of one job. A job that cannot be counted must not block the others. */
async function countOrGiveUp (
  deps: SettleDeps, messages: Messages, generation: symbol
): Promise<Counted | Decision<'settle'> & { readonly dead: string }> {
  try {
    return await count(deps, messages, generation)
  } catch (error) {
    if (isInfrastructure(error) || error instanceof FatalError) throw error
    return { completes: messages, emits: [], dead: `decision failed: ${String(error)}` }
  }
}

/**
 * Counts blocks of one job in their order. If they end the job, its end is visible from here on,
 * and requests that wait for a small job get its blocks.
 */
async function tally (
  { store, onCounted }: SettleDeps, blocks: readonly Completed[]
): Promise<Pick<Counted, 'tallied' | 'mayWait'>> {
  const attached = attachBlocks(blocks)
  const keeps = attached !== '' && attached.length <= MAX_KEPT_CHARACTERS
  const tallied = await store.tallyAll(
    blocks[0]?.tenant ?? '', blocks.map(tallyBlockOf), { attached, keeps })
  for (const count of tallied) if (count.kind !== 'skip') onCounted?.(count.job)
  const mayWait = keeps && tallied.every(count => count.kind === 'counted' && count.ended)
  return { tallied, mayWait }
}

/** Redis keeps them in its file until it is rewritten; some dozen rows have fewer. */
const MAX_KEPT_CHARACTERS = 4_096

/** Stores counted messages in one insert. Returns what is left to do for each batch. */
async function storeAll (
  deps: SettleDeps, batches: readonly Counted[]
): Promise<readonly Stored[]> {
  const blocks = batches.flatMap(({ messages }) => messages.map(({ value }) => ({ block: value })))
  const ended = await Promise.all(batches.map(async batch => {
    const jobs = endedJobs(batch.tallied)
    const records = await recordsOf(deps, jobs.filter(({ isNew }) => isNew))
    return { batch, records, earlier: jobs.filter(({ isNew }) => !isNew) }
  }))
  const archived = ended.flatMap(({ records }) => records.map(({ archived }) => ({ archived })))
  await deps.saveSettled([...blocks, ...archived])
  failpoint('settle.stored')
  return await Promise.all(ended.map(async ({ batch, records, earlier }) => {
    // A job that ended earlier may have counted blocks that a crash kept from being stored.
    const finished = await Promise.all(earlier.map(async job => await finishJob(deps, job)))
    const finishings = [
      ...finished.filter(finishing => finishing !== undefined),
      ...records.map(record => finishingOf(deps, record)),
    ]
    return { ...batch, finishings }
  }))
}

/** Announces and closes the ended jobs of stored messages. */
function decisionOf (
  stored: readonly Stored[], progress: JobProgress
): Decision<'settle'> {
  const advanced = progress.advance(stored.flatMap(({ tallied }) => tallied))
  const finishings = stored.flatMap(batch => batch.finishings)
  return {
    completes: stored.flatMap(({ messages }) => messages),
    emits: [...finishings.flatMap(({ emits }) => emits), ...advanced.emits],
    afterProduced: async () => {
      advanced.remember()
      await Promise.all(finishings.map(({ close }) => close()))
    },
  }
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

/** The jobs that are not closed, with their final records. */
async function recordsOf (deps: SettleDeps, jobs: readonly EndedJob[]) {
  const records = await Promise.all(jobs.map(async job =>
    ({ ...job, archived: await recordOfEnd(deps, job) })))
  return records.flatMap(({ archived, ...job }) =>
    archived === undefined ? [] : [{ ...job, archived }])
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
  const block = await deps.storeBlock(unresolvableBlock(rows, { atMs: deps.clock.now(), inputs }))
  await tally(deps, [block])
}

/** The progress to emit; `remember` must be called once it is acknowledged. */
export type Advanced = {
  readonly emits: readonly Emission<'jobs.events'>[]
  readonly remember: () => void
}

/** Jobs under way at a time, per process; an evicted one repeats an event, which counts once. */
const MAX_JOBS = 10_000

/**
 * Which progress of jobs to emit: each tenth of the rows once, and of several in one batch only the
 * latest. Only jobs that had a subscriber when they were accepted report any; an ended one reports
 * none. After a restart a tenth is emitted again, with the id it had.
 */
export class JobProgress {
  readonly #emitted = new LRUCache<string, number>({
    maxSize: MAX_JOBS, sizeCalculation: () => 1,
  })

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
      emits: jobs.map(progressOf),
      remember: () => {
        for (const job of jobs) this.#emitted.set(job.id, finishedTenths(job))
      },
    }
  }
}

function progressOf (job: Job): Emission<'jobs.events'> {
  const { tenant, id, lane, updatedAtMs } = job
  const tenth = finishedTenths(job)
  return {
    topic: 'jobs.events',
    lane,
    value: { tenant, job: id, type: 'job.progress', tenth, at: updatedAtMs },
    rows: undefined,
  }
}
