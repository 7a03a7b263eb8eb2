import { randomUUID } from 'node:crypto'
import { afterAll, describe, expect, it } from 'vitest'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { jobRedisKeys } from '../../services/jobs/job-record.ts'
import { taggedTenant } from '../../services/money/redis-keys.ts'
import { Clickhouse } from '../../services/runtime/platform/clickhouse.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { createJobKeyCopy } from '../../services/jobs/wrapped-keys.ts'
import { startReceiver } from '../support/webhooks/receiver.ts'
import { recordMacOf } from '../support/keys/signed.ts'
import { startAll, type RunningServices } from '../support/stacks/services.ts'
import { stackEnv } from '../support/stacks/stack.ts'
import { ask, parseCsv, startEnvironment, verdictsOf } from '../support/stacks/environment.ts'

const env = stackEnv() as Record<string, string>
const redis = closeAfterAll(openRedis(env['REDIS_STATE_URL'] ?? ''))
const clickhouse = closeAfterAll(new Clickhouse(env['CLICKHOUSE_URL'] ?? ''))
const copy = createJobKeyCopy(clickhouse, recordMacOf(env))
const receiver = await startReceiver()

let further: RunningServices | undefined
const environment = closeAfterAll(await startEnvironment())
const tenant = tenantOf(environment.orgId, 'live')
afterAll(() => further?.stop())

/** Does what time does ten minutes after the close: all that expires then goes now. */
async function forget (job: string): Promise<void> {
  const { job: record, dataKey } = jobRedisKeys(tenant, job)
  for (const key of [record, dataKey]) {
    await expect.poll(() => redis.pttl(key)).toBeGreaterThan(0)
    expect(await redis.pttl(key)).toBeLessThanOrEqual(600_000)
    await redis.del(key)
  }
}

const post = (path: string, body?: object, headers: Record<string, string> = {}) =>
  ask(`${further?.baseUrl ?? environment.baseUrl}${path}`, {
    key: environment.keys.live, method: 'POST', body, headers,
  })

const phones = (count: number) => Array.from({ length: count }, (_, at) => `+1212739${2_000 + at}`)

describe('a closed job that Redis has forgotten', () => {
  it('is read, listed, resent and not cancelled, and its request answered as before', async () => {
    const path = `/${randomUUID()}`
    const request = {
      service: 'phone-validation',
      inputs: [...phones(2), 'call me', ...phones(1)],
      metadata: { campaign: 'spring' },
      webhook_url: `http://127.0.0.1:${receiver.port}${path}`,
    }
    const key = { 'idempotency-key': randomUUID() }
    const first = await post('/jobs', request, key)
    const { id } = JSON.parse(first.text) as { id: string }
    const job = await environment.live.waitForEnd(id)
    await receiver.until(1, path)
    const rows = await environment.live.results(id)
    await expect.poll(() => copy.find(tenant, id)).toBeDefined()
    await forget(id)
    // One that has never had the key in memory.
    const overrides = { WEBHOOK_ALLOW_HTTP: 'true', WEBHOOK_ALLOW_LOOPBACK: 'true' }
    further = await startAll({ env, stages: ['ingest'], overrides })
    const client = environment.clientAt(further.baseUrl, 'live')

    const again = await post('/jobs', request, key)
    expect([again.status, again.text]).toEqual([202, first.text])
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    const other = await post('/jobs', { ...request, inputs: phones(3) }, key)
    expect([other.status, other.text]).toEqual([422, expect.stringContaining('key_reused')])
    expect(await client.job(id)).toEqual(job)
    expect(job.metadata).toEqual(request.metadata)
    expect(await client.results(id)).toEqual(rows)
    const listed = await ask(`${further.baseUrl}/jobs?limit=1`, { key: environment.keys.live })
    expect(listed.json).toMatchObject({ data: [job] })
    const cancelled = await post(`/jobs/${id}/cancel`)
    expect([cancelled.status, cancelled.text])
      .toEqual([409, expect.stringContaining('job_not_cancellable')])
    const [sent] = receiver.received.filter(one => one.path === path)
    const { verdicts, reasons } = verdictsOf(parseCsv(rows))
    expect(job).toMatchObject({ verdicts, reasons })
    expect(JSON.parse(sent!.body)).toMatchObject({ data: { verdicts, reasons } })
    const delivery = String(sent?.headers['webhook-id'])
    expect((await post(`/jobs/${id}/deliveries/${delivery}/resend`)).status).toBe(202)
    const [, resent] = await receiver.until(2, path)
    expect(resent?.body).toBe(sent?.body)
  })

  it('leaves Redis at most 200 bytes of each', async () => {
    const jobs = 10
    const bytesByKey = async () => new Map(await Promise.all(
      (await redis.keys(`*${taggedTenant(tenant)}*`)).map(async key =>
        [key, await redis.memory('USAGE', key, 'SAMPLES', '0') ?? 0] as const)))
    const before = await bytesByKey()
    for (const inputs of phones(jobs).map(phone => [phone])) {
      const request = { service: 'phone-validation', inputs, metadata: { order: '7' } }
      const { id } = await environment.live.createJob(request, randomUUID())
      await environment.live.waitForEnd(id)
      await forget(id)
    }
    const after = await bytesByKey()
    expect([...after.keys()].filter(key => !before.has(key) && !key.startsWith('idem:')))
      .toEqual([])
    const grown = [...after].reduce((sum, [key, bytes]) => sum + bytes - (before.get(key) ?? 0), 0)
    expect(grown).toBeGreaterThan(0)
    expect(grown / jobs).toBeLessThanOrEqual(200)
  })
})
