import { FatalError, isInfrastructure } from '../platform/errors.ts'
import type { Decision, Emission } from '../engine/stage.ts'
import { laneOf } from '../platform/topics.ts'
import { BLOCK_PARTS, createBlock, type BlockOptions } from '../results/block.ts'
import { withoutVerdict } from '../results/outcome.ts'
import { coordinatesOf } from '../results/chunk-coordinates.ts'
import { journalOf } from './decide.ts'
import { announce, decideJob, headOf, type JobDeps, type JobUnit } from './job.ts'
import type { ChunkMessage } from './load.ts'

export type FailJobDeps = JobDeps & {
  /** Told why a job could not be decided, for logs. */
  readonly onUndecidable?: (job: string, error: unknown) => void
}

/** Broken infrastructure is the engine's; any other failure ends the job, but never silently. */
export async function decideOrFailJob (unit: JobUnit, deps: FailJobDeps):
Promise<Decision<'lookup'>> {
  try {
    return await decideJob(unit, deps)
  } catch (error) {
    if (isInfrastructure(error) || error instanceof FatalError) throw error
    deps.onUndecidable?.(headOf(unit).job, error)
    return await failJob(unit, deps)
  }
}

/**
 * Before `accept` the job is refused. Afterwards a promise was given: every row is emitted as
 * `unknown`, free, with the inputs of each chunk that can still be read. Of a job that was rebuilt
 * parts may be at work already: its rows are left to them, and `ledger` ends what stays open.
 * Nobody hears of the job before its reservation is in the journal: without it a Redis that loses
 * its last moments would take the promise along. After such a loss the rows may have verdicts that
 * are still to be counted again, so the blocks are of the part that waits for them.
 */
export async function failJob (
  unit: JobUnit, deps: JobDeps
): Promise<Decision<'lookup'>> {
  const { store, clock } = deps
  const { tenant, job, totalRows } = headOf(unit)
  const refused = { completes: unit.members, emits: [], dead: 'undecidable' }
  const outcome = await store.refuse(tenant, job, 'internal')
  if (outcome.kind !== 'accepted' || outcome.job.closed) return refused
  const { entry, job: { rebuilt } } = outcome
  const atMs = clock.now()
  const blocks = unit.messages.map((message) => blockOf(message, { atMs, withRows: !rebuilt }))
  return {
    ...refused,
    emits: entry === undefined ? blocks : [...blocks, journalOf(entry, laneOf(totalRows))],
    afterProduced: () => announce({ tenant, job }, { entry, deps }),
  }
}

function blockOf (
  message: ChunkMessage, { atMs, withRows }: { readonly atMs: number, readonly withRows: boolean }
): Emission<'rows.completed'> {
  const coordinates = coordinatesOf(message.value)
  const block = createBlock({ coordinates, part: BLOCK_PARTS.dead, ...inputsOf(message) })
  const rows = withRows ? coordinates.rows : 0
  for (let row = 0; row < rows; row++) block.add(row, withoutVerdict('internal', { atMs }))
  return block.emission(laneOf(coordinates.totalRows))
}

function inputsOf (message: ChunkMessage): Pick<BlockOptions, 'inputs' | 'contacts'> {
  try {
    const { inputs, contacts } = message.rows()
    return { inputs, contacts }
  } catch {
    return { inputs: new Array<string>(message.value.rows).fill('') }
  }
}
