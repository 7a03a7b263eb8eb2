import { beforeAll, describe, expect, it } from 'vitest'
import { applyMigrations } from '../../deploy/provision/tables.ts'
import { audit, recordsSince } from '../../services/admin/audit/audit.ts'
import { connectAll } from '../support/stacks/connected.ts'
import { ownDatabase } from '../support/clickhouse/database.ts'
import { createSettledJobs } from '../support/recovery/settled-jobs.ts'

const { env } = ownDatabase()
const all = connectAll(env)
const { archive, clickhouse, journal, outbox, redis, results, store } = all
const jobs = createSettledJobs(all)

const provisioned = async (keepMonths?: number) => {
  const said: string[] = []
  await applyMigrations({ url: env.CLICKHOUSE_URL, keepMonths }, line => said.push(line))
  return said.slice(1)
}
const merge = () => clickhouse.command('OPTIMIZE TABLE jobs FINAL')

describe('final records of jobs', () => {
  beforeAll(async () => { await provisioned() })

  it('are kept forever, or for the months of the setting, which can be taken back', async () => {
    expect(await provisioned()).toEqual([])
    expect(await provisioned(12)).toEqual(['tables: final records are kept for 12 months'])
    expect(await provisioned(12)).toEqual([])
    expect(await provisioned(24)).toEqual(['tables: final records are kept for 24 months'])
    expect(await provisioned()).toEqual(['tables: final records are kept forever'])
    expect(await provisioned()).toEqual([])
  })

  it('are deleted when they are older, and the audit misses only those that are not', async () => {
    const { tenant, job, messages } = await jobs.start()
    const before = await outbox.pending(tenant)
    await jobs.copy([...before, ...await jobs.end(messages)])
    await outbox.remove(tenant, before)
    await clickhouse.command(
      'ALTER TABLE jobs DELETE WHERE job = {job:String} SETTINGS mutations_sync = 2', { job })
    const found = await store.readWithManifest(tenant, job)
    const yearsAgo = Date.now() - 2 * 366 * 86_400_000
    const old = { ...found!.job, createdAtMs: yearsAgo }
    await archive.save([{ job: old, manifest: found!.manifest }])
    await merge()
    expect(await archive.find(tenant, job)).toBeDefined()
    await provisioned(12)
    await merge()
    expect(await archive.find(tenant, job)).toBeUndefined()
    const auditAt = async (now: number) => await audit({
      redis, journal, archive, results, recordsSinceMs: recordsSince(12, new Date(now)),
    }, { waitMs: 0, only: [tenant] })
    const rules = async (now: number) =>
      (await auditAt(now)).breaches.map(({ rule }) => rule)
    expect(await rules(Date.now())).toEqual(['every reservation has a job'])
    expect(await rules(Date.now() + 366 * 86_400_000)).toEqual([])
    await provisioned()
  })
})
