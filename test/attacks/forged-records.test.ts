import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { createClient, type Client } from '../../services/client/client.ts'
import { connectClickhouse } from '../../services/lib/clickhouse.ts'
import { createDemo } from '../../services/workspace/demo.ts'
import { mixedPhones } from '../bench/inputs.ts'
import { eventually } from '../support/eventually.ts'
import { sumOf } from '../support/metrics.ts'
import { startReceiver } from '../support/receiver.ts'
import { breachesOf, runJob, startWorld, type World } from '../support/world.ts'

let world: World
let clickhouse: ReturnType<typeof connectClickhouse>
/** Another customer, who wants the results of the first. */
let other: { readonly tenant: string, readonly client: Client }
beforeAll(async () => {
  world = await startWorld()
  clickhouse = connectClickhouse(world.env['CLICKHOUSE_URL'] ?? '')
  const { orgId, keys } = await createDemo(world.env)
  const client = createClient({ baseUrl: world.baseUrl, apiKey: keys.live, retries: 0 })
  other = { tenant: tenantOf(orgId, 'live'), client }
})
afterAll(async () => {
  await clickhouse?.close()
  await world?.stop()
})

type Changed = Readonly<Record<string, string>>

/** All columns of a table that are stored as they are inserted; bytes are inserted as base64. */
const COLUMNS = {
  jobs: {
    plain: 'tenant, job, record, service, status, total_rows, charged_micros, released_micros, ' +
      'created, ended, mac, stored',
    bytes: ['header', 'manifest'],
  },
  journal: {
    plain: 'tenant, seq, entry_id, type, job, amount_micros, charge_micros, available_micros, ' +
      'reserved_micros, charged_micros, funded_micros, at, reason, prev, hash, mac',
    bytes: ['header'],
  },
  deliveries: {
    plain: 'tenant, job, event, attempt, type, at, outcome, reason, http_status, duration_ms, ' +
      'next_at, stored, mac',
    bytes: [],
  },
} as const

/** Puts rows of a table into it once more, `times` each, with other values for some columns. */
async function insertCopies (
  { table, where, times = 1 }: {
    readonly table: keyof typeof COLUMNS, readonly where: string, readonly times?: number
  },
  changed: Changed
): Promise<void> {
  const { plain, bytes } = COLUMNS[table]
  const copied = plain.split(', ').map(name => changed[name] ?? name)
  await clickhouse.command({
    query: `INSERT INTO ${table} (${[plain, ...bytes.map(name => `${name}_base64`)].join()})
      SELECT ${[...copied, ...bytes.map(name => `base64Encode(${name})`)].join()}
      FROM (SELECT *, arrayJoin(range(${times})) AS number FROM ${table} WHERE ${where})`,
  })
}

/** Puts the record of a job into the archive once more, with other values for some columns. */
async function insertCopy (job: string, changed: Changed): Promise<void> {
  const where = `tenant = '${tenantOf(world.orgId, 'live')}' AND job = '${job}'`
  await insertCopies({ table: 'jobs', where }, { stored: 'now64(3) + 1', ...changed })
}

const forged = (table: keyof typeof COLUMNS) =>
  sumOf(world.services.list(), 'records_forged_total', { table })

describe('whoever can write to ClickHouse', () => {
  it('makes no results of one customer readable by another', async () => {
    const { job } = await runJob(world.live, {
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

  it('changes neither what a job says nor its money: the truth is told, or nothing', async () => {
    const { job } = await runJob(world.live, {
      service: 'phone-validation', inputs: mixedPhones(20), forceFresh: true,
    })
    const results = await world.live.results(job.id)
    const record = "replaceRegexpOne(record, '\"chargedMicros\":[0-9]+', '\"chargedMicros\":1')"
    await insertCopy(job.id, { record })
    // The true record is found beside the forged one until ClickHouse merges both into the newer.
    for (const merged of [false, true]) {
      if (merged) await clickhouse.command({ query: 'OPTIMIZE TABLE jobs FINAL' })
      const client = createClient({
        baseUrl: world.baseUrl, apiKey: world.keys.live, retries: 0,
      })
      const [told, file] = await Promise.all([client.job(job.id), client.results(job.id)]
        .map(telling => telling.catch((error: { readonly status?: number }) => error.status)))
      expect([job, 503]).toContainEqual(told)
      expect([results, 503]).toContainEqual(file)
    }
    expect(await world.breaches()).not.toEqual([])
  })
  it('neither stops the copy of the journal nor moves money; the audit names rows', async () => {
    const { orgId, keys } = await createDemo(world.env)
    const client = createClient({ baseUrl: world.baseUrl, apiKey: keys.live, retries: 0 })
    const request = {
      service: 'phone-validation', inputs: mixedPhones(5), forceFresh: true,
    } as const
    await runJob(client, request)
    expect(await breachesOf(world.env, orgId)).toEqual([])
    await world.services.setScale({ ledger: 0 })
    const tenant = tenantOf(orgId, 'live')
    const where = `tenant = '${tenant}' AND seq = 2`
    await insertCopies({ table: 'journal', where, times: 1_000 }, { seq: '1000000000 + number' })
    await insertCopies({ table: 'journal', where }, { seq: '18446744073709551615', mac: "''" })
    await insertCopies({ table: 'journal', where }, { amount_micros: '1' })
    await clickhouse.command({ query: 'OPTIMIZE TABLE journal FINAL' })
    await world.services.setScale({ ledger: 1 })
    await world.services.untilReady()
    await runJob(client, request)
    expect(await breachesOf(world.env, orgId)).toEqual([{
      tenant,
      job: '',
      law: 'every row of the copy is signed by a service',
      detail: '1002 rows of the journal in ClickHouse have no authentic MAC and are left out: ' +
        'seq 2, 1000000000, 1000000001, 1000000002, 1000000003, ...',
    }])
    expect(await forged('journal')).toBeGreaterThan(0)
  })

  it('shows no delivery attempt that never was, and hides none', async () => {
    const { port } = await startReceiver(response => response.writeHead(410).end())
    const { job } = await runJob(world.live, {
      service: 'phone-validation',
      inputs: ['nonsense'],
      webhook_url: `http://127.0.0.1:${port}/`,
    })
    const deliveries = async () => {
      const response = await fetch(`${world.baseUrl}/jobs/${job.id}/deliveries`, {
        headers: { authorization: `Bearer ${world.keys.live}` },
      })
      return await response.json() as { readonly data: readonly object[] }
    }
    const told = await eventually(async () => {
      const found = await deliveries()
      expect(found.data).toMatchObject([{ attempt: 1, outcome: 'gone', statusCode: 410 }])
      return found
    })
    const of = { table: 'deliveries', where: `job = '${job.id}'` } as const
    const stored = 'now64(3) + 1'
    await insertCopies(of, { outcome: "'delivered'", http_status: '200', stored })
    await insertCopies(of, { attempt: '2', stored })
    await clickhouse.command({ query: 'OPTIMIZE TABLE deliveries FINAL' })
    expect(await deliveries()).toEqual(told)
    expect(await forged('deliveries')).toBeGreaterThanOrEqual(2)
  })
})
