import { createClient } from '@clickhouse/client'
import { randomBytes } from 'node:crypto'
import { withKeyId } from '../../services/runtime/crypto/key-ring.ts'
import { joinJobKey } from '../../services/jobs/job-keys.ts'
import { beforeAll, describe, expect, it } from 'vitest'
import { inCloud, migrationsOnCluster, onCluster } from '../../deploy/provision/cluster.ts'
import { migrations } from '../../deploy/provision/migrations.ts'
import { applyMigrations } from '../../deploy/provision/tables.ts'
import { keepRecords } from '../../deploy/provision/retention.ts'
import { createDeliveryHistory } from '../../services/webhooks/deliveries.ts'
import { createJobKeyCopy } from '../../services/jobs/wrapped-keys.ts'
import { Clickhouse } from '../../services/runtime/platform/clickhouse.ts'
import { createRepositories } from '../../services/jobs/results/finish-job.ts'
import { createAccessCopy } from '../../services/accounts/access-log/copy.ts'
import { audit } from '../../services/admin/audit/audit.ts'
import { createAuditDeps } from '../../services/admin/audit/incremental.ts'
import { createJournalCopy } from '../../services/money/journal.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { connectAll } from '../support/stacks/connected.ts'
import { createDatabase, ownDatabase, withoutKeeper } from '../support/clickhouse/database.ts'
import { createSettledJobs } from '../support/recovery/settled-jobs.ts'
import { stackEnv } from '../support/stacks/stack.ts'
import { deliveryAttempt } from '../support/webhooks/deliveries.ts'

const { database, outer, env } = ownDatabase()
const target = { cluster: 'embedded', database }
const statements = migrations()
  .flatMap(migration => migration.statements.flatMap(text => onCluster(text, target)))

const all = connectAll(env)
const { archive, clickhouse, connected, journal, outbox, redis, results, recordMac } = all
const jobs = createSettledJobs(all)
const commands: string[] = []
class WithoutKeeper extends Clickhouse {
  override command (query: string, parameters?: Readonly<Record<string, unknown>>) {
    commands.push(query)
    return super.command(withoutKeeper(query), parameters)
  }
}
const client = closeAfterAll(new WithoutKeeper(env.CLICKHOUSE_URL))
const keyCopy = createJobKeyCopy(client, recordMac)
const countOf = async (table: string, job: string) => {
  const [counted] = await clickhouse.rows<{ rows: number }>(
    `SELECT toUInt32(count()) AS rows FROM ${table} WHERE job = {job:String}`, { job })
  return counted?.rows
}

beforeAll(async () => {
  for (const text of statements) await clickhouse.command(withoutKeeper(text))
})

describe('the statements for a cluster', () => {
  it('are valid for the engine as they are', async () => {
    const create = 'CREATE TABLE IF NOT EXISTS applied_migrations (a Int8) ' +
      'ENGINE = ReplacingMergeTree ORDER BY a'
    const plain = createClient({ url: stackEnv().CLICKHOUSE_URL ?? '' })
    for (const text of [migrationsOnCluster(create, target), ...statements]) {
      const parsed = await plain.query({ query: `EXPLAIN AST ${text}`, format: 'TabSeparated' })
      expect(await parsed.text()).toMatch(/^(Create|Alter)Query/)
    }
    await plain.close()
  })

  it('are never mixed with those for one server', async () => {
    await expect(applyMigrations({ url: env.CLICKHOUSE_URL }, () => {}))
      .rejects.toThrow(`the tables of database ${database} are those of a cluster: set ` +
        'CLICKHOUSE_KIND=replicated')
    const url = stackEnv().CLICKHOUSE_URL ?? ''
    await expect(applyMigrations({ url, kind: 'replicated', cluster: 'embedded' }, () => {}))
      .rejects.toThrow('are those of one server: set CLICKHOUSE_KIND=single')
    await expect(applyMigrations({ url, kind: 'cloud' }, () => {}))
      .rejects.toThrow('are those of one server: set CLICKHOUSE_KIND=single')
  })
})

describe('the statements for ClickHouse Cloud', () => {
  const cloud = ownDatabase()
  const ofCloud = migrations().flatMap(migration => migration.statements.map(inCloud))

  it('are valid for the parser as they are, and run where storage is not shared', async () => {
    for (const text of ofCloud) {
      expect(text).not.toMatch(/ENGINE = MergeTree|non_replicated|ON CLUSTER/)
      // EXPLAIN would look for the engine of the table.
      const [parsed] = await outer.rows<{ statement: string }>(
        'SELECT formatQuery({text:String}) AS statement', { text })
      expect(parsed?.statement).toMatch(/^(CREATE|ALTER) /)
    }
    const client = new Clickhouse(cloud.env.CLICKHOUSE_URL)
    for (const text of ofCloud) await client.command(text.replace('= Shared', '= '))
    const tables = await client.rows(
      'SELECT name FROM system.tables WHERE database = currentDatabase() ORDER BY name')
    expect(tables).toEqual(ofCloud
      .flatMap(text => /^CREATE .* EXISTS (\w+)/m.exec(text)?.[1] ?? []).toSorted()
      .map(name => ({ name })))
    await client.close()
  })

  it('are refused by a server that shares no storage', async () => {
    const empty = await createDatabase(stackEnv())
    await expect(applyMigrations({ url: empty.env.CLICKHOUSE_URL, kind: 'cloud' }, () => {}))
      .rejects.toThrow('Unknown table engine SharedReplacingMergeTree')
    await empty.drop()
  })
})

