import { afterAll, describe, expect, it } from 'vitest'
import { freePort } from '../../deploy/local/ports.ts'
import type { PolicyChange } from '../../services/accounts/organizations.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { withWorkspace } from '../../services/admin/deps.ts'
import { createOrganizationWith } from '../support/organizations.ts'
import { startRedisServer, type RedisServer } from '../support/redis/server.ts'
import { startEnvironment } from '../support/stacks/environment.ts'

/** Windows so long that a slow machine comes to the end of a limit too. */
const LONG_WINDOWS = {
  LIMIT_POST_SUSTAINED: '150', LIMIT_POST_SUSTAINED_SECONDS: '600', LIMIT_GET_SECONDS: '20',
}
const AT_ONCE = 8
const POLICY = '100;w=1, 150;w=600'
/** A job of invalid rows alone costs nothing and takes no slot. */
const free = JSON.stringify({ service: 'phone-validation', inputs: ['call me'] })

/** Of `ingest` alone, so that it can end. */
let cache: RedisServer
const port = String(await freePort())
const startCache = () => startRedisServer(['--port', port, '--bind', '127.0.0.1'])
cache = await startCache()
afterAll(() => cache.stop())
const own = { REDIS_CACHE_URL: `redis://127.0.0.1:${port}` }
const environment = closeAfterAll(
  await startEnvironment({ ...LONG_WINDOWS, ...own }, { stages: ['ingest'] }))
const redis = closeAfterAll(openRedis(environment.env.REDIS_STATE_URL ?? ''))
const cached = closeAfterAll(openRedis(own.REDIS_CACHE_URL))

const newOrganization = async () =>
  await createOrganizationWith(environment.env, { availableMicros: 1_000_000 })
const headersOf = (key: string) =>
  ({ authorization: `Bearer ${key}`, 'content-type': 'application/json' })
const post = (key: string, body: string, headers: Record<string, string> = {}) =>
  fetch(`${environment.baseUrl}/jobs`, {
    method: 'POST', headers: { ...headersOf(key), ...headers }, body,
  })
const get = (key: string) =>
  fetch(`${environment.baseUrl}/jobs/job_unknown`, { headers: headersOf(key) })

type Problem = { readonly error: { readonly code: string } }
const codeOf = async (response: Response) => (await response.json() as Problem).error.code

const limitsOf = ({ headers }: Response) => Object.fromEntries(
  ['limit', 'remaining', 'reset', 'policy'].map(name => [name, headers.get(`ratelimit-${name}`)]))
const waitOf = ({ headers }: Response) => headers.get('retry-after')

async function redisSeconds (): Promise<number> {
  const [seconds, micros] = await redis.time()
  return Number(seconds) + Number(micros) / 1e6
}

