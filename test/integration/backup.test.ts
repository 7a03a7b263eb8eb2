import { readFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { applyMigrations } from '../../deploy/provision/tables.ts'
import { audit } from '../../services/admin/audit/audit.ts'
import { connectAll } from '../support/stacks/connected.ts'
import { ownDatabase } from '../support/clickhouse/database.ts'
import { createSettledJobs } from '../support/recovery/settled-jobs.ts'

// The statements are those of the guide, on a file instead of S3.
const guide = readFileSync(new URL('../../deploy/docs/recovery.md', import.meta.url), 'utf8')
const { database, outer, env } = ownDatabase()
const all = connectAll(env)
const { archive, journal, keyCopy, outbox, redis, results } = all
const jobs = createSettledJobs(all)

const statement = (verb: string): string => {
  const [found = ''] = new RegExp(`^${verb} DATABASE[^\`]*`, 'm').exec(guide) ?? []
  return found.replaceAll('verification', database).replace(/S3\([^)]*\)/, `File('${database}')`)
}

const settledJob = async () => {
  const { tenant, job, messages, wrapped } = await jobs.start()
  const copied = { tenant, job, wrapped, createdMs: Date.now() }
  await keyCopy.append([copied])
  const before = await outbox.pending(tenant)
  const entries = [...before, ...await jobs.end(messages)]
  await jobs.copy(entries)
  await outbox.remove(tenant, before)
  return { tenant, job, copied, entries }
}
const report = async (tenant: string) =>
  await audit({ redis, journal, archive, results }, { waitMs: 0, only: [tenant] })
const keys = async () => {
  const found: string[] = []
  for await (const { job } of keyCopy.all()) found.push(job)
  return found
}

describe('a backup of ClickHouse', () => {
  let kept: Awaited<ReturnType<typeof settledJob>>
  let erased: typeof kept
  let before: readonly unknown[]
  beforeAll(async () => {
    await applyMigrations({ url: env.CLICKHOUSE_URL }, () => {})
    kept = await settledJob()
    erased = await settledJob()
    before = [await jobs.csvOf(kept.tenant, kept.job), await report(kept.tenant)]
    expect((await keys()).toSorted()).toEqual([kept.job, erased.job].toSorted())
    await outer.command({ query: statement('BACKUP') })
    await keyCopy.erase(erased.tenant, [erased.job])
    await outer.command({ query: `DROP DATABASE ${database} SYNC` })
    await outer.command({ query: statement('RESTORE') })
  })

  it('restores results, records and the journal of every job', async () => {
    expect([await jobs.csvOf(kept.tenant, kept.job), await report(kept.tenant)]).toEqual(before)
    expect(before[1]).toMatchObject({ ok: true, tenants: [{ closedJobs: 1, rows: 8 }] })
  })

  it('has no data keys, so that none of an erased job comes back; provision creates their table',
    async () => {
      await applyMigrations({ url: env.CLICKHOUSE_URL }, () => {})
      expect(await keys()).toEqual([])
      await keyCopy.append([kept.copied])
      expect(await keys()).toEqual([kept.job])
    })

  it('leaves tables in which later jobs end, and a copy of the journal that takes entries twice',
    async () => {
      const later = await settledJob()
      await jobs.copy([...kept.entries, ...later.entries])
      expect(await jobs.csvOf(later.tenant, later.job)).toContain('raw 0.0')
      expect([await report(later.tenant), await report(kept.tenant)])
        .toMatchObject([{ ok: true, breaches: [] }, { ok: true, breaches: [] }])
    })
})
