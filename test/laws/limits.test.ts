import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  createLimiter, type LimitedRequest, type Limits,
} from '../../services/ingest/limits/limiter.ts'
import { createJobStore } from '../../services/jobs/store.ts'
import { startRedis } from '../support/redis.ts'

const { redis } = await startRedis()
const limits: Limits = {
  post: [{ capacity: 100, seconds: 1 }, { capacity: 1_000, seconds: 60 }],
  get: [{ capacity: 200, seconds: 1 }],
  maxPreflights: 10,
  placeKeptMs: 600_000,
}
const SET_CLOCK = new URL('../support/set-clock.lua', import.meta.url)
let tenants = 0
const newTenant = () => {
  tenants += 1
  return `org_${tenants}.live`
}

async function redisSeconds (): Promise<number> {
  const [seconds, micros] = await redis.time()
  return Number(seconds) + Number(micros) / 1e6
}

type Flood = { readonly admitted: number, readonly seconds: number }

/** So many requests in rounds of 50 at once, and how long that took by Redis TIME. */
async function flood (
  request: LimitedRequest, requests: number, limiter = createLimiter(redis, limits)
): Promise<Flood> {
  const startedAt = await redisSeconds()
  let admitted = 0
  for (let sent = 0; sent < requests; sent += 50) {
    const answers = await Promise.all(Array.from({ length: 50 }, () =>
      limiter.admit(request)))
    admitted += answers.filter(answer => answer.kind === 'admitted').length
  }
  return { admitted, seconds: await redisSeconds() - startedAt }
}