/** Sends so many requests, a few at once; returns the statuses and the time by Redis. */
async function flood (times: number, ask: () => Promise<Response>) {
  const startedAt = await redisSeconds()
  const codes: string[] = []
  let left = times
  const worker = async () => {
    while (left > 0) {
      left -= 1
      codes.push(await codeOf(await ask()))
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  const throttled = codes.filter(code => code === 'rate_limited').length
  return { throttled, admitted: times - throttled, seconds: await redisSeconds() - startedAt }
}

describe('the request limits', () => {
  it('admit POST requests by two buckets', async () => {
    const { keys } = await newOrganization()
    const { admitted, throttled, seconds } = await flood(400, () => post(keys.live, '{'))
    expect(admitted).toBeGreaterThanOrEqual(100)
    expect(admitted).toBeLessThanOrEqual(
      Math.min(100 + 100 * seconds, 150 + 150 / 600 * seconds) + 1)
    expect(throttled).toBeGreaterThan(0)
  })

  it('admit GET requests by one bucket, independent of other organizations', async () => {
    const [loud, quiet] = [await newOrganization(), await newOrganization()]
    const { admitted, throttled, seconds } = await flood(400, () => get(loud.keys.live))
    expect(admitted).toBeGreaterThanOrEqual(200)
    expect(admitted).toBeLessThanOrEqual(200 + 10 * seconds + 1)
    expect(throttled).toBeGreaterThan(0)
    expect(limitsOf(await get(quiet.keys.live)).remaining).toBe('199')
  })

  it('are those of an organization that has limits of its own', async () => {
    const { orgId, keys } = await newOrganization()
    const policy = (change: PolicyChange) => withWorkspace(environment.env, ({ organizations }) =>
      organizations.setPolicy(orgId, change))
    expect(limitsOf(await get(keys.live)).limit).toBe('200')
    await policy({ gets: 7, postBurst: 5 })
    await expect.poll(async () => limitsOf(await get(keys.live)).limit).toBe('7')
    expect(limitsOf(await post(keys.live, '{')).policy).toBe('5;w=1, 150;w=600')
    await policy({ gets: 'default' })
    await expect.poll(async () => limitsOf(await get(keys.live)).limit).toBe('200')
  })
})

describe('the headers of the limits', () => {
  it('are on a 202 and on errors, and a 429 has Retry-After', async () => {
    const { keys } = await newOrganization()
    const accepted = await post(keys.live, free)
    expect([accepted.status, waitOf(accepted)]).toEqual([202, '0'])
    // The burst may have refilled while the preflight was made.
    expect(limitsOf(accepted)).toEqual({
      limit: '100',
      remaining: expect.stringMatching(/^(99|100)$/),
      reset: expect.stringMatching(/^[01]$/),
      policy: POLICY,
    })
    const unknown = await get(keys.live)
    expect([unknown.status, await codeOf(unknown), waitOf(unknown)])
      .toEqual([404, 'job_not_found', '0'])
    expect(limitsOf(unknown))
      .toEqual({ limit: '200', remaining: '199', reset: '1', policy: '200;w=20' })

    await flood(300, () => post(keys.live, '{'))
    await expect.poll(async () => limitsOf(await post(keys.live, '{')))
      .toMatchObject({ limit: '150', remaining: '0' })
    const refused = await post(keys.live, free)
    expect([refused.status, await codeOf(refused)]).toEqual([429, 'rate_limited'])
    expect(limitsOf(refused)).toMatchObject({ limit: '150', remaining: '0', policy: POLICY })
    const reset = Number(limitsOf(refused).reset)
    expect(reset).toBeGreaterThan(590)
    expect(reset).toBeLessThanOrEqual(600)
    expect(Number(waitOf(refused))).toBeGreaterThanOrEqual(1)
    expect(Number(waitOf(refused))).toBeLessThanOrEqual(4)
  })

  it('are missing on unauthenticated responses', async () => {
    const unauthenticated = await get('nonsense')
    const { status, headers } = unauthenticated
    expect([status, headers.has('ratelimit-limit')]).toEqual([401, false])
  })
})

describe('an interface whose cache Redis is down', () => {
  it('takes jobs, limits requests by itself, and goes back to Redis', async () => {
    const [one, other] = [await newOrganization(), await newOrganization()]
    await cache.stop()
    const accepted = await Promise.all(Array.from({ length: 50 }, () => post(one.keys.live, free)))
    expect(accepted.map(({ status }) => status)).toEqual(Array(50).fill(202))
    const { admitted, throttled } = await flood(300, () => get(one.keys.live))
    expect([admitted >= 198, throttled > 0]).toEqual([true, true])
    await expect.poll(async () => {
      const refused = await get(one.keys.live)
      return [refused.status, limitsOf(refused).remaining]
    }).toEqual([429, '0'])
    cache = await startCache()
    await expect.poll(async () => {
      await get(other.keys.live)
      return await cached.exists(`limit:{${other.orgId}}:get`)
    }).toBe(1)
  })
})
