import { taggedTenant } from '../../../services/money/redis-keys.ts'
import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import { bindingOf, moveEnd } from '../../support/jobs.ts'
import {
  ACCEPT_WITHIN_MS, customers, newCustomer, newNumbers, service, shared, whileHalted,
  type Account,
} from './support.ts'

const post = (account: Account, key: string, ...[body, baseUrl]: [unknown, string?]) =>
  account.ask('/jobs', {
    body, headers: { 'idempotency-key': key }, ...baseUrl === undefined ? {} : { baseUrl },
  })
const free = { service, inputs: ['call me'] }
const jobsOf = async ({ client }: Account) => (await client.jobsPage({ limit: 100 })).data

/** Resolves once the key is claimed, which happens when the body has been read. */
const untilClaimed = async (account: Account, key: string) =>
  await expect.poll(() => bindingOf(shared().redis, account.tenant, key)).toBeDefined()

/** Repeats a request as a client does, until it is accepted. */
const untilAccepted = (account: Account, key: string, body: unknown) =>
  eventually(async () => {
    const answer = await post(account, key, body)
    expect(answer.status).toBe(202)
    return answer
  })

describe('an Idempotency-Key', () => {
  it('belongs to one organization and mode', async () => {
    const [one, other] = [await newCustomer(), await newCustomer()]
    const key = randomUUID()
    const answers = [
      await post(one.live, key, free), await post(one.test, key, { ...free, inputs: ['other'] }),
      await post(other.live, key, { ...free, inputs: ['yet another'] }),
    ]
    expect(answers.map(({ status }) => status)).toEqual([202, 202, 202])
    expect(new Set(answers.map(({ json }) => json.id)).size).toBe(3)
  })

  it('compares what bodies mean: the order of fields and defaults make no difference',
    async () => {
      const { test } = await newCustomer()
      const key = randomUUID()
      const first = await post(test, key, {
        service, inputs: ['a', 'b'], countryCode: 'us', metadata: { x: '1', y: '2' },
      })
      const same = [
        '{"metadata":{"y":"2","x":"1"},"countryCode":"US","inputs":["a","b"],' +
          `"forceFresh":false,"service":"${service}"}`,
        ` {\n"service": "${service}", "inputs": ["\\u0061", "b"], "countryCode": "Us", ` +
          '"metadata": {"x": "1", "y": "2"} }',
      ]
      for (const text of same) {
        const again = await post(test, key, text)
        expect([again.status, again.headers.get('idempotent-replayed'), again.text])
          .toEqual([202, 'true', first.text])
      }
      const whole = { service, inputs: ['a', 'b'], countryCode: 'US', metadata: { x: '1', y: '2' } }
      // test/unit/ingest/routes/create-job.test.ts has all that makes a difference.
      for (const body of [{ ...whole, inputs: ['b', 'a'] }, { ...whole, forceFresh: true }]) {
        const { status, code } = await post(test, key, body)
        expect([status, code]).toEqual([422, 'idempotency_key_reused'])
      }
    })

  it('repeated with the same request returns the stored 202 bytes, marked as replayed',
    async () => {
      const { live } = await newCustomer()
      const key = randomUUID()
      const body = { service, inputs: newNumbers(1) }
      const first = await post(live, key, body)
      expect([first.status, first.headers.get('idempotent-replayed')]).toEqual([202, null])
      await live.client.waitForEnd(first.json.id)
      const again = await post(live, key, body)
      expect([again.status, again.headers.get('idempotent-replayed'), again.text])
        .toEqual([202, 'true', first.text])
      expect(again.headers.get('location')).toBe(first.headers.get('location'))
      expect((await jobsOf(live)).map(({ id }) => id)).toEqual([first.json.id])
      expect((await live.client.balance()).balanceMicros).toBe(998_000)
    })

  it('sent a hundred times at once makes one job and a hundred equal answers', async () => {
    const { live } = await newCustomer()
    const key = randomUUID()
    const body = { service, inputs: newNumbers(3) }
    const answers = await Promise.all(Array.from({ length: 100 }, () => post(live, key, body)))
    expect(answers.map(({ status }) => status)).toEqual(Array(100).fill(202))
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1)
    const replayed = answers.filter(({ headers }) => headers.get('idempotent-replayed') === 'true')
    expect(replayed).toHaveLength(99)
    const job = await live.client.waitForEnd(answers[0]?.json.id)
    expect((await jobsOf(live)).map(({ id }) => id)).toEqual([job.id])
    expect(await live.client.balance()).toMatchObject({ balanceMicros: 994_000, reservedMicros: 0 })
  })

  it('of a refused request is free: the next request is evaluated again',
    async () => {
      const { live, test } = await newCustomer(1_000)
      const key = randomUUID()
      const refused = await post(live, key, { service, inputs: newNumbers(1) })
      expect([refused.status, refused.code]).toEqual([402, 'insufficient_balance'])
      const next = await post(live, key, free)
      expect([next.status, next.headers.get('idempotent-replayed')]).toEqual([202, null])
      const wrong = randomUUID()
      expect((await post(test, wrong, { ...free, countryCode: 'XX' })).status).toBe(400)
      expect((await post(test, wrong, free)).status).toBe(202)
    })

  it('is held for 24 hours from its first use by the clock of the store', async () => {
    const { live, orgId } = await newCustomer()
    // The audit would see that no day has passed.
    customers.splice(customers.indexOf(orgId), 1)
    const { redis } = shared()
    const key = randomUUID()
    const first = await post(live, key, free)
    const binding = await bindingOf(redis, live.tenant, key)
    if (binding === undefined) throw new Error('not bound')
    const record = `job:${taggedTenant(live.tenant)}:${binding.job}`
    expect(binding.endsAtMs - Number(await redis.hget(record, 'claimedAt'))).toBe(86_400_000)
    expect(await redis.pexpiretime(binding.hash)).toBeGreaterThanOrEqual(binding.endsAtMs)
    expect((await post(live, key, free)).text).toBe(first.text)
    // It ends then, which is now.
    await moveEnd(redis, { ...binding, key, endsAtMs: Date.now() })
    const next = await post(live, key, { ...free, inputs: ['another'] })
    expect([next.status, next.headers.get('idempotent-replayed')]).toEqual([202, null])
    expect(next.json.id).not.toBe(first.json.id)
  })

  it('claimed by a service that died before it answered still makes one job', async () => {
    const { live } = await newCustomer()
    const { impatient } = shared()
    const key = randomUUID()
    const body = { service, inputs: newNumbers(2) }
    await whileHalted('normalize-1', async () => {
      const lost = post(live, key, body, impatient.baseUrl).catch(() => 'lost')
      await untilClaimed(live, key)
      impatient.kill('ingest-1', 'SIGKILL')
      expect(await lost).toBe('lost')
    })
    await impatient.untilReady()
    const answer = await untilAccepted(live, key, body)
    const job = await live.client.waitForEnd(answer.json.id)
    expect(job).toMatchObject({ status: 'completed', chargedMicros: 4_000 })
    expect((await jobsOf(live)).map(({ id }) => id)).toEqual([job.id])
    expect(await live.client.balance()).toMatchObject({ balanceMicros: 996_000, reservedMicros: 0 })
    expect((await post(live, key, body)).text).toBe(answer.text)
  })
})

it('a pipeline that does not answer in time ' +
  'is 503 with Retry-After, nothing is reserved, and no job comes of it; ' +
  'a claim whose time has passed without a job is taken over', async () => {
  const { live } = await newCustomer()
  const key = randomUUID()
  const body = { service, inputs: newNumbers(2) }
  const { baseUrl } = shared().impatient
  const startedAt = performance.now()
  const refused = await whileHalted('normalize-1', () => post(live, key, body, baseUrl))
  expect([refused.status, refused.code]).toEqual([503, 'temporarily_unavailable'])
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(ACCEPT_WITHIN_MS - 100)
  expect(await live.client.balance()).toMatchObject({ reservedMicros: 0 })
  expect(await jobsOf(live)).toEqual([])
  const other = await untilAccepted(live, key, { ...body, inputs: newNumbers(1) })
  const job = await live.client.waitForEnd(other.json.id)
  expect((await jobsOf(live)).map(({ id }) => id)).toEqual([job.id])
  expect(await live.client.balance()).toMatchObject({ balanceMicros: 998_000, reservedMicros: 0 })
})
