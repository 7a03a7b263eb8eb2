import type { ClickHouseClient } from '@clickhouse/client'
import { streamRows } from '../lib/clickhouse.ts'

/**
 * What ClickHouse counts by itself, over rows that nobody has judged: forged rows count as well. So
 * a number other than 0 is a doubt, and no proof.
 */
export type AuditCounts = {
  /** Ids that several entries of a tenant have. */
  readonly sharedIds: (tenant: string) => Promise<number>
  /** Jobs that ended before a moment (Unix ms) and have no end in the journal. */
  readonly jobsWithoutEnd: (tenant: string, endedBeforeMs: number) => Promise<number>
  /** Rows of the jobs of all tenants that ended since a moment (Unix ms). */
  readonly rowsSince: (endedMs: number) => Promise<number>
}

/** The counts; they throw what ClickHouse does when it can't be asked. */
export function createAuditCounts (clickhouse: Pick<ClickHouseClient, 'query'>): AuditCounts {
  const count = async (query: string, parameters: Record<string, unknown>) => {
    let found = 0
    const rows = streamRows<{ readonly found: string }>(clickhouse, query, parameters)
    for await (const row of rows) found = Number(row.found)
    return found
  }
  return {
    sharedIds: tenant => count(SHARED_IDS, { tenant }),
    jobsWithoutEnd: (tenant, endedBeforeMs) => count(JOBS_WITHOUT_END, { tenant, endedBeforeMs }),
    rowsSince: endedMs => count(ROWS_SINCE, { endedMs }),
  }
}

const SHARED_IDS = `
  SELECT toString(count()) AS found FROM (
    SELECT entry_id FROM journal WHERE tenant = {tenant:String}
    GROUP BY entry_id HAVING uniqExact(seq) > 1
  )`
const JOBS_WITHOUT_END = `
  SELECT toString(uniqExact(job)) AS found FROM jobs
  WHERE tenant = {tenant:String} AND ended < fromUnixTimestamp64Milli({endedBeforeMs:Int64})
    AND job NOT IN (
      SELECT job FROM journal WHERE tenant = {tenant:String} AND type IN ('settle', 'void')
    )`
const ROWS_SINCE = `
  SELECT toString(sum(total_rows)) AS found FROM jobs
  WHERE ended >= fromUnixTimestamp64Milli({endedMs:Int64})`
