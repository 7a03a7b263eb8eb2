import { afterEach, describe, expect, it } from 'vitest'
import { Workers, type WorkersDeps } from '../../services/deliver/workers.ts'
import {
  type Attempt, type AttemptRecord, createDeliveries, type DeliveryClaim, type WebhookDelivery,
} from '../../services/webhooks/deliveries.ts'
import { deriveEventId } from '../../services/webhooks/event.ts'
import { eventually } from '../support/eventually.ts'
import { startRedis } from '../support/redis/redis.ts'

const { redis, connect } = await startRedis()
const deliveries = createDeliveries(redis)
/** Another process that delivers. */
const others = createDeliveries(connect())
afterEach(async () => { await redis.flushall() })

const DAY_MS = 86_400_000
const SOME_MINUTES_MS = 600_000
const deliveryOf = (job: string, host = 'a.example'): WebhookDelivery =>
  ({
    tenant: 'org_1.live',
    job,
    type: 'job.completed',
    to: { webhookUrl: `https://${host}/hook?t=1` },
  })
const eventOf = (job: string) => deriveEventId(job, 'job.completed')

const ask = { priority: 'quick' as const, limit: 100, leaseMs: 60_000, tenantSlots: 2_000 }
const jobsOf = (claims: readonly DeliveryClaim[]) => claims.map(({ job }) => job)
const claimJobs = async (more: Partial<typeof ask> = {}) =>
  jobsOf(await deliveries.claim({ ...ask, ...more }))

function noteOf (claim: DeliveryClaim, more: Partial<AttemptRecord> = {}): AttemptRecord {
  const { delivery, job, attempt } = claim
  const done = { event: delivery, job, attempt } as Attempt
  return { state: 'delivered', priority: 'quick', attempt: done, ...more }
}
const record = (claim: DeliveryClaim, more: Partial<AttemptRecord> = {}) =>
  deliveries.record(claim, noteOf(claim, more))

/** Claims until so many are due at once. */
const claimLater = (count: number, more: Partial<typeof ask> = {}) => eventually(async () => {
  const claims = await others.claim({ ...ask, ...more })
  expect(claims).toHaveLength(count)
  return claims
})

async function redisMs (): Promise<number> {
  const [seconds, micros] = await redis.time()
  return Number(seconds) * 1_000 + Number(micros) / 1_000
}

/** Claims one and records its outcome. */
async function noteNext (more: Partial<AttemptRecord> = {}): Promise<DeliveryClaim> {
  const [claim] = await deliveries.claim({ ...ask, limit: 1 })
  if (claim === undefined) throw new Error('nothing is due')
  expect(await record(claim, more)).toBe(true)
  return claim
}

