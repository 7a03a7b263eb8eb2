import { expect, it } from 'vitest'
import { type AuditDeps, auditPage } from '../../../../services/admin/audit/audit.ts'
import { joinMissingKeys } from '../../../../services/admin/audit/report.ts'
import { MissingKeyError } from '../../../../services/runtime/crypto/key-ring.ts'
import type { RedisClient } from '../../../../services/runtime/platform/redis.ts'
import { endedJob } from '../../../support/clickhouse/results.ts'
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

it('a lost key of a job is a breach of its own, a lost root key is one of all jobs', async () => {
  expect(await findIn(job => job === 'job_1' ? lost() : rootLost(job))).toEqual([
    { tenant: TENANT, job: 'job_1', rule, detail: 'the data key is lost' },
    {
      tenant: '',
      job: '',
      rule,
      detail: 'results of job_2, job_3, job_4 and 1 more cannot be checked: ' +
        'RESULTS_ROOT_KEYS lacks key "1": add it again',
    },
  ])
})

it('results of an erased organization are no breach, even if they fail while it is', async () => {
  expect(await findIn(lost, () => true)).toEqual([])
  expect(await findIn(lost, asked => asked > jobs.length)).toEqual([])
})
