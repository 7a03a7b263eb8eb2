import { expect, it } from 'vitest'
import { withAccessLog } from '../../../../services/admin/access-log.ts'
import { type AuditDeps, auditPage } from '../../../../services/admin/audit/audit.ts'
import { auditTable, joinMissingKeys } from '../../../../services/admin/audit/report.ts'
import { MissingKeyError } from '../../../../services/runtime/crypto/key-ring.ts'
import type { RedisClient } from '../../../../services/runtime/platform/redis.ts'
import { codec, endedJob } from '../../../support/clickhouse/results.ts'
import { createClickhouseDouble } from '../../../support/clickhouse/stored.ts'
import { recordMacOf } from '../../../support/keys/signed.ts'
import { TENANT } from '../../../support/stage-messages.ts'

const jobs = ['job_1', 'job_2', 'job_3', 'job_4', 'job_5']
const rule = 'results are readable'
const lost = () => new Error('the data key is lost')
const rootLost = (job: string) => new MissingKeyError('RESULTS_ROOT_KEYS lacks key "1"', {
  wraps: `data-key ${job}`, advice: 'add it again',
})

/** What the audit finds in jobs whose results fail; `erased` answers whether they are erased. */
async function findIn (
  failure: (job: string) => Error, erased: (asked: number) => boolean = () => false
) {
  let asked = 0
  const redis = { exists: async () => 0, hexists: async () => Number(erased(++asked)) }
  const deps = {
    redis: redis as unknown as RedisClient,
    results: { csvStream: ({ id }) => (async function * () { throw failure(id) })() },
  } satisfies Pick<AuditDeps, 'redis' | 'results'> as unknown as AuditDeps
  const page = jobs.map(id => (
    { job: endedJob({ id, endedAtMs: Date.now() - 1_000 }), manifest: [] }))
  const audited = await auditPage(deps, TENANT, page)
  return joinMissingKeys(audited.flatMap(({ breaches }) =>
    breaches.map(breach => ({ tenant: TENANT, ...breach }))))
}

it('a missing key that opens results is one breach, with the jobs that it concerns', async () => {
  expect(await findIn(rootLost)).toEqual([{
    tenant: '',
    job: '',
    rule,
    detail: 'results of job_1, job_2, job_3 and 2 more cannot be checked: ' +
      'RESULTS_ROOT_KEYS lacks key "1": add it again',
  }])
})

it('a lost key of a job is a breach of each job, next to a missing root key', async () => {
  expect(await findIn(job => job < 'job_3' ? lost() : rootLost(job))).toEqual([
    { tenant: TENANT, job: 'job_1', rule, detail: 'the data key is lost' },
    { tenant: TENANT, job: 'job_2', rule, detail: 'the data key is lost' },
    expect.objectContaining({
      detail: expect.stringMatching(/^results of job_3, job_4, job_5 cannot be checked: /),
    }),
  ])
})

it('results of an erased organization are no breach, even if they fail while it is', async () => {
  expect(await findIn(lost, () => true)).toEqual([])
  expect(await findIn(lost, asked => asked > jobs.length)).toEqual([])
})

const sound = { ok: true, tenants: [], breaches: [] }

/** Stores without any entry, of which Redis knows that some were copied. */
const storesOf = (copied: string | null) => ({
  codec,
  read: async () => {},
  clickhouse: createClickhouseDouble().clickhouse,
  recordMac: recordMacOf(),
  redis: { zscore: async () => copied },
}) as never

it('a report says how long the access log is, and what is wrong with it', async () => {
  const empty = await withAccessLog(sound, storesOf(null), undefined)
  expect(empty).toEqual({ ...sound, accessLog: { entries: 0, hash: '0'.repeat(64) } })
  expect(auditTable(empty, true)).toContain('access log: 0 entries, the last hash is 000')
  const cut = await withAccessLog(sound, storesOf('2'), { seq: 2, hash: 'h', missing: [] })
  expect(cut.ok).toBe(false)
  expect(auditTable(cut, true).split('\n').filter(line => line.startsWith('BREACH'))).toEqual([
    expect.stringMatching(
      /^BREACH I13 access\.log .*: entries 1 to 2 are missing in Kafka and in ClickHouse$/),
    expect.stringMatching(
      /^BREACH I13 access\.log .*: entry 2 had the hash h when it was exported/),
  ])
})
