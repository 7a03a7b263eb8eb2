/** A cluster of the configuration of the servers, and the database of the tables. */
export type Cluster = { readonly cluster: string, readonly database: string }

/**
 * A statement of a migration for ClickHouse Cloud, where all servers share what a table stores. The
 * engine is named, although Cloud would take that of one server for it, so that other servers
 * refuse it.
 */
export const inCloud = (statement: string): string => statement
  .replace(/\bENGINE = (Replacing)?MergeTree\b/, 'ENGINE = Shared$1MergeTree')
  .replace(' non_replicated_deduplication_window', ' replicated_deduplication_window')

/** Tables on each server have this suffix; the name without it is the table over all shards. */
const LOCAL = '_local'
/** Qualified, because each server runs the statement in a database of its own choice. */
const nameIn = (database: string, table: string) => `\`${database}\`.${table}`
const PATH = '/clickhouse/tables/{shard}/{database}/{table}'

/**
 * The statements that do on a cluster what a statement of a migration does on one server. Tables
 * are replicated within a shard, and divided between shards by tenant; services use the
 * `Distributed` tables over them. What is inserted into `settled` goes to the server of its tenant,
 * where the views write to tables of the same server.
 * @throws Error for a statement that is none of those that migrations have so far.
 */
export function onCluster (statement: string, target: Cluster): readonly string[] {
  const text = statement.replace(/^\s*--.*\n?/gm, '').trim()
  for (const convert of [tableOnCluster, viewOnCluster, settingOnCluster]) {
    const converted = convert(text, target)
    if (converted !== undefined) return converted
  }
  throw new Error(`no cluster can run this statement, extend deploy/provision/cluster.ts: ${text}`)
}

/** The table of applied migrations, once for all shards. */
export function migrationsOnCluster (statement: string, { cluster, database }: Cluster): string {
  const table = 'applied_migrations'
  return statement.trim()
    .replace(table, `${nameIn(database, table)} ON CLUSTER '${cluster}'`)
    .replace('ReplacingMergeTree', 'ReplicatedReplacingMergeTree(' +
      "'/clickhouse/tables/{database}/{table}', '{shard}-{replica}')")
}

function tableOnCluster (
  text: string, { cluster, database }: Cluster
): readonly string[] | undefined {
  const create = /^CREATE TABLE IF NOT EXISTS (\w+)\n(\(.*\))\nENGINE = (MergeTree|Null)\b(.*)$/s
  const [, table, columns, engine, rest = ''] = create.exec(text) ?? []
  if (table === undefined) return undefined
  const local = nameIn(database, table + LOCAL)
  const replicated = engine === 'Null' ? engine : `ReplicatedMergeTree('${PATH}', '{replica}')`
  const settings = rest
    .replace('non_replicated_deduplication_window', 'replicated_deduplication_window')
  return [
    `CREATE TABLE IF NOT EXISTS ${local} ON CLUSTER '${cluster}'\n${columns}\n` +
      `ENGINE = ${replicated}${settings}`,
    `CREATE TABLE IF NOT EXISTS ${nameIn(database, table)} ON CLUSTER '${cluster}' AS ${local}\n` +
      `ENGINE = Distributed('${cluster}', '${database}', '${table}${LOCAL}', cityHash64(tenant))`,
  ]
}

function viewOnCluster (
  text: string, { cluster, database }: Cluster
): readonly string[] | undefined {
  const view = /^CREATE MATERIALIZED VIEW IF NOT EXISTS (\w+) TO (\w+) AS\n(.*)\nFROM (\w+)\n(.*)$/s
  const [, name, target, columns, source, rest] = view.exec(text) ?? []
  if (name === undefined) return undefined
  return [
    `CREATE MATERIALIZED VIEW IF NOT EXISTS ${nameIn(database, name)} ON CLUSTER '${cluster}' ` +
      `TO ${nameIn(database, target + LOCAL)} AS\n${columns}\n` +
      `FROM ${nameIn(database, source + LOCAL)}\n${rest}`,
  ]
}

/** Only what changes no column: the table over all shards has the columns, but no settings. */
function settingOnCluster (
  text: string, { cluster, database }: Cluster
): readonly string[] | undefined {
  const [, table, action] = /^ALTER TABLE (\w+) ((?:MODIFY SETTING|MODIFY TTL|REMOVE TTL)\b.*)$/s
    .exec(text) ?? []
  if (table === undefined) return undefined
  return [`ALTER TABLE ${nameIn(database, table + LOCAL)} ON CLUSTER '${cluster}' ${action}`]
}
