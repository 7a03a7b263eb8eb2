import { readFileSync } from 'node:fs'
import { Clickhouse, COMMAND_TIMEOUT_MS } from '../../services/runtime/platform/clickhouse.ts'
import { inCloud, migrationsOnCluster, onCluster } from './cluster.ts'
import { migrations, selectPending, type Applied, type Migration } from './migrations.ts'
import { keepRecords } from './retention.ts'

export type Target = {
  readonly url: string
  readonly passwordFile?: string | undefined
  /** Of whom the tables are: one server by default. */
  readonly kind?: Kind
  /** The cluster of the configuration of the servers, for `replicated`. */
  readonly cluster?: string | undefined
  /** How long final records are kept; undefined for ever. */
  readonly keepMonths?: number | undefined
}

type Kind = 'single' | 'replicated' | 'cloud'

/**
 * Applies missing migrations in order, and the retention. All statements are idempotent.
 * @throws Error if the database has tables of another kind.
 */
export async function applyMigrations (
  { url, passwordFile, kind = 'single', cluster = '', keepMonths }: Target,
  say: (line: string) => void
): Promise<void> {
  const clickhouse = new Clickhouse(url, { timeoutMs: COMMAND_TIMEOUT_MS, passwordFile })
  try {
    const database = await findDatabase(clickhouse, kind)
    const statementsFor = {
      single: { create: CREATE_TABLE, convert: (statement: string) => [statement] },
      replicated: {
        create: migrationsOnCluster(CREATE_TABLE, { cluster, database }),
        convert: (statement: string) => onCluster(statement, { cluster, database }),
      },
      cloud: {
        create: inCloud(CREATE_TABLE), convert: (statement: string) => [inCloud(statement)],
      },
    }
    const { create, convert } = statementsFor[kind]
    await clickhouse.command(create)
    const applied = await clickhouse.rows<Applied>(
      'SELECT DISTINCT number, name, digest FROM applied_migrations ORDER BY number')
    const missing = selectPending(migrations(), applied, ownRelease())
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

/** The kind of the tables, by the engine of `jobs`; that of one server is any other. */
const KINDS: Readonly<Record<string, Kind>> =
  { Distributed: 'replicated', SharedMergeTree: 'cloud' }
const OWNERS = { single: 'one server', replicated: 'a cluster', cloud: 'ClickHouse Cloud' }

/** The name of the database, once its tables are of the wanted kind. */
async function findDatabase (clickhouse: Clickhouse, kind: Kind): Promise<string> {
  const [current] = await clickhouse.rows<{ database: string, engine: string | null }>(`
    SELECT currentDatabase() AS database,
      (SELECT any(engine) FROM system.tables
        WHERE database = currentDatabase() AND name = 'jobs') AS engine`)
  const { database = '', engine } = current ?? {}
  const existing = engine ? KINDS[engine] ?? 'single' : kind
  if (existing === kind) return database
  throw new Error(`the tables of database ${database} are those of ${OWNERS[existing]}: set ` +
    `CLICKHOUSE_KIND=${existing}, or use an empty database and copy the rows`)
}

const CREATE_TABLE = `
  CREATE TABLE IF NOT EXISTS applied_migrations
  (number UInt32, name String, digest String, applied DateTime64(3, 'UTC') DEFAULT now64(3))
  ENGINE = ReplacingMergeTree ORDER BY number`

async function apply (
  clickhouse: Clickhouse, { number, name, digest, statements }: Migration
): Promise<void> {
  for (const query of statements) {
    await clickhouse.command(query).catch(cause => {
      throw new Error(`migration ${name} failed: ${String(cause.message)}`, { cause })
    })
  }
  await clickhouse.insert({ table: 'applied_migrations', values: [{ number, name, digest }] })
}

function ownRelease (): string {
  const file = new URL('../../package.json', import.meta.url)
  return (JSON.parse(readFileSync(file, 'utf8')) as { readonly version: string }).version
}
