import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import type { ClickHouseClient } from '@clickhouse/client'
import {
  connectClickhouse, COMMAND_TIMEOUT_MS,
} from '../../services/runtime/platform/clickhouse.ts'
import { migrationsOnCluster, onCluster } from './cluster.ts'
import { keepRecords } from './retention.ts'

const folder = new URL('../../schemas/clickhouse/', import.meta.url)

/**
 * A numbered file of statements; once released, its number and content never change. It only adds,
 * so that the previous release keeps working. A migration that removes something is named after the
 * release that stopped using it, as `0012_old_columns_unused_since_1.4.0.sql`.
 */
type Migration = {
  readonly number: number
  readonly name: string
  /** Hex SHA-256 of the file. */
  readonly digest: string
  readonly statements: readonly string[]
}

type Applied = { readonly number: number, readonly name: string, readonly digest: string }

/** All migrations in order. Throws if the numbers are not 1, 2, 3 and so on. */
export function migrations (): readonly Migration[] {
  const files = readdirSync(folder).filter(file => file.endsWith('.sql')).sort()
  return files.map((name, index) => {
    const number = Number(name.slice(0, 4))
    if (number !== index + 1) throw new Error(`migration ${name} should have number ${index + 1}`)
    const text = readFileSync(new URL(name, folder), 'utf8')
    const digest = createHash('sha256').update(text).digest('hex')
    return { number, name, digest, statements: statementsOf(text) }
  })
}

/** The statements of a file, each ended by a semicolon at the end of a line. */
export function statementsOf (text: string): readonly string[] {
  return text.split(/;\s*$/m).map(statement => statement.trim())
    .filter(statement => statement.replace(/^\s*--.*$/gm, '').trim() !== '')
}

/** The release that stopped using what the migration removes; undefined if it only adds. */
export function unusedSince (name: string): string | undefined {
  return /_unused_since_(\d+\.\d+\.\d+)\.sql$/.exec(name)?.[1]
}

/**
 * The migrations to apply. Migrations of newer releases are ignored: they only add, or remove what
 * `release` does not use any more.
 * @throws Error if one removed what this release uses, or was edited after it was applied.
 */
export function pending (
  known: readonly Migration[], applied: readonly Applied[], release: string
): readonly Migration[] {
  for (const { number, name, digest } of applied) {
    const own = known[number - 1]
    const since = unusedSince(name)
    if (since !== undefined && compareReleases(release, since) < 0) {
      throw new Error(`the database has migration ${name}, which removed what release ${release} ` +
        `uses: deploy release ${since} or newer`)
    }
    if (own !== undefined && own.digest !== digest) {
      throw new Error(`migration ${name} was changed after it was applied: ` +
        'restore the file and put the change into a new one')
    }
  }
  const done = new Set(applied.map(({ number }) => number))
  return known.filter(({ number }) => !done.has(number))
}

function compareReleases (one: string, other: string): number {
  return one.localeCompare(other, 'en', { numeric: true })
}

function ownRelease (): string {
  const file = new URL('../../package.json', import.meta.url)
  return (JSON.parse(readFileSync(file, 'utf8')) as { readonly version: string }).version
}

export type Target = {
  readonly url: string
  /** A cluster of the configuration of the servers; undefined for tables of one server. */
  readonly cluster?: string | undefined
  /** How long final records are kept; undefined for ever. */
  readonly keepMonths?: number | undefined
}

/**
 * Applies missing migrations in order, and the retention. All statements are idempotent.
 * @throws Error if the database has tables of one server, and a cluster is wanted, or conversely.
 */
export async function applyMigrations (
  { url, cluster, keepMonths }: Target, say: (line: string) => void
): Promise<void> {
  const clickhouse = connectClickhouse(url, COMMAND_TIMEOUT_MS)
  try {
    const database = await databaseOf(clickhouse, cluster)
    const target = cluster === undefined ? undefined : { cluster, database }
    const create = target === undefined ? CREATE_TABLE : migrationsOnCluster(CREATE_TABLE, target)
    await clickhouse.command({ query: create })
    const convert = (statement: string) =>
      target === undefined ? [statement] : onCluster(statement, target)
    const missing = pending(migrations(), await appliedIn(clickhouse), ownRelease())
    for (const { statements, ...migration } of missing) {
      await apply(clickhouse, { ...migration, statements: statements.flatMap(convert) })
    }
    say(`tables: ${missing.length} migrations applied`)
    const changed = await keepRecords(clickhouse, { months: keepMonths, convert })
    if (changed !== undefined) say(`tables: ${changed}`)
  } finally {
    await clickhouse.close()
  }
}

/** The name of the database, once its tables are of the wanted kind. */
async function databaseOf (
  clickhouse: ClickHouseClient, cluster: string | undefined
): Promise<string> {
  const answer = await clickhouse.query({
    query: `
      SELECT currentDatabase() AS database,
        (SELECT any(engine) FROM system.tables
          WHERE database = currentDatabase() AND name = 'jobs') AS engine`,
    format: 'JSONEachRow',
  })
  const [found] = await answer.json<{ readonly database: string, readonly engine: string | null }>()
  const { database = '', engine } = found ?? {}
  if (!engine || (engine === 'Distributed') === (cluster !== undefined)) return database
  throw new Error(`the tables of database ${database} are ` + (cluster === undefined
    ? 'those of a cluster: set CLICKHOUSE_CLUSTER'
    : 'those of one server: unset CLICKHOUSE_CLUSTER, or use an empty database and copy the rows'))
}

const CREATE_TABLE = `
  CREATE TABLE IF NOT EXISTS applied_migrations
  (number UInt32, name String, digest String, applied DateTime64(3, 'UTC') DEFAULT now64(3))
  ENGINE = ReplacingMergeTree ORDER BY number`

async function appliedIn (clickhouse: ClickHouseClient): Promise<readonly Applied[]> {
  const answer = await clickhouse.query({
    query: 'SELECT DISTINCT number, name, digest FROM applied_migrations ORDER BY number',
    format: 'JSONEachRow',
  })
  return await answer.json<Applied>()
}

async function apply (
  clickhouse: ClickHouseClient, { number, name, digest, statements }: Migration
): Promise<void> {
  for (const query of statements) {
    await clickhouse.command({ query }).catch(cause => {
      throw new Error(`migration ${name} failed: ${String(cause.message)}`, { cause })
    })
  }
  await clickhouse.insert({
    table: 'applied_migrations', values: [{ number, name, digest }], format: 'JSONEachRow',
  })
}