describe('the rate of a tenant', () => {
  it.each([
    ['post', 100, 100], ['get', 200, 200],
  ] as const)('%s: at least the capacity, at most what flowed in since', async (...row) => {
    const [kind, capacity, perSecond] = row
    const { admitted, seconds } = await flood({ tenant: newTenant(), kind }, 1_500)
    expect(admitted).toBeGreaterThanOrEqual(capacity)
    expect(admitted).toBeLessThanOrEqual(capacity + perSecond * seconds + 1)
  })

  it('holds over a minute too, however wide the burst is', async () => {
    const wide: Limits = { ...limits, post: [{ capacity: 5_000, seconds: 1 }, limits.post[1]!] }
    const { admitted, seconds } = await flood(
      { tenant: newTenant(), kind: 'post' }, 2_000, createLimiter(redis, wide))
    expect(admitted).toBeGreaterThanOrEqual(1_000)
    expect(admitted).toBeLessThanOrEqual(1_000 + 1_000 / 60 * seconds + 1)
  })

  it('is not touched by another tenant, nor by requests of the other kind', async () => {
    const [loud, quiet] = [newTenant(), newTenant()]
    await flood({ tenant: loud, kind: 'post' }, 500)
    const limiter = createLimiter(redis, limits)
    const first = await limiter.admit({ tenant: quiet, kind: 'post' })
    expect(first.levels.map(({ tokens }) => tokens)).toEqual([99, 999])
    const read = await limiter.admit({ tenant: loud, kind: 'get' })
    expect(read.levels.map(({ tokens }) => tokens)).toEqual([199])
  })

  it('costs one round trip', async () => {
    const tenant = newTenant()
    const limiter = createLimiter(redis, limits)
    await limiter.admit({ tenant, kind: 'get' })
    const callsNow = async () => {
      const { calls } = /cmdstat_evalsha:calls=(?<calls>\d+)/.exec(await redis.info('commandstats'))
        ?.groups ?? {}
      return Number(calls)
    }
    const before = await callsNow()
    await limiter.admit({ tenant, kind: 'get' })
    expect(await callsNow() - before).toBe(1)
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

  it('grants what flows in as it goes forward, and nothing as it goes back', async () => {
    const limiter = createLimiter(redis, small, SET_CLOCK)
    await fc.assert(fc.asyncProperty(fc.array(step, { maxLength: 25 }), async steps => {
      const tenant = newTenant()
      const startMs = 1_800_000_000_000
      let nowMs = startMs
      let highestMs: number | undefined
      let [gainedMs, admitted] = [0, 0]
      const model = [3, 20]
      for (const { forwardMs, requests } of steps) {
        nowMs += forwardMs
        const gainMs = Math.max(nowMs - (highestMs ?? nowMs), 0)
        highestMs = Math.max(nowMs, highestMs ?? nowMs)
        gainedMs += gainMs
        model[0] = Math.min(3, model[0]! + gainMs * 3 / 1_000)
        model[1] = Math.min(20, model[1]! + gainMs * 20 / 60_000)
        await redis.set('clock', String(nowMs * 1_000))
        for (let sent = 0; sent < requests; sent++) {
          const { kind, levels } = await limiter.admit({ tenant, kind: 'post' })
          if (kind === 'admitted') {
            admitted += 1
            model[0] -= 1
            model[1] -= 1
          }
          expect(levels.map(({ tokens }) => tokens))
            .toEqual(model.map(tokens => expect.closeTo(tokens, 3)))
          expect(kind === 'admitted' || Math.min(...model) < 1.001).toBe(true)
        }
      }
      const seconds = gainedMs / 1_000
      expect(admitted).toBeLessThanOrEqual(Math.min(3 + 3 * seconds, 20 + seconds / 3) + 1)
    }), { numRuns: 60 })
  })

  it('set right by hours leaves nobody waiting for the old time', async () => {
    const limiter = createLimiter(redis, small, SET_CLOCK)
    const tenant = newTenant()
    const admit = async (nowMs: number) => {
      await redis.set('clock', String(nowMs * 1_000))
      return (await limiter.admit({ tenant, kind: 'post' })).kind
    }
    const wrongMs = 1_800_007_200_000
    const rightMs = 1_800_000_000_000
    expect([await admit(wrongMs), await admit(wrongMs), await admit(wrongMs)])
      .toEqual(['admitted', 'admitted', 'admitted'])
    expect([await admit(rightMs), await admit(rightMs + 100)]).toEqual(['throttled', 'throttled'])
    expect(await admit(rightMs + 340)).toBe('admitted')
  })
})

describe('the places of preflights', () => {
  const limiter = createLimiter(redis, limits)
  const request = (tenant: string, requestId: string, idempotencyKey = '') =>
    limiter.admit({ tenant, kind: 'post', preflight: { requestId, idempotencyKey } })
  const fill = (tenant: string) =>
    Promise.all(Array.from({ length: 10 }, (_, index) => request(tenant, `req_${index}`)))
  const KEY = '7f3d2c1b-0a9e-4d8c-b7a6-5f4e3d2c1b0a'

  it('are ten; the eleventh finds none until one is given back', async () => {
    const tenant = newTenant()
    const [first] = await fill(tenant)
    expect((await request(tenant, 'req_10')).kind).toBe('crowded')
    expect((await request(newTenant(), 'req_10')).kind).toBe('admitted')
    expect((await limiter.admit({ tenant, kind: 'post' })).kind).toBe('admitted')
    if (first?.kind === 'admitted') first.release()
    expect((await request(tenant, 'req_11')).kind).toBe('admitted')
    expect((await request(tenant, 'req_12')).kind).toBe('crowded')
  })

  it('are not taken by a throttled request', async () => {
    const tenant = newTenant()
    const slow = createLimiter(redis, { ...limits, post: [{ capacity: 1, seconds: 3_600 }] })
    const kinds = ['req_0', 'req_1', 'req_2'].map(async requestId => (await slow.admit({
      tenant, kind: 'post', preflight: { requestId, idempotencyKey: '' },
    })).kind)
    expect(await Promise.all(kinds)).toEqual(['admitted', 'throttled', 'throttled'])
    expect(await redis.zrange(`preflights:{${tenant}}`, '0', '-1')).toEqual([' req_0'])
  })

  it('are free again by themselves', async () => {
    const brief = createLimiter(redis, { ...limits, placeKeptMs: 1 })
    const tenant = newTenant()
    for (let index = 0; index < 30; index++) {
      const preflight = { requestId: `req_${index}`, idempotencyKey: '' }
      await brief.admit({ tenant, kind: 'post', preflight })
      await expect.poll(() => redis.exists(`preflights:{${tenant}}`), { interval: 1 }).toBe(0)
    }
  })

  it('are not needed for a key that is claimed, until its claim ends', async () => {
    const tenant = newTenant()
    const claim = { job: 'job_1', idempotencyKey: KEY, fingerprint: 'f', acceptWithinMs: 600_000 }
    await createJobStore(redis).claim(tenant, claim)
    await fill(tenant)
    expect((await request(tenant, 'req_10', KEY)).kind).toBe('admitted')
    await redis.hset(`idem:{${tenant}}:${KEY}`, 'acceptBy', '1')
    expect((await request(tenant, 'req_11', KEY)).kind).toBe('crowded')
    await redis.hset(`idem:{${tenant}}:${KEY}`, 'accepted', '1')
    expect((await request(tenant, 'req_12', KEY)).kind).toBe('admitted')
  })

  it('are shared by repetitions that come before the claim, and freed by the first', async () => {
    const tenant = newTenant()
    const [first, second] = await Promise.all([
      request(tenant, 'req_0', KEY), request(tenant, 'req_1', KEY),
    ])
    const places = () => redis.zrange(`preflights:{${tenant}}`, '0', '-1')
    expect(await places()).toEqual([`${KEY} req_0`])
    if (second?.kind === 'admitted') second.release()
    expect(await places()).toEqual([`${KEY} req_0`])
    if (first?.kind === 'admitted') first.release()
    expect(await places()).toEqual([])
  })

  it('are given back by a request whose answer from Redis was lost', async () => {
    const tenant = newTenant()
    const lossy = Object.create(redis) as typeof redis
    lossy.call = async (...sent: readonly unknown[]) => {
      await redis.call(...sent as Parameters<typeof redis.call>)
      throw new Error('Command timed out')
    }
    const preflight = { requestId: 'req_1', idempotencyKey: '' }
    await expect(createLimiter(lossy, limits).admit({ tenant, kind: 'post', preflight }))
      .rejects.toThrow('Command timed out')
    expect(await redis.zcard(`preflights:{${tenant}}`)).toBe(0)
  })
})
