import type { Journal } from '../../../schemas/types.ts'
import type { JournalCopy } from '../../records/journal-copy.ts'

/** A movement of money as the journal tells it. */
export type Movement = {
  readonly seq: number
  readonly type: string
  /** '' for movements of no job. */
  readonly job: string
  readonly amountMicros: number
  readonly chargeMicros: number
  readonly availableMicros: number
  readonly reservedMicros: number
  readonly atMs: number
  readonly reason: string
}

export type MovementPage = {
  readonly movements: readonly Movement[]
  /** Where the next page begins; undefined on the last. */
  readonly before: number | undefined
}

/** A page of a tenant's movements, newest first, before an entry or from the newest on. */
export type ReadMovements = (
  tenant: string, options: { readonly limit: number, readonly before: number | undefined },
) => Promise<MovementPage>

/** Reads movements from the audit copy of the journal, which follows it within seconds. */
export function createMovements (journal: Pick<JournalCopy, 'readNewest'>): ReadMovements {
  return async (tenant, { limit, before }) => {
    const entries = await journal.readNewest(tenant, { limit: limit + 1, before })
    const movements = entries.slice(0, limit).map(movementOf)
    const isLast = entries.length <= limit
    return { movements, before: isLast ? undefined : movements.at(-1)?.seq }
  }
}

function movementOf (entry: Journal): Movement {
  const { seq, type, job, amountMicros, chargeMicros, availableMicros, reservedMicros } = entry
  return {
    seq,
    type,
    job,
    amountMicros,
    chargeMicros,
    availableMicros,
    reservedMicros,
    atMs: entry.at,
    reason: entry.reason,
  }
}