describe('a delivery', () => {
  it('counts as due until its attempt starts, and again when it waits for its time', async () => {
    const dueAt = async (afterMs = 0) => await deliveries.dueBy(Date.now() + afterMs + 1_000)
    await deliveries.put(deliveryOf('job_1'))
    await deliveries.put(deliveryOf('job_2', 'b.example'))
    expect(await dueAt()).toBe(2)
    expect(await deliveries.dueBy(Date.now() - DAY_MS)).toBe(0)
    await noteNext({ state: 'waiting', dueAtMs: Date.now() + DAY_MS })
    expect([await dueAt(), await dueAt(2 * DAY_MS)]).toEqual([1, 2])
    await noteNext()
    expect([await dueAt(), await dueAt(2 * DAY_MS)]).toEqual([0, 1])
  })

  it('is stored once, however often its event comes, and again later', async () => {
    expect(await deliveries.put(deliveryOf('job_1'))).toBe(true)
    expect(await deliveries.put(deliveryOf('job_1'))).toBe(false)
    await noteNext()
    expect(await deliveries.put(deliveryOf('job_1'))).toBe(false)
    expect(await claimJobs()).toEqual([])
    const leftMs = await redis.pttl(`delivery:{deliveries}:${eventOf('job_1')}`)
    expect(leftMs).toBeLessThanOrEqual(15 * DAY_MS)
    expect(leftMs).toBeGreaterThan(15 * DAY_MS - SOME_MINUTES_MS)
  })

  it('is another one for another type, step or destination of its event', async () => {
    const delivery = deliveryOf('job_1')
    const progress = { ...delivery, type: 'job.progress' } as const
    for (const other of [
      delivery,
      { ...delivery, to: { endpoint: 'we_1' } },
      { ...delivery, to: { endpoint: 'we_2' } },
      progress,
      { ...progress, tenth: 5 },
    ]) expect(await deliveries.put(other)).toBe(true)
  })

  it('is claimed by one, with the number of its attempt', async () => {
    await deliveries.put(deliveryOf('job_1'))
    const both = await Promise.all([deliveries.claim(ask), others.claim(ask)])
    expect(both.flat()).toEqual([{
      delivery: eventOf('job_1'),
      tenant: 'org_1.live',
      job: 'job_1',
      type: 'job.completed',
      attempt: 1,
      once: false,
      token: expect.any(String),
    }])
    expect(await deliveries.find(eventOf('job_1'))).toMatchObject({ state: 'trying', attempts: 0 })
  })

  it('is due again at its time, not before', async () => {
    await deliveries.put(deliveryOf('job_1'))
    const tomorrowMs = Date.now() + DAY_MS
    await noteNext({ state: 'waiting', dueAtMs: tomorrowMs })
    expect(await claimJobs()).toEqual([])
    expect(await deliveries.find(eventOf('job_1')))
      .toEqual({ state: 'waiting', attempts: 1, dueAtMs: tomorrowMs })
    await deliveries.put(deliveryOf('job_2', 'b.example'))
    const dueAtMs = Date.now() + 100
    await noteNext({ state: 'waiting', dueAtMs })
    expect(await claimLater(1)).toMatchObject([{ job: 'job_2', attempt: 2 }])
    expect(await redisMs()).toBeGreaterThanOrEqual(dueAtMs)
  })

  it('returns when its lease ends, and the owner that lost it records nothing', async () => {
    await deliveries.put(deliveryOf('job_1'))
    await deliveries.claim({ ...ask, leaseMs: DAY_MS })
    expect(await claimJobs()).toEqual([])
    await deliveries.put(deliveryOf('job_2', 'b.example'))
    const [lost] = await deliveries.claim({ ...ask, leaseMs: 1 })
    const [mine] = await claimLater(1)
    expect(mine).toMatchObject({ job: 'job_2', attempt: 1 })
    expect(await record(lost!)).toBe(false)
    expect((await deliveries.unshipped(10)).size).toBe(0)
    expect(await record(mine!)).toBe(true)
    expect(await deliveries.find(eventOf('job_2')))
      .toEqual({ state: 'delivered', attempts: 1, dueAtMs: undefined })
  })

  it('that is released counts no attempt', async () => {
    await deliveries.put(deliveryOf('job_1'))
    const [claim] = await deliveries.claim(ask)
    await deliveries.release(claim!, DAY_MS)
    expect(await claimJobs()).toEqual([])
    await deliveries.put(deliveryOf('job_2', 'b.example'))
    const [other] = await deliveries.claim(ask)
    await deliveries.release(other!, 1)
    expect(await claimLater(1)).toMatchObject([{ job: 'job_2', attempt: 1 }])
  })

  it('leaves its attempts to the history until they are shipped', async () => {
    await deliveries.put(deliveryOf('job_1'))
    const dueAtMs = Date.now() - 1
    await noteNext({ state: 'waiting', dueAtMs })
    await noteNext()
    const noted = await deliveries.unshipped(10)
    const names = [1, 2].map(attempt => `${eventOf('job_1')}:${attempt}`)
    expect([...noted.keys()].sort()).toEqual(names)
    expect(noted.get(names[1]!)).toMatchObject({ job: 'job_1', attempt: 2 })
    expect((await deliveries.unshipped(1)).size).toBe(1)
    await deliveries.forget([names[0]!])
    expect([...(await deliveries.unshipped(10)).keys()]).toEqual([names[1]])
    await deliveries.forget([])
  })

  it('stores neither its address nor its body in Redis', async () => {
    await deliveries.put(deliveryOf('job_1', 'hidden.example'))
    await noteNext({ state: 'waiting', dueAtMs: Date.now() })
    const keys = await redis.keys('*')
    expect(keys.length).toBeGreaterThan(2)
    const dumps = await Promise.all(keys.map(key => redis.dumpBuffer(key)))
    expect([...keys, ...dumps].map(String).filter(text => text.includes('hidden'))).toEqual([])
  })
})