it('the retention of final records ' +
  'is that of the table on every server, and can be taken back', async () => {
  const keep = (months?: number) =>
    keepRecords(client, { months, convert: text => onCluster(text, target) })
  expect([await keep(), await keep(12), await keep(12), await keep(), await keep()]).toEqual([
    undefined,
    'final records are kept for 12 months',
    undefined,
    'final records are kept forever',
    undefined,
  ])
  const altered = `ALTER TABLE \`${database}\`.jobs_local ON CLUSTER 'embedded'`
  expect(commands.splice(0)).toEqual([
    `${altered} MODIFY SETTING ttl_only_drop_parts = 1`,
    `${altered} MODIFY TTL toDateTime(created) + toIntervalMonth(12)`,
    `${altered} REMOVE TTL`,
  ])
})

describe('services on the tables over all shards', () => {
  it('end a job, read its results and pass the audit', async () => {
    const { tenant, job, messages } = await jobs.start()
    const before = await outbox.pending(tenant)
    await jobs.copy([...before, ...await jobs.end(messages)])
    await outbox.remove(tenant, before)
    expect((await jobs.csvOf(tenant, job)).match(/raw/g)).toHaveLength(8)
    expect(await audit({ redis, journal, archive, results }, { waitMs: 0, only: [tenant] }))
      .toMatchObject({ ok: true, tenants: [{ closedJobs: 1, entries: 3, rows: 8 }] })
    expect([await countOf('result_blocks_local', job), await countOf('jobs_local', job)])
      .toEqual([4, 1])
    expect((await archive.list(tenant, { limit: 1 })).map(({ id }) => id)).toEqual([job])
  })

  it('store an insert once that they repeat, in every table', async () => {
    const { tenant, job, messages } = await jobs.start()
    await jobs.end(messages)
    const { blocks, saveBlocksAndRecords } = createRepositories(connected)
    const archived = (await archive.find(tenant, job))!
    const value = { ...messages[0]!.value, job: `${job}z` }
    for (let time = 0; time < 2; time++) {
      await saveBlocksAndRecords([{ block: value }, {
        archived: {
          ...archived,
          job: {
            ...archived.job, id: value.job,
          }
        }
      }])
      await blocks.insert([{ ...value, job: `${job}b` }])
      await archive.save([{ ...archived, job: { ...archived.job, id: `${job}c` } }])
    }
    expect([await countOf('result_blocks', value.job), await countOf('jobs', value.job),
      await countOf('result_blocks', `${job}b`), await countOf('jobs', `${job}c`)])
      .toEqual([1, 1, 1, 1])
  })

  it('delete keys from the table of every server', async () => {
    const id = randomBytes(4).toString('hex')
    const wrapped = (name: string) =>
      joinJobKey({ results: withKeyId(name, randomBytes(40)), webhooks: randomBytes(40) })
    const key = (job: string, name: string) =>
      ({ tenant: 'org_keys.live', job, wrapped: wrapped(name), createdMs: Date.now() })
    await keyCopy.append([key('job_1', 'old'), key('job_2', 'old'), key('job_3', 'old')])
    await keyCopy.append([key('job_1', id)])
    await keyCopy.keepWrappedBy(['org_keys.live'], id)
    await keyCopy.erase('org_keys.live', ['job_2'])
    expect((await keyCopy.rowsOf('org_keys.live', ['job_1', 'job_2', 'job_3'])).toSorted())
      .toEqual(['job_1', 'job_3'])
    expect(await keyCopy.find('org_keys.live', 'job_1')).toMatchObject({ length: 91 })
    expect(commands.map(text => text.slice(0, text.indexOf(' DELETE')))).toEqual([
      `ALTER TABLE \`${database}\`.job_keys_local ON CLUSTER 'embedded'`,
      `ALTER TABLE \`${database}\`.job_keys_local ON CLUSTER 'embedded'`,
    ])
  })

  it('list the attempts of a job and of an endpoint', async () => {
    const history = createDeliveryHistory(clickhouse, recordMac)
    const attempt = deliveryAttempt({ tenant: 'org_deliveries.live', atMs: Date.now() })
    await history.append([attempt])
    expect(await history.list(attempt.tenant, attempt.job)).toMatchObject([{ event: 'evt_1' }])
    expect(await history.listOfEndpoint(attempt.tenant, 'whe_1', { limit: 1 })).toEqual([])
  })
})

describe('several shards', () => {
  const shards = ownDatabase()
  const ofShards = { cluster: 'two_shards', database: shards.database }
  it('answer queries that compare the rows of two tables', async () => {
    const client = new Clickhouse(shards.env.CLICKHOUSE_URL)
    for (const { statements: texts } of migrations()) {
      for (const text of texts.flatMap(one => onCluster(one, ofShards))) {
        await client.command(withoutKeeper(text))
      }
    }
    const { counts } = createAuditDeps({ ...all, clickhouse: client, keys: undefined as never })
    expect(await counts.jobsWithoutEnd('org_1.live', Date.now())).toBe(0)
    expect(await counts.sharedIds('org_1.live')).toBe(0)
    expect(await createAccessCopy(client, recordMac).newest({ organization: 'org_1', limit: 1 }))
      .toEqual([])
    const copy = createJournalCopy(client, recordMac)
    expect(await copy.readNewest('org_1.live', { limit: 1, type: 'settle' })).toEqual([])
    await client.close()
  })
})
