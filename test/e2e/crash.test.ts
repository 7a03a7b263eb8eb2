import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { ROW_COUNTERS } from '../../schemas/api/job.ts'
import { tenantOf } from '../../services/accounts/tenant.ts'
import type { JobStatusResource } from '../../services/client/client.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { topicName } from '../../services/runtime/platform/topics.ts'
import { STAGES } from '../../services/topology.ts'
import { mixedPhones } from '../bench/jobs.ts'
import { eventually } from '../support/eventually.ts'
import { bindingOf } from '../support/jobs.ts'
import { messagesIn } from '../support/kafka/offsets.ts'
import { parseCsv, startEnvironment } from '../support/stacks/environment.ts'

const ROWS = 12_000

const environment = closeAfterAll(await startEnvironment({}, { apart: STAGES }))
const redis = closeAfterAll(openRedis(environment.env.REDIS_STATE_URL ?? ''))

/** What a stage reads of a big job before the job is accepted. */
const READS = {
  normalize: topicName('rows.submitted', { lane: 'bulk' }),
  lookup: topicName('rows.normalized', { lane: 'bulk' }),
} as const

type Posted = { readonly key: string, readonly accepted: Promise<{ readonly id: string }> }

/** Resolves to a wait for the moment when the stage is in the middle of the job. */
async function middleOf (stage: string): Promise<(posted: Posted) => Promise<void>> {
  if (stage === 'ingest') {
    // The key is claimed once the body was read.
    const tenant = tenantOf(environment.orgId, 'live')
    return ({ key }) => eventually(async () =>
      expect(await bindingOf(redis, tenant, key)).toBeDefined())
  }
  if (stage === 'normalize' || stage === 'lookup') {
    const before = await messagesIn(environment.env, READS[stage])
    return () => eventually(async () =>
      expect(await messagesIn(environment.env, READS[stage])).toBeGreaterThan(before))
  }
  return async ({ accepted }) => {
    const { id } = await accepted
    const inTheMiddle = ({ progressPercent }: JobStatusResource) => {
      if (progressPercent > 10) throw new Error('in the middle')
    }
    await environment.live.waitForEnd(id, { pollEveryMs: 10, onProgress: inTheMiddle })
      .catch(() => {})
  }
}

const restartsOf = (stage: string) =>
  environment.services.list().find(({ name }) => name === `${stage}-1`)?.restarts ?? 0

/** A job in whose middle a stage is killed; its client keeps retrying. */
async function surviveWithout (stage: string, from: number): Promise<void> {
  const inputs = mixedPhones(ROWS, from)
  const request = { service: 'phone-validation', inputs, countryCode: 'US', forceFresh: true }
  const untilItIs = await middleOf(stage)
  const restarts = restartsOf(stage)
  const key = randomUUID()
  const accepted = eventually(() => environment.live.createJob(request, key))
  await untilItIs({ key, accepted })
  environment.services.kill(`${stage}-1`, 'SIGKILL')
  const { id } = await accepted
  const job = await eventually(() => environment.live.waitForEnd(id))
  await expect.poll(() => restartsOf(stage)).toBe(restarts + 1)
  expect(job.status).toBe('completed')
  // A killed `settle` may have counted the last rows and not stored them: 503 until another does.
  const rows = parseCsv(await eventually(() => environment.live.results(id)))
  expect(rows.map(row => row.input)).toEqual(inputs)
  expect(rows.map(row => row.row)).toEqual(inputs.map((_, row) => String(row + 1)))
  expect(job.successRecords + job.failedRecords).toBe(ROWS)
  expect(ROW_COUNTERS.reduce((sum, name) => sum + job[name], 0)).toBe(ROWS)
}

describe('services killed in the middle of jobs', () => {
  // The brokers wait seconds for a killed member, so some are killed at the same time.
  it.each([
    ['before they are accepted', ['ingest', 'normalize', 'lookup']],
    ['once they are accepted', ['verify', 'settle', 'ledger']],
  ])('%s, %j: they complete, every row once, every micro explained', async (_when, stages) => {
    const from = 1_000_000 + (stages.includes('verify') ? 3 * ROWS : 0)
    await Promise.all(stages.map((stage, index) => surviveWithout(stage, from + index * ROWS)))
    await environment.services.untilReady()
    expect(await environment.breaches()).toEqual([])
  })
})
