import { describe, expect, it } from 'vitest'
import { row } from './rows.ts'
import {
  ask, free, HIGHEST_PRICE_MICROS, newCustomer, newNumbers, service, shared, slowNumber,
} from './support.ts'

const PRICE_MICROS = 2_000

/** Sends it again for as long as others of the same organization have all places. */
async function post (key: string, body: unknown) {
  for (;;) {
    const answer = await ask('/jobs', { key, body })
    const isCrowded = answer.code === 'concurrent_jobs_limit' || answer.code === 'rate_limited'
    if (!isCrowded) return answer
    await new Promise(resolve => setTimeout(resolve, 50))
  }
}

describe('the last of the money', () => {
  it(row(43), async () => {
    const { key, client, balance } = await newCustomer(1_000_000)
    // Each of them wants a fifth of it and a bit: four can have it.
    const wanted = Array.from({ length: 50 }, () => ({ service, inputs: newNumbers(110) }))
    const answers = await Promise.all(wanted.map(body => post(key, body)))
    const accepted = answers.filter(({ status }) => status === 202)
    const refused = answers.filter(({ status }) => status !== 202)
    expect(accepted).toHaveLength(4)
    expect(refused.map(({ status, code }) => [status, code]))
      .toEqual(Array(46).fill([402, 'insufficient_balance']))
    expect(refused.map(({ json }) => [json.error.requiredMicros, json.error.availableMicros]))
      .toEqual(Array(46).fill([220_000, 120_000]))
    await Promise.all(accepted.map(({ json }) => client.waitForEnd(json.id)))
    expect(await balance()).toMatchObject({ availableMicros: 120_000, reservedMicros: 0 })
  })

  it(`${row(43)}: exactly enough is enough, a micro less is not`, async () => {
    const inputs = newNumbers(3)
    for (const [micros, expected] of [[6_000, 202], [5_999, 402], [0, 402]] as const) {
      const { key } = await newCustomer(micros)
      expect((await post(key, { service, inputs })).status).toBe(expected)
      expect((await post(key, free)).status).toBe(202)
    }
  })

  it(row(51), async () => {
    const { key, client } = await newCustomer(1_000)
    const inputs = newNumbers(100_000)
    const body = { service: 'carrier-single', inputs }
    const { status, code, text } = await ask('/jobs', { key, body })
    expect([status, code]).toEqual([402, 'insufficient_balance'])
    expect(text).toContain(`"requiredMicros":${100_000 * HIGHEST_PRICE_MICROS}`)
    expect(text).toContain('"availableMicros":1000')
    expect((await client.jobsPage({ limit: 1 })).data).toEqual([])
  })
})

describe('limits', () => {
  it(row(44), async () => {
    const { key, client, balance } = await newCustomer()
    const slow = await Promise.all(Array.from({ length: 10 }, () =>
      ask('/jobs', { key, body: { service, inputs: [slowNumber()] } })))
    expect(slow.map(({ status }) => status)).toEqual(Array(10).fill(202))
    const eleventh = { service, inputs: newNumbers(1) }
    const refused = await ask('/jobs', { key, body: eleventh })
    expect([refused.status, refused.code]).toEqual([429, 'concurrent_jobs_limit'])
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
    expect((await ask('/jobs', { key, body: free })).status).toBe(202)
    await client.waitForEnd(slow[0]?.json.id)
    const last = await post(key, eleventh)
    expect(last.status).toBe(202)
    await Promise.all([...slow, last].map(({ json }) => client.waitForEnd(json.id)))
    expect(await balance())
      .toMatchObject({ availableMicros: 1_000_000 - 11 * PRICE_MICROS, reservedMicros: 0 })
  })

  it(row(45), async () => {
    const { key } = await newCustomer()
    const { redis } = shared()
    const redisSeconds = async () => {
      const [seconds, micros] = await redis.time()
      return Number(seconds) + Number(micros) / 1e6
    }
    const startedAt = await redisSeconds()
    const answers = await Promise.all(Array.from({ length: 300 }, () =>
      ask('/jobs', { key, body: '{' })))
    const seconds = await redisSeconds() - startedAt
    const let101 = answers.filter(({ code }) => code !== 'rate_limited')
    expect(let101.length).toBeGreaterThanOrEqual(100)
    expect(let101.length).toBeLessThanOrEqual(100 + 100 * seconds + 1)
    for (const { status, headers, code } of answers) {
      const whole = ['limit', 'remaining', 'reset'].map(name => headers.get(`ratelimit-${name}`))
      // At most ten wait for their preflight at once.
      expect([400, 429]).toContain(status)
      expect(whole.every(text => /^\d+$/.test(text ?? ''))).toBe(true)
      expect(Number(headers.get('retry-after')) >= 1).toBe(status === 429)
      expect(['invalid_json', 'rate_limited', 'concurrent_jobs_limit']).toContain(code)
    }
  })

  it(`${row(45)}: a clock that went back gives nothing away, and is not waited for`, async () => {
    const { key, tenant } = await newCustomer()
    const { redis } = shared()
    const bucket = `limit:{${tenant}}:post`
    const code = async () => (await ask('/jobs', { key, body: '{' })).code
    /** As if the buckets were emptied so many seconds later than it is now. */
    const emptied = async (aheadSeconds: number) => {
      const [seconds] = await redis.time()
      const at = String((Number(seconds) + aheadSeconds) * 1e6)
      await redis.hset(bucket, 'at', at, '1', '0', '2', '0')
    }
    expect(await code()).toBe('invalid_json')
    await emptied(30)
    expect(await code()).toBe('rate_limited')
    expect(await redis.pttl(bucket)).toBeGreaterThan(60_000)
    await emptied(86_400)
    await expect.poll(code, { timeout: 10_000, interval: 100 }).toBe('invalid_json')
  })
})
