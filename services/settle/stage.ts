import { LRUCache } from 'lru-cache'
import type { Completed } from '../../schemas/types.ts'
import type { Job } from '../jobs/job.ts'
import type { JobStore } from '../jobs/store.ts'
import type { Tallied } from '../jobs/store-types.ts'
import type { RawMessage } from '../kafka/bus.ts'
import type { Clock } from '../platform/clock.ts'
import { failpoint } from '../platform/failpoint.ts'
import {
  type Decision, type Emission, type Incoming, rowCountOf, type Stage,
} from '../engine/stage.ts'
import { attachBlocks } from '../results/result-blocks.ts'
import { coordinatesOfHeaders, tallyBlockOf, unresolvableBlock } from '../results/block.ts'
import {
  type EndedJob, type FinishDeps, finishingOf, finishJob, recordOfEnd,
} from '../results/finish-job.ts'
import type { SettledRow } from '../results/settled-rows.ts'
import { createProgress } from './progress.ts'

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
  /** Maximum number of messages in one call of `decide`, which makes one insert of them. */
  readonly batch: number
}

/**
 * Counts the rows of blocks, then stores the blocks and the final records of jobs that end with
 * them, many per insert. Rows may be counted before they are stored, because their message is in
 * the topic until its offset is committed, and readers wait until the job is closed. While inserts
 * follow each other closely, small jobs whose blocks are kept with them wait for `flushHeld`.
 * The stage closes each job that ends with a block. A redelivered block is stored again, and also
 * closes a job that ended earlier and was left open, once all of its blocks are stored. The
 * progress of a job that an endpoint follows is emitted with each tenth of its rows.
 */
export function createSettleStage (deps: SettleDeps): Stage<'settle'> {
  const progress = createProgress()
  const held = createHeld(deps.clock)
  const storeAll = async (batches: readonly Counted[]): Promise<Decision<'settle'>> => {
    held.beginStore()
    const blocks = batches.flatMap(({ messages }) => messages.map(({ value }) => value))
    const tallied = batches.flatMap(batch => batch.tallied)
    const jobs = endedJobs(tallied)
    const ended = await recordsOf(deps, jobs.filter(({ isNew }) => isNew))
    await deps.saveSettled([
      ...blocks.map(block => ({ block })), ...ended.map(({ archived }) => ({ archived })),
    ])
    failpoint('settle.stored')
    // A job that ended earlier may have counted blocks that a crash kept from being stored.
    const earlier = await Promise.all(jobs.filter(({ isNew }) => !isNew)
      .map(async job => await finishJob(deps, job)))
    held.remove(batches)
    const finishings = [
      ...earlier.filter(finishing => finishing !== undefined),
      ...ended.map(one => finishingOf(deps, one)),
    ]
    const advanced = progress.of(tallied)
    return {
      completes: batches.flatMap(({ messages }) => messages),
      emits: [...finishings.flatMap(({ emits }) => emits), ...advanced.emits],
      afterProduced: async () => {
        advanced.remember()
        await Promise.all(finishings.map(({ close }) => close()))
      },
    }
  }
  return {
    name: 'settle',
    batch: deps.batch,
    decide: async (messages) => {
      const counted = await count(deps, messages)
      failpoint('settle.tallied')
      if (counted.mayWait && !held.isQuiet()) {
        held.add(counted)
        return []
      }
      return [await storeAll([...held.of(messages[0]?.raw), counted])]
    },
    flushHeld: async (partition) => {
      const batches = held.of(partition)
      return batches.length === 0 ? [] : [await storeAll(batches)]
    },
    resolveDead: async (headers) => {
      await finishUnresolvableRows(deps, headers)
      return []
    },
    forget: held.clear,
  }
}

/** How often small jobs are stored that end in close succession, in milliseconds. */
export const STORE_EVERY_MS = 100

type Partition = Pick<RawMessage, 'topic' | 'partition'>

/** Messages of a partition whose rows are counted. */
type Counted = {
  readonly messages: readonly Incoming<'rows.completed'>[]
  readonly tallied: readonly Tallied[]
  /** They end jobs whose blocks Redis keeps until they are stored. */
  readonly mayWait: boolean
}

/** Counted messages that are not stored yet. */
function createHeld (clock: Clock) {
  let batches: readonly Counted[] = []
  let storedAtMs = -Infinity
  return {
    add: (batch: Counted): void => { batches = [...batches, batch] },
    of: (partition: Partition | undefined): readonly Counted[] => batches.filter(
      ({ messages: [first] }) => first?.raw.topic === partition?.topic &&
        first?.raw.partition === partition?.partition),
    remove: (stored: readonly Counted[]): void => {
      batches = batches.filter(batch => !stored.includes(batch))
    },
    beginStore: (): void => { storedAtMs = clock.now() },
    /** True if nothing was stored lately: then what comes next is stored at once. */
    isQuiet: (): boolean => batches.length === 0 && clock.now() - storedAtMs >= STORE_EVERY_MS,
    clear: (): void => { batches = [] },
  }
}

