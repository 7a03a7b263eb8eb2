import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { createClient } from '../../services/client/client.ts'
import { Clickhouse } from '../../services/runtime/platform/clickhouse.ts'
import {
  CHAIN_START, createHeadsCodec, createJournalCopy, extendChain,
} from '../../services/money/journal.ts'
import { createDemo } from '../../services/admin/demo.ts'
import { mixedPhones } from '../bench/jobs.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { eventually } from '../support/eventually.ts'
import { sumOf } from '../support/metrics.ts'
import { startReceiver } from '../support/webhooks/receiver.ts'
import { messageKeysOf, recordMacOf } from '../support/keys/signed.ts'
import { breachesOf, runJob, startEnvironment } from '../support/stacks/environment.ts'
import { newFolder } from '../support/folder.ts'

const folder = newFolder('verification-jobs-forged-')
/** Another customer, who wants the results of the first. */
const environment = closeAfterAll(await startEnvironment({
  JOURNAL_HEAD_TARGET: `${folder}/heads`, JOURNAL_HEAD_EVERY_MS: '1000',
}, { apart: ['ledger'] }))
const clickhouse = closeAfterAll(new Clickhouse(environment.env['CLICKHOUSE_URL'] ?? ''))
const { orgId, keys } = await createDemo(environment.env)
const client = createClient({ baseUrl: environment.baseUrl, apiKey: keys.live, retries: 0 })
const other = { tenant: tenantOf(orgId, 'live'), client }

type Changed = Readonly<Record<string, string>>

/** All columns of a table that are stored as they are inserted; bytes are inserted as base64. */
const COLUMNS = {
  jobs: {
    plain: 'tenant, job, record, service, status, total_rows, charged_micros, released_micros, ' +
      'created, ended, mac, stored',
    bytes: ['header', 'manifest'],
  },
  result_blocks: {
    plain: 'tenant, job, chunk, digest, batch, chunks, rows_schema, bound, originals, rows, ' +
      'created',
    bytes: ['sealed'],
  },
  journal: {
    plain: 'tenant, seq, entry_id, type, job, amount_micros, charge_micros, available_micros, ' +
      'reserved_micros, charged_micros, funded_micros, at, reason, mac',
    bytes: ['header'],
  },
  deliveries: {
    plain: 'tenant, job, event, attempt, type, at, outcome, reason, http_status, duration_ms, ' +
      'next_at, stored, mac',
    bytes: [],
  },
} as const

/** Inserts rows of a table again, `times` each, with other values for some columns. */
async function insertCopies (
  { table, where, times = 1 }: {
    readonly table: keyof typeof COLUMNS, readonly where: string, readonly times?: number
  },
  changed: Changed
): Promise<void> {
  const { plain, bytes } = COLUMNS[table]
  const copied = plain.split(', ').map(name => changed[name] ?? name)
  await clickhouse.command(`
    INSERT INTO ${table} (${[plain, ...bytes.map(name => `${name}_base64`)].join()})
      SELECT ${[...copied, ...bytes.map(name => `base64Encode(${changed[name] ?? name})`)].join()}
      FROM (
        SELECT *, arrayJoin(range(${times})) AS number
        FROM (SELECT * FROM ${table} WHERE ${where}))`)
}

const rowsOf = (job: string) =>
  `tenant = '${tenantOf(environment.orgId, 'live')}' AND job = '${job}'`

/** Inserts the record of a job into the archive again, with other values for some columns. */
async function insertCopy (job: string, changed: Changed, times = 1): Promise<void> {
  const where = `${rowsOf(job)} ORDER BY stored LIMIT 1`
  await insertCopies({ table: 'jobs', where, times }, { stored: 'now64(3) + 1', ...changed })
}

/** The head of a tenant in the last export. */
const exportedOf = (tenant: string) =>
  createHeadsCodec(messageKeysOf(environment.env))
    .decode(readFileSync(`${folder}/heads`, 'utf8').trimEnd().split('\n').at(-1) ?? '')
    ?.tenants.find(head => head.tenant === tenant)

const forged = (table: keyof typeof COLUMNS) =>
  sumOf(environment.services.list(), 'records_forged_total', { table })

