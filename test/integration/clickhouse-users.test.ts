import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { clickhousePart } from '../../deploy/local/clickhouse.ts'
import { openPortBook } from '../../deploy/local/ports.ts'
import { startChild, type Child } from '../../deploy/local/process.ts'
import { onCluster } from '../../deploy/provision/cluster.ts'
import { migrations } from '../../deploy/provision/migrations.ts'
import { applyMigrations } from '../../deploy/provision/tables.ts'
import { joinJobKey } from '../../services/jobs/job-keys.ts'
import { watchStores } from '../../services/ledger/meters.ts'
import { withKeyId } from '../../services/runtime/crypto/key-ring.ts'
import { createAdminClient } from '../../services/runtime/kafka/client.ts'
import { createMetrics } from '../../services/runtime/platform/metrics.ts'
import { audit } from '../../services/admin/audit/audit.ts'
import { runCommand } from '../support/admin.ts'
import { newFolder } from '../support/folder.ts'
import { createSettledJobs } from '../support/recovery/settled-jobs.ts'
import { connectAll } from '../support/stacks/connected.ts'
import { stackEnv } from '../support/stacks/stack.ts'
import { withoutKeeper } from '../support/clickhouse/database.ts'

const DATABASE = 'verification'
/** The rights of each user, as the guide has them: `GRANT ... ON ...`, without `TO`. */
const grants = Map.groupBy(
  readFileSync(`${import.meta.dirname}/../../deploy/docs/deployment.md`, 'utf8')
    .matchAll(/^(GRANT .* ON \S+) TO (\w+);$/gm),
  ([, , user]) => user ?? '')
const grantsOf = (user: string) => (grants.get(user) ?? []).map(([, grant = '']) => grant)
const ofOneServer = (grant: string) => !grant.includes('CLUSTER')

const dataDir = newFolder('clickhouse-users-')
const ports = openPortBook(dataDir)
const part = await clickhousePart({ dataDir, ports, say: () => {} })
const env = { ...stackEnv(), CLICKHOUSE_URL: `${part.url}/${DATABASE}` }
const all = connectAll(env)
const { archive, clickhouse, journal, keyCopy, outbox, redis, results } = all
const jobs = createSettledJobs(all)
let engine: Child

const stop = async () => {
  engine?.kill('SIGTERM')
  await engine?.exited
}

/** The engine on the same data, for which these statements are all rights; all rights without. */
async function restart (rights?: readonly string[]): Promise<void> {
  await stop()
  const file = `${dataDir}/grants`
  if (rights !== undefined) writeFileSync(file, rights.join('\n'))
  const more = rights === undefined ? [] : ['--grants', file]
  engine = startChild({ ...part.spec, args: [...part.spec.args, ...more] })
  while (!await part.spec.ready()) await sleep(50)
}

const inDefault = connectAll({ ...env, CLICKHOUSE_URL: part.url }).clickhouse

beforeAll(async () => {
  await restart()
  for (const name of [DATABASE, 'clustered']) {
    await inDefault.command(`CREATE DATABASE ${name}`)
  }
})
afterAll(stop)

const createTable = () =>
  clickhouse.command('CREATE TABLE other (a Int8) ENGINE = MergeTree ORDER BY a')
const wrapped = (name: string) =>
  joinJobKey({ results: withKeyId(name, randomBytes(40)), webhooks: randomBytes(40) })
const storeKey = (job: string) => keyCopy.append(
  [{ tenant: 'org_keys.live', job, wrapped: wrapped('one'), createdMs: Date.now() }])

it('provision makes tables and their retention, also those of a cluster', async () => {
  await restart(grantsOf('provision'))
  const url = env.CLICKHOUSE_URL
  for (const keepMonths of [undefined, 12, undefined]) {
    await applyMigrations({ url, keepMonths }, () => {})
  }
  const cluster = { cluster: 'embedded', database: 'clustered' }
  const statements = migrations().flatMap(migration => migration.statements)
    .flatMap(text => onCluster(text, cluster))
  const inClustered = grantsOf('provision').map(grant => grant.replace(DATABASE, 'clustered'))
  await restart(inClustered)
  for (const query of statements) await inDefault.command(withoutKeeper(query))
  await restart(inClustered.filter(ofOneServer))
  await expect(inDefault.command('CREATE TABLE clustered.other AS clustered.jobs_local ENGINE = ' +
      "Distributed('embedded', 'clustered', 'jobs_local')")).rejects.toThrow('access denied')
})

it('services end a job, read its results and pass the audit, and no more', async () => {
  await restart(grantsOf('services'))
  const { tenant, job, messages } = await jobs.start()
  const before = await outbox.pending(tenant)
  await jobs.copy([...before, ...await jobs.end(messages)])
  await outbox.remove(tenant, before)
  expect((await jobs.csvOf(tenant, job)).match(/raw/g)).toHaveLength(8)
  expect(await audit({ redis, journal, archive, results }, { waitMs: 0, only: [tenant] }))
    .toMatchObject({ ok: true, tenants: [{ closedJobs: 1, entries: 3, rows: 8 }] })
  await storeKey('job_1')
  await expect(createTable()).rejects.toThrow('access denied')
  await expect(keyCopy.erase('org_keys.live', ['job_1'])).rejects.toThrow('access denied')
  await expect(inDefault.rows('SELECT * FROM clustered.jobs'))
    .rejects.toThrow('access denied')
})

it('backup makes backups, and reads no rows', async () => {
  await restart(grantsOf('backup').filter(ofOneServer))
  vi.stubEnv('CLICKHOUSE_URL', env.CLICKHOUSE_URL)
  vi.stubEnv('BACKUP_TO', "File('{time}')")
  expect(await runCommand('backup')).toMatch(/^Stored \d+ files /)
  await expect(inDefault.rows(`SELECT * FROM ${DATABASE}.jobs`))
    .rejects.toThrow('access denied')
  await restart(grantsOf('services'))
  await expect(runCommand('backup')).rejects.toThrow(/access denied|No backup in/)
  vi.unstubAllEnvs()
})

it('ledger deletes keys and reads its metrics, and makes no tables', async () => {
  await restart(grantsOf('ledger'))
  await storeKey('job_2')
  await keyCopy.erase('org_keys.live', ['job_2'])
  expect(await keyCopy.rowsOf('org_keys.live', ['job_1', 'job_2'])).toEqual(['job_1'])
  await expect(createTable()).rejects.toThrow('access denied')
  const metrics = createMetrics()
  const adminClient = createAdminClient({ brokers: all.brokers }, 'test')
  watchStores({
    store: {},
    state: redis,
    adminClient,
    clickhouse,
    metrics,
    log: { warn: (details: object) => { throw new Error(JSON.stringify(details)) } },
  } as unknown as Parameters<typeof watchStores>[0])
  const text = await metrics.text()
  await adminClient.close()
  for (const name of ['disk_free_bytes', 'parts', 'merge_seconds', 'mutation_seconds']) {
    expect(text).toMatch(new RegExp(`^clickhouse_${name}(\\{[^}]*\\})? \\d`, 'm'))
  }
})
