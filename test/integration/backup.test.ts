import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { applyMigrations } from '../../deploy/provision/tables.ts'
import { audit } from '../../services/admin/audit/audit.ts'
import { CommandFailure } from '../../services/runtime/platform/run-command.ts'
import { connectAll } from '../support/stacks/connected.ts'
import { ownDatabase } from '../support/clickhouse/database.ts'
import { backUp, restoreStatement } from '../support/recovery/backups.ts'
import { createSettledJobs } from '../support/recovery/settled-jobs.ts'

const { database, outer, env } = ownDatabase()
const all = connectAll(env)
const { archive, journal, keyCopy, outbox, redis, results } = all
const jobs = createSettledJobs(all)

afterAll(() => { vi.unstubAllEnvs() })

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
    const { destination } = await backUp(env, `File('${database} {time}')`)
    expect(destination).toMatch(/^File\('test_\w+ \d{4}-\d\d-\d\dT\d{6}Z'\)$/)
    await keyCopy.erase(erased.tenant, [erased.job])
    await outer.command(`DROP DATABASE ${database} SYNC`)
    await outer.command(restoreStatement(database, destination))
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

describe('the command backup', () => {
  const failure = (destination: string) => backUp(env, destination).catch((error: unknown) => error)

  it('fails with the reason of ClickHouse when there is no backup', async () => {
    const notAllowed = await failure("Disk('nowhere', '{time}')")
    expect(notAllowed).toBeInstanceOf(CommandFailure)
    expect(String(notAllowed)).toMatch(
      /No backup in Disk\('nowhere', '\S+Z'\) \(BACKUP_FAILED\): Code: 318\..*allowed_disk/)
    const unnamed = await failure("S3('http://127.0.0.1:1/b/{time}', 'key', 'hidden')")
    expect(String(unnamed)).toMatch(/No backup in S3\('http:.*\(BACKUP_FAILED\): .*BAD_ARG/)
    expect(String(unnamed)).not.toContain('hidden')
  })

  it.each([
    ['another place for each backup', "S3('http://127.0.0.1:1/b', 'k', 'hidden')", 'BACKUP_TO'],
    ['a known place', "hidden('{time}')", 'BACKUP_TO'],
    ['quotes that end', "S3('http://127.0.0.1:1/b/{time}', 'k, 'hidden')",
      'ClickHouse does not understand BACKUP_TO'],
  ])('asks for %s, and repeats no secret', async (_what, destination, words) => {
    const text = String(await failure(destination))
    expect(text).toContain(words)
    expect(text).not.toContain('hidden')
  })

  it('says that there is nothing to back up', async () => {
    await outer.command(`DROP TABLE ${database}.jobs SYNC`)
    expect(String(await failure("File('{time}')"))).toContain('has no tables')
  })
})
