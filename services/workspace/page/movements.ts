import type { ClickHouseClient } from '@clickhouse/client'

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

const SELECT = `
  SELECT DISTINCT seq, type, job, amount_micros, charge_micros, available_micros,
    reserved_micros, toUnixTimestamp64Milli(at) AS at, reason
  FROM journal
  WHERE tenant = {tenant:String} AND seq < {before:UInt64}
  ORDER BY seq DESC LIMIT {limit:UInt32}`

type Stored = Readonly<Record<
  'seq' | 'type' | 'job' | 'amount_micros' | 'charge_micros' | 'available_micros' |
  'reserved_micros' | 'at' | 'reason', string
>>

/** Reads movements from the audit copy of the journal, which follows it within seconds. */
export function createMovements (clickhouse: Pick<ClickHouseClient, 'query'>): ReadMovements {
  return async (tenant, { limit, before = Number.MAX_SAFE_INTEGER }) => {
    const answer = await clickhouse.query({
      query: SELECT,
      query_params: { tenant, before, limit: limit + 1 },
      format: 'JSONEachRow',
    })
    const movements = (await answer.json<Stored>()).map(movementOf)
    const shown = movements.slice(0, limit)
    const isLast = movements.length <= limit
    return { movements: shown, before: isLast ? undefined : shown.at(-1)?.seq }
  }
}

function movementOf (row: Stored): Movement {
  return {
    seq: Number(row.seq),
    type: row.type,
    job: row.job,
    amountMicros: Number(row.amount_micros),
    chargeMicros: Number(row.charge_micros),
    availableMicros: Number(row.available_micros),
    reservedMicros: Number(row.reserved_micros),
    atMs: Number(row.at),
    reason: row.reason,
  }
}
