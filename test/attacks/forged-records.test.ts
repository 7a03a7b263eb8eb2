import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { createClient, type Client } from '../../services/client/client.ts'
import { connectClickhouse } from '../../services/lib/clickhouse.ts'
import { createDemo } from '../../services/workspace/demo.ts'
import { mixedPhones } from '../bench/inputs.ts'
import { sumOf } from '../support/metrics.ts'
import { runJob, startWorld, type World } from '../support/world.ts'

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

const COLUMNS = 'service, status, total_rows, charged_micros, released_micros, created, ended, mac'

/** Puts the record of a job into the archive once more, with other values for some columns. */
async function insertCopy (job: string, changed: Readonly<Record<string, string>>): Promise<void> {
  const columns = { tenant: 'tenant', job: 'job', record: 'record', ...changed }
  const bytes = ['header', 'manifest']
  await clickhouse.command({
    query: `INSERT INTO jobs (${Object.keys(columns).join()}, ${COLUMNS},
        ${bytes.map(name => `${name}_base64`).join()}, stored)
      SELECT ${Object.values(columns).join()}, ${COLUMNS},
        ${bytes.map(name => `base64Encode(${name})`).join()}, now64(3) + 1
      FROM jobs WHERE tenant = {tenant:String} AND job = {job:String}`,
    query_params: { tenant: tenantOf(world.orgId, 'live'), job },
  })
}

const forged = () => sumOf(world.services.list(), 'records_forged_total')

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
    expect(await forged()).toBeGreaterThanOrEqual(4)
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
})
