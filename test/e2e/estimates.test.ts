import { describe, expect, it } from 'vitest'
import { sampleTenantOf, tenantOf } from '../../services/accounts/tenant.ts'
import { createClient } from '../../services/client/client.ts'
import { jobRedisKeys } from '../../services/jobs/job-record.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { createOrganizationWith } from '../support/organizations.ts'
import { breachesOf, startEnvironment } from '../support/stacks/environment.ts'

const environment = closeAfterAll(await startEnvironment())
const redis = closeAfterAll(openRedis(environment.env['REDIS_STATE_URL'] ?? ''))

const service = 'phone-validation'
/** Of ten numbers three have no area code that exists. */
const numberOf = (at: number) => `+1${at % 10 < 3 ? '999' : '212'}736${String(at).padStart(4, '0')}`
const numbers = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, at) => numberOf(from + at))

/** An organization, and what its samples have cost. */
async function customer () {
  const { orgId, keys, balance } = await createOrganizationWith(environment.env,
    { availableMicros: 100_000_000 })
  const client = createClient({ apiKey: keys.live, baseUrl: environment.baseUrl })
  const tenant = sampleTenantOf(tenantOf(orgId, 'live'))
  const samples = async () => {
    const names = await redis.keys(jobRedisKeys(tenant, 'job_*').job)
    const rows = await Promise.all(names.map(async name =>
      Number(await redis.hget(name, 'totalRows'))))
    return {
      jobs: names.map(key => key.slice(key.lastIndexOf(':') + 1)),
      rows: rows.reduce((sum, more) => sum + more, 0),
    }
  }
  const estimate = async (inputs: readonly string[]) =>
    (await client.quote({ service, inputs, sample: true })).estimate
  return { orgId, client, balance, samples, estimate }
}

describe('the estimate of a list', () => {
  it('has the shares of verdicts of a sample, is free, and nothing of it can be read', async () => {
    const { orgId, client, balance, samples } = await customer()
    const endpoint = await client.createWebhookEndpoint({
      url: 'http://127.0.0.1:9/', events: ['job.completed'],
    })
    const before = await balance()
    const list = [...numbers(0, 2_000), 'call me', numberOf(7)]
    const quote = await client.quote({ service, inputs: list, sample: true })
    expect(quote.preflight).toMatchObject({ freshChecks: 2_000, invalidRows: 1, duplicateRows: 1 })
    expect(quote.estimate).toMatchObject({
      status: 'completed',
      reason: null,
      contacts: 2_000,
      sampledContacts: 100,
      checkedContacts: 100,
    })
    const { valid, invalid, risky, unknown } = quote.estimate!.shares!
    expect(valid.share + invalid.share + risky.share + unknown.share).toBeCloseTo(1, 3)
    expect(Math.abs(invalid.share - 0.3)).toBeLessThan(0.25)
    expect(invalid.low).toBeLessThan(invalid.share)
    expect(invalid.high).toBeGreaterThan(invalid.share)

    expect(await balance()).toEqual(before)
    const { jobs: [sample = ''], rows } = await samples()
    expect(rows).toBe(100)
    await expect(client.job(sample)).rejects.toMatchObject({ status: 404, code: 'job_not_found' })
    await expect(client.results(sample)).rejects.toMatchObject({ code: 'job_not_found' })
    await expect(client.eraseJob(sample)).rejects.toMatchObject({ code: 'job_not_found' })
    // Nor does it answer rows of the job that follows.
    const { id, preflight } = await client.createJob({ service, inputs: list })
    expect(preflight).toMatchObject({ cacheHits: 0, freshChecks: 2_000 })
    await client.waitForEnd(id)
    const attempted = async () => {
      const attempts = []
      for await (const { jobId } of client.endpointDeliveries(endpoint.id)) attempts.push(jobId)
      return attempts
    }
    await expect.poll(attempted).toEqual([id])
    expect((await client.jobsPage()).data.map(job => job.id)).toEqual([id])
    await expect.poll(async () => (await client.usage()).total.jobs).toBe(1)
    expect(await breachesOf(environment.env, orgId)).toEqual([])
  })

  it('verifies a bounded number of rows in a day, however a list is split', async () => {
    const { samples, estimate } = await customer()
    expect(await estimate(numbers(0, 199))).toMatchObject({
      status: 'unavailable', reason: 'too_few_contacts', sampledContacts: 0, shares: null,
    })
    const answers = []
    for (let part = 0; part < 18; part++) {
      answers.push(await estimate(numbers(200 * part, 200 * (part + 1))))
    }
    expect(answers.map(answer => answer?.reason)).toEqual([
      ...new Array<null>(15).fill(null), 'daily_limit', 'daily_limit', 'daily_limit',
    ])
    expect((await samples()).rows).toBe(300)
    // What was estimated can be read again.
    expect(await estimate(numbers(0, 200).toReversed())).toEqual(answers[0])
  })
})
