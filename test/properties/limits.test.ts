import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RequestLimiter } from '../../services/ingest/limits/limiter.ts'
import { createMetrics } from '../../services/runtime/platform/metrics.ts'
import type { RedisClient } from '../../services/runtime/platform/redis.ts'
import { startRedis } from '../support/redis/redis.ts'

type LimiterDeps = ConstructorParameters<typeof RequestLimiter>[0]
type Limits = ReturnType<LimiterDeps['limits']>
type LimitedRequest = Parameters<RequestLimiter['admit']>[0]

const { redis } = await startRedis()
const limits: Limits = {
  post: [{ capacity: 100, seconds: 1 }, { capacity: 1_000, seconds: 60 }],
  get: [{ capacity: 200, seconds: 1 }],
}
const reports = { log: { warn: () => {} }, metrics: createMetrics() }

/** Limits that Redis alone decides: the clock of the instance refills its own ones each time. */
function sharedLimiter (limits: Limits, options: Partial<LimiterDeps> = {}): RequestLimiter {
  let ms = 0
  const now = () => { ms += 86_400_000; return ms }
  return new RequestLimiter({
    cache: redis, limits: () => limits, ...reports, timeoutMs: 60_000, now, ...options,
  })
}

/** Limits of an instance whose Redis is away. */
function localLimiter (limits: Limits, now: () => number): RequestLimiter {
  const call = () => Promise.reject(new Error('Connection is closed.'))
  const cache = { call } as unknown as RedisClient
  return new RequestLimiter({ cache, limits: () => limits, ...reports, now })
}
const SET_CLOCK = new URL('../support/redis/set-clock.lua', import.meta.url)
let orgs = 0
const newOrg = () => {
  orgs += 1
  return `org_${orgs}`
}

async function redisSeconds (): Promise<number> {
  const [seconds, micros] = await redis.time()
  return Number(seconds) + Number(micros) / 1e6
}

type Flood = { readonly admitted: number, readonly seconds: number }

/** So many requests in rounds of 50 at once, and how long that took by Redis TIME. */
async function flood (
  request: LimitedRequest, requests: number, limiter = sharedLimiter(limits)
): Promise<Flood> {
  const startedAt = await redisSeconds()
  let admitted = 0
  for (let sent = 0; sent < requests; sent += 50) {
    const answers = await Promise.all(Array.from({ length: 50 }, () => limiter.admit(request)))
    admitted += answers.filter(answer => answer.kind === 'admitted').length
  }
  return { admitted, seconds: await redisSeconds() - startedAt }
}

describe('the rate of an organization', () => {
  it.each([
    ['post', 100, 100], ['get', 200, 200],
  ] as const)('%s: at least the capacity, at most what flowed in since', async (...row) => {
    const [kind, capacity, perSecond] = row
    const { admitted, seconds } = await flood({ org: newOrg(), kind }, 1_500)
    expect(admitted).toBeGreaterThanOrEqual(capacity)
    expect(admitted).toBeLessThanOrEqual(capacity + perSecond * seconds + 1)
  })

  it('holds over a minute too, however wide the burst is', async () => {
    const wide: Limits = { ...limits, post: [{ capacity: 5_000, seconds: 1 }, limits.post[1]!] }
    const { admitted, seconds } = await flood(
      { org: newOrg(), kind: 'post' }, 2_000, sharedLimiter(wide))
    expect(admitted).toBeGreaterThanOrEqual(1_000)
    expect(admitted).toBeLessThanOrEqual(1_000 + 1_000 / 60 * seconds + 1)
  })

  it('is not touched by another organization, nor by requests of the other kind', async () => {
    const [loud, quiet] = [newOrg(), newOrg()]
    await flood({ org: loud, kind: 'post' }, 500)
    const limiter = sharedLimiter(limits)
    const first = await limiter.admit({ org: quiet, kind: 'post' })
    expect(first.levels.map(({ tokens }) => tokens)).toEqual([99, 999])
    const read = await limiter.admit({ org: loud, kind: 'get' })
    expect(read.levels.map(({ tokens }) => tokens)).toEqual([199])
  })

  it('costs one round trip, and none while the buckets of the instance are empty', async () => {
    const request = { org: newOrg(), kind: 'get' } as const
    const bucket = { capacity: 3, seconds: 86_400 }
    const limiter = sharedLimiter({ post: [bucket], get: [bucket] }, { now: () => 0 })
    const admit = async () => (await limiter.admit(request)).kind
    await admit()
    const callsNow = async () => {
      const { calls } = /cmdstat_evalsha:calls=(?<calls>\d+)/.exec(await redis.info('commandstats'))
        ?.groups ?? {}
      return Number(calls)
    }
    const before = await callsNow()
    expect([await admit(), await admit(), await admit()])
      .toEqual(['admitted', 'admitted', 'throttled'])
    expect(await callsNow() - before).toBe(2)
    await limiter.refund(request)
    expect([await admit(), await admit()]).toEqual(['admitted', 'throttled'])
  })
})