describe('a resend', () => {
  it('of an ended delivery is one more attempt, at once', async () => {
    await deliveries.put(deliveryOf('job_1'))
    await noteNext()
    expect(await deliveries.resend(deliveryOf('job_1'), 1)).toBe('queued')
    expect(await noteNext({ state: 'exhausted' })).toMatchObject({ attempt: 2, once: true })
    const leftMs = await redis.pttl(`delivery:{deliveries}:${eventOf('job_1')}`)
    expect(leftMs).toBeGreaterThan(14 * DAY_MS)
  })

  it('of a waiting delivery only moves it forward', async () => {
    await deliveries.put(deliveryOf('job_1'))
    await noteNext({ state: 'waiting', dueAtMs: Date.now() + DAY_MS })
    expect(await deliveries.resend(deliveryOf('job_1'), 1)).toBe('queued')
    expect(await noteNext()).toMatchObject({ attempt: 2, once: false })
    expect(await claimJobs()).toEqual([])
  })

  it('of a delivery under way is that attempt', async () => {
    await deliveries.put(deliveryOf('job_1'))
    const [claim] = await deliveries.claim(ask)
    expect(await deliveries.resend(deliveryOf('job_1'), 0)).toBe('trying')
    expect(await record(claim!)).toBe(true)
    expect(await claimJobs()).toEqual([])
  })

  it('of a forgotten delivery continues after the history', async () => {
    expect(await deliveries.find(eventOf('job_1'))).toBeUndefined()
    expect(await deliveries.resend(deliveryOf('job_1'), 10)).toBe('queued')
    expect(await noteNext()).toMatchObject({ attempt: 11, once: true })
  })
})

describe('receivers', () => {
  it('have one attempt at once until they were quick, then five', async () => {
    for (let job = 0; job < 8; job++) await deliveries.put(deliveryOf(`job_${job}`))
    const [first, ...none] = await deliveries.claim(ask)
    expect(none).toEqual([])
    await record(first!)
    expect(await claimJobs()).toHaveLength(5)
    expect(await claimJobs()).toEqual([])
  })

  it('that are slow are served separately, until a quick attempt', async () => {
    await deliveries.put(deliveryOf('job_1'))
    await deliveries.put(deliveryOf('job_2'))
    const first = await noteNext({ priority: 'slow' })
    expect(await claimJobs()).toEqual([])
    const [slow] = await deliveries.claim({ ...ask, priority: 'slow' })
    expect([first.job, slow?.job].sort()).toEqual(['job_1', 'job_2'])
    await deliveries.put(deliveryOf('job_3'))
    expect(await deliveries.claim({ ...ask, priority: 'slow' })).toEqual([])
    await record(slow!)
    expect(await claimJobs()).toEqual(['job_3'])
  })

  it('are separate by tenant and host', async () => {
    await deliveries.put(deliveryOf('job_1'))
    await deliveries.put(deliveryOf('job_2', 'b.example'))
    await deliveries.put({ ...deliveryOf('job_3'), tenant: 'org_2.live' })
    expect((await claimJobs()).sort()).toEqual(['job_1', 'job_2', 'job_3'])
    await deliveries.put(deliveryOf('job_4'))
    expect(await claimJobs()).toEqual([])
  })

  it('are served by longest wait, and none waits for the rest of another', async () => {
    for (let job = 0; job < 300; job++) await deliveries.put(deliveryOf(`job_${job}`))
    await deliveries.put(deliveryOf('job_other', 'b.example'))
    const [first, second] = await claimJobs({ limit: 2 })
    expect([first === 'job_other', second]).toEqual([false, 'job_other'])
  })

  it('that are throttled wait, and delay no other', async () => {
    await deliveries.put(deliveryOf('job_1'))
    const [claim] = await deliveries.claim(ask)
    await deliveries.throttle(claim!, DAY_MS)
    await deliveries.put(deliveryOf('job_2'))
    await deliveries.put(deliveryOf('job_other', 'b.example'))
    expect(await claimJobs()).toEqual(['job_other'])
    expect(await deliveries.find(eventOf('job_1'))).toMatchObject({ state: 'waiting', attempts: 0 })
  })

  it('that are throttled return at their time, with their queue in its order', async () => {
    await deliveries.put(deliveryOf('job_1'))
    const { dueAtMs } = (await deliveries.find(eventOf('job_1')))!
    await eventually(async () => expect(await redisMs()).toBeGreaterThan(dueAtMs! + 1))
    await deliveries.put(deliveryOf('job_2'))
    const [claim] = await deliveries.claim(ask)
    const untilMs = Math.floor(await redisMs()) + 100
    await deliveries.throttle(claim!, 100)
    expect(await claimLater(1)).toMatchObject([{ job: 'job_1', attempt: 1 }])
    expect(await redisMs()).toBeGreaterThanOrEqual(untilMs)
  })

  it('are not throttled by a process that lost its lease', async () => {
    await deliveries.put(deliveryOf('job_1'))
    const [lost] = await deliveries.claim({ ...ask, leaseMs: 1 })
    const [claim] = await claimLater(1)
    await deliveries.throttle(lost!, DAY_MS)
    await record(claim!)
    await deliveries.put(deliveryOf('job_2'))
    expect(await claimJobs()).toEqual(['job_2'])
  })

  it('that hang, a thousand of them, delay no healthy one', async () => {
    for (let job = 0; job < 2_000; job++) {
      await deliveries.put(deliveryOf(`job_${job}`, `${job % 1_000}.example`))
    }
    await deliveries.put(deliveryOf('job_healthy', 'healthy.example'))
    const end = Promise.withResolvers<void>()
    const healthy = Promise.withResolvers<void>()
    let under = 0
    const workers = new Workers({
      deliveries: {
        ...deliveries,
        record: async (...args: Parameters<typeof deliveries.record>) => {
          healthy.resolve()
          return await deliveries.record(...args)
        },
      },
      findJob: async (_tenant: string, job: string) => {
        under += 1
        if (job !== 'job_healthy') await end.promise
        return undefined
      },
      keys: { get: async () => undefined },
      history: { append: async () => {} },
      log: { warn: () => {} },
      metrics: { count: () => {}, observe: () => {}, watch: () => {} },
      clock: { now: Date.now },
      slots: { quick: 250, slow: 3_000 },
      tenantSlots: 2_000,
      leaseMs: SOME_MINUTES_MS,
      pollMs: 20,
      slowAfterMs: 100,
    } as unknown as WorkersDeps)
    // All others still hang then, four times the number of quick slots.
    await healthy.promise
    expect(under).toBe(1_001)
    end.resolve()
    await workers.stop()
  })
})