async function count (
  deps: SettleDeps, messages: readonly Incoming<'rows.completed'>[]
): Promise<Counted> {
  const byJob = Map.groupBy(messages.map(({ value }) => value),
    ({ tenant, job }) => `${tenant} ${job}`)
  const counts = await Promise.all([...byJob.values()].map(ofJob => tally(deps, ofJob)))
  return {
    messages,
    tallied: counts.flatMap(({ tallied }) => tallied),
    mayWait: counts.every(({ mayWait }) => mayWait),
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
  for (const one of tallied) if (one.kind !== 'skip') onCounted?.(one.job)
  const mayWait = keeps && tallied.every(one => one.kind === 'counted' && one.ended)
  return { tallied, mayWait }
}

/** Redis keeps them in its file until it is rewritten; some dozen rows have fewer. */
const MAX_KEPT_CHARACTERS = 4_096

/**
 * Each ended job once, with its journal entry if the answer to any of its blocks had it. `isNew`:
 * one of these blocks ended it, so all blocks before them are stored.
 */
function endedJobs (
  tallied: readonly Tallied[]
): readonly (EndedJob & { readonly isNew: boolean })[] {
  const jobs = new Map<string, EndedJob & { readonly isNew: boolean }>()
  for (const one of tallied) {
    if (one.kind === 'skip' || !one.ended || one.job.closed) continue
    const known = jobs.get(one.job.id)
    const { job, entry = known?.entry, manifest = known?.manifest } = one
    const isNew = one.kind === 'counted' || known?.isNew === true
    jobs.set(job.id, { job, entry, manifest, isNew })
  }
  return [...jobs.values()]
}

/** The jobs that are not closed, with their final records. */
async function recordsOf (deps: SettleDeps, jobs: readonly EndedJob[]) {
  const found = await Promise.all(jobs.map(async one =>
    ({ ...one, archived: await recordOfEnd(deps, one) })))
  return found.flatMap(({ archived, ...one }) =>
    archived === undefined ? [] : [{ ...one, archived }])
}

/**
 * Ends the rows of an unreadable block as `unknown`, free of charge. If that ends the job, `ledger`
 * closes it. The block held the inputs of its chunk unless its headers say `inputs: false`; then
 * blank ones take their place.
 */
async function finishUnresolvableRows (
  deps: SettleDeps, headers: RawMessage['headers']
): Promise<void> {
  const known = coordinatesOfHeaders(headers)
  if (known === undefined) return
  const job = await deps.store.read(known.coordinates.tenant, known.coordinates.job)
  if (job === undefined || job.ended) return
  const inputs = headers['inputs'] !== 'false'
  const block = await deps.storeBlock(unresolvableBlock(known, { atMs: deps.clock.now(), inputs }))
  await tally(deps, [block])
}

/**
 * Maximum time that a block waits for further blocks of the same insert. The verdicts of a small
 * job without a slow check follow its inputs within milliseconds: two inserts take twice as long.
 */
export const MAX_BATCH_WAIT_MS = { small: 20, bulk: 150 } as const

type RemainingRows = {
  /** Stores how many rows of a job are not finished, by its latest count. */
  readonly update: (job: Pick<Job, 'id' | 'preflight' | 'counts'>) => void
  /** Whether these blocks may end a job, so that they should not wait for further blocks. */
  readonly mayEndJob: (blocks: readonly Pick<RawMessage, 'headers'>[]) => boolean
}

/** All rows count as unfinished for a job that the cache has evicted. */
const MAX_JOBS = 10_000

/** The number of unfinished rows of each job that this process has counted rows of. */
export function createRemainingRows (): RemainingRows {
  // `max` would allocate memory for all entries up front; `maxSize` does not.
  const remaining = new LRUCache<string, number>({ maxSize: MAX_JOBS, sizeCalculation: () => 1 })
  return {
    update: ({ id, preflight, counts }) => {
      remaining.set(id, preflight.totalRows - counts.finishedRows)
    },
    mayEndJob: (blocks) => {
      const arrived = new Map<string, number>()
      for (const { headers } of blocks) {
        const { job = '', totalRows } = headers
        const rows = (arrived.get(job) ?? 0) + rowCountOf(headers)
        arrived.set(job, rows)
        if (rows >= (remaining.get(job) ?? Number(totalRows))) return true
      }
      return false
    },
  }
}
