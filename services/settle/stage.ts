import type { Finished } from '../../schemas/types.ts'
import type { JobStore, Tallied } from '../jobs/store.ts'
import type { RawMessage } from '../lib/bus.ts'
import type { Clock } from '../lib/clock.ts'
import { failpoint } from '../lib/failpoint.ts'
import type { Stage } from '../lib/stage.ts'
import { deadBlock } from '../records/block.ts'
import { finishJob, type EndedJob, type FinishParts } from '../records/finish.ts'
import { placeOfHeaders } from '../records/place.ts'
import type { ResultBlocks } from '../records/result-blocks.ts'
import type { storeBlock } from '../records/stored-block.ts'
import { tallyBlockOf } from '../records/tally-block.ts'

export type SettleParts = Omit<FinishParts, 'store'> & {
  readonly blocks: Pick<ResultBlocks, 'insert'>
  readonly store: Pick<JobStore, 'tally' | 'readWhole' | 'read' | 'close'>
  /** Seals a block and stores it, for rows whose own block can't be read. */
  readonly storeBlock: (emission: Parameters<typeof storeBlock>[1]) => Promise<Finished>
  /** Redis time. */
  readonly clock: Clock
  /** Told of each job that rows were counted of. */
  readonly onCounted?: (job: EndedJob['job']) => void
  /** Messages handed to one call of `decide`: the number of inserts matters, not their size. */
  readonly batch: number
}

/**
 * Stores blocks, many an insert, and counts each. A job that ends with one is brought to its close;
 * so is one that had ended before and was left open, which a redelivered block shows. A block is
 * stored before it is counted, as what is counted has to be readable.
 */
export function createSettleStage (parts: SettleParts): Stage<'settle'> {
  return {
    name: 'settle',
    batch: parts.batch,
    decide: async (messages) => {
      const blocks = messages.map(({ value }) => value)
      await parts.blocks.insert(blocks)
      failpoint('settle.stored')
      // Redis answers in the order it was asked, so the blocks are counted in theirs.
      const tallied = await Promise.all(blocks.map(block => tally(parts, block)))
      failpoint('settle.tallied')
      const finishings = await Promise.all(endedJobs(tallied).map(job => finishJob(parts, job)))
      return [{
        finishes: messages,
        emits: finishings.flatMap(({ emits }) => emits),
        afterProduced: async () => {
          await Promise.all(finishings.map(({ close }) => close()))
        },
      }]
    },
    whenDead: async (headers) => {
      await finishDeadRows(parts, headers)
      return []
    },
    forget: () => {},
  }
}

async function tally ({ store, onCounted }: SettleParts, block: Finished): Promise<Tallied> {
  const tallied = await store.tally(block.tenant, tallyBlockOf(block))
  if (tallied.kind !== 'skip') onCounted?.(tallied.job)
  return tallied
}

/** Each job once, with its entry if any of its blocks still saw it. */
function endedJobs (tallied: readonly Tallied[]): readonly EndedJob[] {
  const jobs = new Map<string, EndedJob>()
  for (const one of tallied) {
    if (one.kind === 'skip' || !one.ended || one.job.closed) continue
    const { job, entry = jobs.get(job.id)?.entry } = one
    jobs.set(job.id, { job, entry })
  }
  return [...jobs.values()]
}

/**
 * The rows of a block nobody can read end as `unknown`, free. If that ends the job, `ledger` closes
 * it. Whether it held the inputs of its chunk its headers say; blank ones stand in only for those,
 * as they stay if they come before the chunk's own. Blocks of releases that did not say it came
 * behind them.
 */
async function finishDeadRows (parts: SettleParts, headers: RawMessage['headers']): Promise<void> {
  const { store, storeBlock, clock } = parts
  const known = placeOfHeaders(headers)
  if (known === undefined) return
  const job = await store.read(known.place.tenant, known.place.job)
  if (job === undefined || job.ended) return
  const inputs = headers['inputs'] !== 'false'
  const block = await storeBlock(deadBlock(known, { atMs: clock.now(), inputs }))
  await tally(parts, block)
}