describe('tenants', () => {
  const ofTenant = (tenant: string, index: number): WebhookDelivery =>
    ({ ...deliveryOf(`job_${tenant}_${index}`, `${index}.example`), tenant })
  const tenantsOf = (claims: readonly DeliveryClaim[]) => claims.map(({ tenant }) => tenant)
  const putSome = async (tenant: string, count: number) => {
    for (let index = 0; index < count; index++) await deliveries.put(ofTenant(tenant, index))
  }

  it('with thousands of receivers leave the next slot to the tenant with the fewest', async () => {
    await putSome('loud', 60)
    await putSome('quiet', 3)
    const claims = await deliveries.claim({ ...ask, limit: 10 })
    expect(tenantsOf(claims)).toEqual([
      'loud', 'quiet', 'loud', 'quiet', 'loud', 'quiet', 'loud', 'loud', 'loud', 'loud',
    ])
    await putSome('late', 1)
    expect(tenantsOf(await deliveries.claim({ ...ask, limit: 2 }))).toEqual(['late', 'loud'])
  })

  it('have a maximum of concurrent attempts, and more as they end', async () => {
    await putSome('loud', 10)
    await putSome('quiet', 1)
    const claims = await deliveries.claim({ ...ask, tenantSlots: 4 })
    expect(tenantsOf(claims).sort()).toEqual(['loud', 'loud', 'loud', 'loud', 'quiet'])
    expect(await others.claim({ ...ask, tenantSlots: 4 })).toEqual([])
    const mine = claims.filter(({ tenant }) => tenant === 'loud')
    await record(mine[0]!)
    await deliveries.release(mine[1]!, 60_000)
    expect(tenantsOf(await deliveries.claim({ ...ask, tenantSlots: 4 }))).toEqual(['loud', 'loud'])
    const counts = await redis.keys('under:*')
    expect(counts.sort()).toEqual(['under:{deliveries}:loud', 'under:{deliveries}:quiet'])
  })

  it('are counted right after a process died', async () => {
    await putSome('loud', 2)
    await deliveries.claim({ ...ask, leaseMs: 1, tenantSlots: 2 })
    const again = await claimLater(2, { tenantSlots: 2 })
    expect(tenantsOf(again)).toEqual(['loud', 'loud'])
    for (const claim of again) await record(claim)
    expect(await redis.keys('under:*')).toEqual([])
  })
})
