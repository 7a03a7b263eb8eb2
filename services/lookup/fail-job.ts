import { FatalError, isInfrastructure } from '../platform/errors.ts'
import type { Decision, Emission } from '../engine/stage.ts'
import { laneOf } from '../platform/topics.ts'
import { BATCHLESS, type BlockOptions, coordinatesOf, createBlock } from '../results/block.ts'
import { withoutVerdict } from '../results/outcome.ts'
import { journalEmission } from './emissions.ts'
import { announce, decideJob, headOf, type JobDeps, type JobUnit } from './decide-job.ts'
import type { ChunkMessage } from './chunk-loader.ts'

export type FailJobDeps = JobDeps & {
  /** Called with the reason when a job cannot be decided, for logs. */
  readonly onUndecidable?: (of: { tenant: string, job: string }, error: unknown) => void
}

/**
 * Decides a job. Rethrows infrastructure errors, which the engine retries; any other error fails
 * the job.
 */
export async function decideOrFailJob (unit: JobUnit, deps: FailJobDeps):
Promise<Decision<'lookup'>> {
  try {
    return await decideJob(unit, deps)
  } catch (error) {
    if (isInfrastructure(error) || error instanceof FatalError) throw error
    const { tenant, job } = headOf(unit)
    deps.onUndecidable?.({ tenant, job }, error)
    return await failJob(unit, deps)
  }
}

/**
 * Fails a job. Before `accept` it is refused. After it every row is emitted as `unknown`, free,
 * with the inputs of each readable chunk. The verification batches of a rebuilt job may be in
 * progress: its rows are left to them, and `ledger` ends what stays open. The job is announced only
 * after its reservation is in the journal, because a Redis that loses its last writes would lose
 * the acceptance too. After such a loss the rows may have verdicts that are still to be recounted,
 * so the blocks replace lost ones (`BATCHLESS.replacingLost`), which waits for the recount.
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
    emits: entry === undefined ? blocks : [...blocks, journalEmission(entry, laneOf(totalRows))],
    afterProduced: () => announce({ tenant, job }, entry, deps),
  }
}

function blockOf (
  message: ChunkMessage, { atMs, withRows }: { readonly atMs: number, readonly withRows: boolean }
): Emission<'rows.completed'> {
  const coordinates = coordinatesOf(message.value)
  const block = createBlock({ coordinates, batch: BATCHLESS.replacingLost, ...inputsOf(message) })
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