describe('an attacker who can write to ClickHouse', () => {
  it('makes no results of one customer readable by another', async () => {
    const { job } = await runJob(environment.live, {
      service: 'phone-validation', inputs: mixedPhones(20), forceFresh: true,
    })
    const mine = 'job_00000000000000000000000001'
    await insertCopy(job.id, { tenant: `'${other.tenant}'` })
    await insertCopy(job.id, { tenant: `'${other.tenant}'`, job: `'${mine}'` })
    for (const id of [job.id, mine]) {
      await expect(other.client.job(id)).rejects.toMatchObject({ status: 503 })
      await expect(other.client.results(id)).rejects.toMatchObject({ status: 503 })
    }
    expect((await other.client.jobsPage({ limit: 10 })).data).toEqual([])
    expect(await forged('jobs')).toBeGreaterThanOrEqual(4)
  })

  it('neither changes nor hides a job and its money, whatever it inserts', async () => {
    const { job } = await runJob(environment.live, {
      service: 'phone-validation', inputs: mixedPhones(20), forceFresh: true,
    })
    const answers = async () => {
      const client = createClient({
        baseUrl: environment.baseUrl, apiKey: environment.keys.live, retries: 0,
      })
      const [pages, failed] = await Promise.all(
        [{ limit: 100 }, { limit: 1, status: 'failed' as const }].map(client.jobsPage))
      const [resource, results] = [await client.job(job.id), await client.results(job.id)]
      return { resource, results, pages, failed }
    }
    const truth = await answers()
    expect(truth).toMatchObject({ resource: job, failed: { data: [] } })
    const before = await forged('jobs')
    const record = "replaceRegexpOne(record, '\"chargedMicros\":[0-9]+', '\"chargedMicros\":1')"
    const changes: Changed[] = [
      { record }, { header: "'x'" }, { manifest: "'x'" }, { mac: "''" }, { status: "'failed'" },
    ]
    for (const changed of changes) await insertCopy(job.id, changed)
    await insertCopy(job.id, { record: 'concat(record, toString(number))' }, 2_000)
    const later = "concat('job_7zzzzzzzzzzzzzzzzzzzzz', toString(number))"
    await insertCopy(job.id, { job: later }, 2_000)
    const where = `${rowsOf(job.id)} ORDER BY created LIMIT 1 BY digest`
    const blockChanges: Changed[] = [
      { sealed: "'x'" }, { batch: 'batch + 1' }, { chunks: 'chunks + 1' }, { bound: 'digest' },
      { rows_schema: 'rows_schema + 1' }, { originals: '[1, 2]' }, { sealed: 'toString(number)' },
    ]
    for (const changed of blockChanges) {
      const of = { table: 'result_blocks', where, times: 200 } as const
      await insertCopies(of, { created: 'now64(3) + 1', ...changed })
    }
    for (const merged of [false, true]) {
      for (const table of ['jobs', 'result_blocks']) {
        if (merged) await clickhouse.command(`OPTIMIZE TABLE ${table} FINAL`)
      }
      expect(await answers()).toEqual(truth)
    }
    expect(await forged('jobs')).toBeGreaterThan(before + 4_000)
    expect(await environment.breaches()).toEqual([])
  })

  it('inserts no record that is too large to be read', async () => {
    const { job } = await runJob(environment.live, {
      service: 'phone-validation', inputs: ['nonsense'],
    })
    const pieces = "arrayMap(_ -> repeat('x', 1000000), range(16))"
    await expect(insertCopy(job.id, { record: `arrayStringConcat(${pieces})` }))
      .rejects.toThrow('fits_in_memory')
  })

  it('neither stops the copy of the journal nor moves money, its exported head is right, and ' +
    'the audit names rows', async () => {
    const { orgId, keys } = await createDemo(environment.env)
    const client = createClient({ baseUrl: environment.baseUrl, apiKey: keys.live, retries: 0 })
    const request = {
      service: 'phone-validation', inputs: mixedPhones(5), forceFresh: true,
    } as const
    await runJob(client, request)
    expect(await breachesOf(environment.env, orgId)).toEqual([])
    await environment.services.setScale({ ledger: 0 })
    const tenant = tenantOf(orgId, 'live')
    const where = `tenant = '${tenant}' AND seq = 2`
    await insertCopies({ table: 'journal', where, times: 1_000 }, { seq: '1000000000 + number' })
    await insertCopies({ table: 'journal', where }, { seq: '18446744073709551615', mac: "''" })
    await insertCopies({ table: 'journal', where }, { amount_micros: '1' })
    await clickhouse.command('OPTIMIZE TABLE journal FINAL')
    await environment.services.setScale({ ledger: 1 })
    await environment.services.untilReady()
    await runJob(client, request)
    expect(await breachesOf(environment.env, orgId)).toEqual([{
      tenant,
      job: '',
      rule: 'every row of the copy is signed by a service',
      detail: '1002 rows of the journal in ClickHouse have no authentic MAC and are ignored: ' +
        'seq 2, 1000000000, 1000000001, 1000000002, 1000000003, ...',
    }])
    const { entries } =
      await createJournalCopy(clickhouse, recordMacOf(environment.env)).read(tenant)
    await eventually(() => expect(exportedOf(tenant))
      .toEqual({ tenant, ...entries.reduce(extendChain, CHAIN_START) }))
    expect(await forged('journal')).toBeGreaterThan(0)
  })

  it('adds no visible delivery attempt, and hides none', async () => {
    const { port } = await startReceiver(response => response.writeHead(410).end())
    const { job } = await runJob(environment.live, {
      service: 'phone-validation',
      inputs: ['nonsense'],
      webhook_url: `http://127.0.0.1:${port}/`,
    })
    const deliveries = async () => {
      const response = await fetch(`${environment.baseUrl}/jobs/${job.id}/deliveries`, {
        headers: { authorization: `Bearer ${environment.keys.live}` },
      })
      return await response.json() as { readonly data: readonly object[] }
    }
    const listed = await eventually(async () => {
      const found = await deliveries()
      expect(found.data).toMatchObject([{ attempt: 1, outcome: 'gone', statusCode: 410 }])
      return found
    })
    const of = { table: 'deliveries', where: `job = '${job.id}'` } as const
    const stored = 'now64(3) + 1'
    await insertCopies(of, { outcome: "'delivered'", http_status: '200', stored })
    await insertCopies(of, { attempt: '2', stored })
    await clickhouse.command('OPTIMIZE TABLE deliveries FINAL')
    expect(await deliveries()).toEqual(listed)
    expect(await forged('deliveries')).toBeGreaterThanOrEqual(2)
  })
})