describe('the clock of limits', () => {
  const small: Limits = {
    ...limits, post: [{ capacity: 3, seconds: 1 }, { capacity: 20, seconds: 60 }],
  }
  const step = fc.record({
    // Never back by a minute in all, which would be another case.
    forwardMs: fc.integer({ min: -2_000, max: 2_000 }),
    requests: fc.integer({ min: 1, max: 6 }),
  })

  it('refills as it goes forward, not as it goes back, as locally', async () => {
    const limiter = sharedLimiter(small, { clockLua: SET_CLOCK })
    await fc.assert(fc.asyncProperty(fc.array(step, { maxLength: 25 }), async steps => {
      const org = newOrg()
      const startMs = 1_800_000_000_000
      let nowMs = startMs
      let highestMs = -Infinity
      let [gainedMs, admitted] = [0, 0]
      const local = localLimiter(small, () => highestMs)
      for (const { forwardMs, requests } of steps) {
        nowMs += forwardMs
        if (highestMs > 0) gainedMs += Math.max(nowMs - highestMs, 0)
        highestMs = Math.max(nowMs, highestMs)
        await redis.set('clock', String(nowMs * 1_000))
        for (let sent = 0; sent < requests; sent++) {
          const admission = await limiter.admit({ org, kind: 'post' })
          expect(admission).toEqual(await local.admit({ org, kind: 'post' }))
          expect(await limiter.levels({ org, kind: 'post' })).toEqual(admission.levels)
          expect(await local.levels({ org, kind: 'post' })).toEqual(admission.levels)
          if (admission.kind === 'admitted') admitted += 1
        }
      }
      const seconds = gainedMs / 1_000
      expect(admitted).toBeLessThanOrEqual(Math.min(3 + 3 * seconds, 20 + seconds / 3) + 1)
    }), { numRuns: 60 })
  })

  it('corrected by hours delays no request', async () => {
    const limiter = sharedLimiter(small, { clockLua: SET_CLOCK })
    const org = newOrg()
    const admit = async (nowMs: number) => {
      await redis.set('clock', String(nowMs * 1_000))
      return (await limiter.admit({ org, kind: 'post' })).kind
    }
    const wrongMs = 1_800_007_200_000
    const rightMs = 1_800_000_000_000
    expect([await admit(wrongMs), await admit(wrongMs), await admit(wrongMs)])
      .toEqual(['admitted', 'admitted', 'admitted'])
    expect([await admit(rightMs), await admit(rightMs + 100)]).toEqual(['throttled', 'throttled'])
    expect(await admit(rightMs + 340)).toBe('admitted')
  })
})

it('tokens of a request without effect are refunded, and never beyond the capacity', async () => {
  const slow: Limits = { ...limits, post: [{ capacity: 2, seconds: 3_600 }] }
  const [limiter, org] = [sharedLimiter(slow), newOrg()]
  const request = { org, kind: 'post' } as const
  const kinds = async () => [
    (await limiter.admit(request)).kind, (await limiter.admit(request)).kind,
    (await limiter.admit(request)).kind,
  ]
  expect(await kinds()).toEqual(['admitted', 'admitted', 'throttled'])
  await limiter.refund(request)
  const [level] = await limiter.levels(request)
  expect(Math.floor(level!.tokens)).toBe(1)
  expect(await kinds()).toEqual(['admitted', 'throttled', 'throttled'])
  for (let times = 0; times < 5; times++) await limiter.refund(request)
  expect(await kinds()).toEqual(['admitted', 'admitted', 'throttled'])
})
