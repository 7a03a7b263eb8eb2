import type { Clickhouse } from '../../services/runtime/platform/clickhouse.ts'

type Retention = {
  readonly months: number | undefined
  /** Converts a statement for the tables of a cluster. */
  readonly convert: (statement: string) => readonly string[]
}

/**
 * Makes the final records of jobs expire, or stops that: as a TTL of `jobs`, whose parts have one
 * month each and are dropped as a whole. Returns what it changed, in words.
 */
export async function keepRecords (
  clickhouse: Clickhouse, { months, convert }: Retention
): Promise<string | undefined> {
  const current = await currentMonths(clickhouse)
  if (current === months) return undefined
  const statements = months === undefined
    ? ['ALTER TABLE jobs REMOVE TTL']
    : [
        'ALTER TABLE jobs MODIFY SETTING ttl_only_drop_parts = 1',
        `ALTER TABLE jobs MODIFY TTL toDateTime(created) + toIntervalMonth(${months})`,
      ]
  for (const query of statements.flatMap(convert)) await clickhouse.command(query)
  return months === undefined
    ? 'final records are kept forever'
    : `final records are kept for ${months} months`
}

async function currentMonths (clickhouse: Clickhouse): Promise<number | undefined> {
  const [ttl] = await clickhouse.rows<{ readonly months: string }>(SELECT_TTL)
  const months = Number(ttl?.months ?? 0)
  return months > 0 ? months : undefined
}

const SELECT_TTL = `
  SELECT extract(engine_full, ' TTL .*toIntervalMonth\\\\((\\\\d+)\\\\)') AS months
  FROM system.tables WHERE database = currentDatabase() AND name IN ('jobs', 'jobs_local')
  ORDER BY name DESC`
