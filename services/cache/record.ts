import type { Reason, RowStatus } from '../../schemas/api/verdicts.ts'
import type { Evidence } from './evidence.ts'

/**
 * A verdict as it is cached and sent on. `confidence` is an integer from 0 to 100. `fields` holds
 * only result columns that can't identify the contact and don't derive from its canonical form
 * (see `results/outcome.ts`); a column that does not apply is absent. The column `suggestion` holds
 * the suggested mail domain alone, because the full address would put the local part into the
 * cache. `evidence` is missing in records of releases that did not store it.
 */
export type CheckedRecord = {
  readonly status: RowStatus
  readonly reason: Reason
  readonly confidence: number
  readonly fields: Readonly<Record<string, string>>
  readonly checkedAtMs: number
  readonly evidence?: Evidence | undefined
}
