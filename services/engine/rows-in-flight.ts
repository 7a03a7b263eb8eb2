import type { FairShares } from '../platform/fair-shares.ts'

/** What the partitions of a consumer group have of each tenant in this process. */
export type RowsInFlight = {
  /** Adds messages of a tenant that wait to be decided; a negative number drops some. */
  readonly addWaiting: (tenant: string, messages: number) => void
  /** Whether the next message of a tenant may start. */
  readonly mayStart: (tenant: string) => boolean
  /** A waiting message with so many rows starts. */
  readonly start: (tenant: string, rows: number) => void
  /** A started message is completed, or is delivered again. */
  readonly end: (tenant: string, rows: number) => void
  /** Resolves at the next `end`. */
  readonly nextEnd: () => Promise<void>
}

/** The rows of two full chunks: some 20 ms of work, for which another tenant waits. */
const MAX_ROWS = 4_000

type Usage = { readonly waiting: number, readonly rows: number }

/**
 * Limits the rows in flight of a tenant without credit while several tenants are active: what has
 * started cannot be preempted. A message may start below the limit, so each tenant always has one
 * in flight. A tenant that is alone uses the whole process.
 */
export function createRowsInFlight (
  shares: Pick<FairShares, 'hasCredit'>, weightOf: (tenant: string) => number
): RowsInFlight {
  /** The active tenants: those with messages that wait or are in flight. */
  const active = new Map<string, Usage>()
  let ended = Promise.withResolvers<void>()
  const change = (tenant: string, waiting: number, rows: number): void => {
    const before = active.get(tenant) ?? { waiting: 0, rows: 0 }
    const after = { waiting: before.waiting + waiting, rows: before.rows + rows }
    if (after.waiting === 0 && after.rows === 0) active.delete(tenant)
    else active.set(tenant, after)
  }
  return {
    addWaiting: (tenant, messages) => change(tenant, messages, 0),
    mayStart: tenant => {
      const { rows } = active.get(tenant) ?? { rows: 0 }
      return active.size < 2 || rows < MAX_ROWS * weightOf(tenant) || shares.hasCredit(tenant)
    },
    start: (tenant, rows) => change(tenant, -1, rows),
    end: (tenant, rows) => {
      change(tenant, 0, -rows)
      ended.resolve()
      ended = Promise.withResolvers()
    },
    nextEnd: () => ended.promise,
  }
}
