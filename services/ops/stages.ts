import { STAGES, type StageName } from '../topology.ts'
import { UsageError } from '../lib/run-command.ts'

/** The stage of that name; throws UsageError with all names when there is none. */
export function stageOf (name: string): StageName {
  const stage = STAGES.find(known => known === name)
  if (stage !== undefined) return stage
  throw new UsageError(`There is no stage ${name}; there are ${STAGES.join(', ')}.`)
}
