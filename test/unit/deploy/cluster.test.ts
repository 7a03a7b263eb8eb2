import { describe, expect, it } from 'vitest'
import { migrationsOnCluster, onCluster } from '../../../deploy/provision/cluster.ts'
import { migrations } from '../../../deploy/provision/migrations.ts'

const target = { cluster: 'main', database: 'v' }
const everyStatement = migrations().flatMap(({ statements }) => statements).map(text =>
  ({ text, lines: text.split('\n').filter(line => !/^--/.test(line)) }))

/** The lines that differ from those of a statement for one server. */
const changedLines = (lines: readonly string[], text: string) =>
  text.split('\n').filter(line => !lines.includes(line))

describe('on a cluster', () => {
  const tables = everyStatement.filter(({ text }) => /^CREATE TABLE/m.test(text))
  it.each(tables.map(table => ({
    ...table, table: /EXISTS (\w+)/.exec(table.text)?.[1] ?? '',
  })))('$table is a table on each server, and one over all of them', ({ table, text, lines }) => {
    const [local = '', over, ...more] = onCluster(text, target)
    const isStored = text.includes('ENGINE = MergeTree')
    expect(changedLines(lines, local)).toEqual([
      `CREATE TABLE IF NOT EXISTS \`v\`.${table}_local ON CLUSTER 'main'`,
      ...isStored
        ? ["ENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/{database}/{table}', " +
          "'{replica}')"]
        : [],
      ...lines.filter(line => line.includes('non_replicated'))
        .map(line => line.replace('non_replicated', 'replicated')),
    ])
    expect(local.split('\n')).toHaveLength(lines.length)
    expect(over).toBe(
      `CREATE TABLE IF NOT EXISTS \`v\`.${table} ON CLUSTER 'main' AS \`v\`.${table}_local\n` +
      `ENGINE = Distributed('main', 'v', '${table}_local', cityHash64(tenant))`)
    expect(more).toEqual([])
  })

  it.each([
    ['settled_blocks', 'result_blocks'], ['settled_jobs', 'jobs'],
  ])('the view %s writes to %s of its own server', (view, table) => {
    const found = everyStatement.find(({ text }) => text.includes(`EXISTS ${view} TO`))
    const [converted = '', ...more] = onCluster(found?.text ?? '', target)
    expect(changedLines(found?.lines ?? [], converted)).toEqual([
      `CREATE MATERIALIZED VIEW IF NOT EXISTS \`v\`.${view} ON CLUSTER 'main' ` +
        `TO \`v\`.${table}_local AS`,
      'FROM `v`.settled_local',
    ])
    expect(more).toEqual([])
  })

  it('settings are those of the tables on each server', () => {
    const setting = 'MODIFY SETTING merge_selector_base = 30'
    const altered = everyStatement.filter(({ text }) => /^ALTER TABLE/m.test(text))
    expect(altered.flatMap(({ text }) => onCluster(text, target))).toEqual(
      ['result_blocks', 'jobs', 'journal', 'job_keys', 'deliveries'].map(table =>
        `ALTER TABLE \`v\`.${table}_local ON CLUSTER 'main' ${setting}`))
  })

  it.each([
    'ALTER TABLE jobs ADD COLUMN IF NOT EXISTS a String',
    'CREATE TABLE IF NOT EXISTS a\n(b String)\nENGINE = Log',
    'CREATE TABLE IF NOT EXISTS a (b String) ENGINE = MergeTree ORDER BY b',
    'DROP TABLE jobs',
  ])('%j is rejected, as its meaning is not defined', text => {
    expect(() => onCluster(text, target)).toThrow('no cluster can run this statement')
  })

  it('applied migrations are the same for all shards', () => {
    const create = 'CREATE TABLE IF NOT EXISTS applied_migrations (a Int8)\n' +
      'ENGINE = ReplacingMergeTree ORDER BY a'
    expect(migrationsOnCluster(create, target).split('\n')).toEqual([
      "CREATE TABLE IF NOT EXISTS `v`.applied_migrations ON CLUSTER 'main' (a Int8)",
      "ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}', " +
        "'{shard}-{replica}') ORDER BY a",
    ])
  })
})
