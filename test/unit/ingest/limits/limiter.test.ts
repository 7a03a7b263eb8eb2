import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  createLimiter, type Admission, type LimitedRequest, type RateLimits, createLocalLimiter,
} from '../../../../services/ingest/limits/limiter.ts'
import { createMetrics } from '../../../../services/runtime/platform/metrics.ts'

const request = { org: 'org_1', kind: 'get' } as const
const bucket = { capacity: 3, seconds: 3_600 }
const limits: RateLimits = { post: [bucket], get: [bucket] }
const admitted = (tokens: number): Admission => ({ kind: 'admitted', levels: [{ bucket, tokens }] })
const throttled: Admission = { kind: 'throttled', levels: [{ bucket, tokens: 0.5 }] }
const down = () => Promise.reject(new Error('Connection is closed.'))
const silent = () => new Promise<never>(() => {})

beforeEach(() => { vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] }) })
afterEach(() => { vi.useRealTimers() })

/** A limiter, its clock, and the shared buckets' answers, which a test sets. */
function setUp (answer: () => Promise<Admission>) {
  const shared = { answer, calls: [] as LimitedRequest[] }
  const logged: string[] = []
  const metrics = createMetrics()
  const now = () => Date.now()
  const local = createLocalLimiter(() => limits, now)
  const limiter = createLimiter({
    shared: {
      admit: one => {
        shared.calls.push(one)
        return shared.answer()
      },
      refund: async () => { await shared.answer() },
      levels: async () => (await shared.answer()).levels,
    },
    local,
    log: { warn: (_fields: unknown, message?: string) => { logged.push(message ?? '') } },
    metrics,
    now,
  })
  const localOnly = async () =>
    Number(/^limits_local_total (\d+)$/m.exec(await metrics.text())?.[1] ?? 0)
  return { limiter, local, shared, logged, localOnly }
}

describe('the limiter while the shared buckets are available', () => {
  it('decides by the shared ones', async () => {
    const { limiter, shared, localOnly } = setUp(async () => admitted(0.25))
    expect(await limiter.admit(request)).toEqual(admitted(0.25))
    expect(await limiter.levels(request)).toEqual(admitted(0.25).levels)
    shared.answer = async () => throttled
    expect(await limiter.admit(request)).toEqual(throttled)
    expect(await localOnly()).toBe(0)
  })

  it('refunds the local buckets after a rejection by the shared ones', async () => {
    const { limiter, local } = setUp(async () => throttled)
    for (let times = 0; times < 10; times++) await limiter.admit(request)
    expect(local.admit(request)).toEqual(admitted(2))
  })

  it('refunds the local buckets too', async () => {
    const { limiter, local } = setUp(async () => admitted(1))
    await limiter.admit(request)
    await limiter.refund(request)
    expect(local.admit(request)).toEqual(admitted(2))
  })

  it('rejects a request if the local buckets are empty', async () => {
    const { limiter, shared } = setUp(async () => admitted(2))
    for (let times = 0; times < 3; times++) await limiter.admit(request)
    expect(await limiter.admit(request)).toEqual({
      kind: 'throttled', levels: [{ bucket, tokens: 0 }],
    })
    expect(shared.calls).toHaveLength(3)
  })
})

describe('the limiter while the shared buckets are unavailable', () => {
  it('decides by the local buckets, and counts these requests', async () => {
    const { limiter, shared, localOnly } = setUp(async () => admitted(1))
    await limiter.admit(request)
    shared.answer = down
    expect(await limiter.admit(request)).toEqual(admitted(1))
    expect(await limiter.admit(request)).toEqual(admitted(0))
    expect(await limiter.admit(request)).toMatchObject({ kind: 'throttled' })
    await limiter.refund(request)
    expect(await limiter.levels(request)).toEqual(admitted(1).levels)
    expect(await localOnly()).toBe(2)
  })

  it('waits 100 ms for them once, then not at all for a second', async () => {
    const { limiter, shared } = setUp(silent)
    const first = limiter.admit(request)
    await vi.advanceTimersByTimeAsync(100)
    expect((await first).kind).toBe('admitted')
    expect((await limiter.admit(request)).kind).toBe('admitted')
    expect(shared.calls).toHaveLength(1)
  })

  it('probes them with one request per second, and returns to them', async () => {
    const { limiter, shared } = setUp(down)
    await limiter.admit(request)
    shared.answer = silent
    await vi.advanceTimersByTimeAsync(1_000)
    const trying = limiter.admit(request)
    expect((await limiter.admit(request)).kind).toBe('admitted')
    expect(shared.calls).toHaveLength(2)
    await vi.advanceTimersByTimeAsync(100)
    expect((await trying).kind).toBe('admitted')
    shared.answer = async () => admitted(0.75)
    await vi.advanceTimersByTimeAsync(1_200_000)
    expect(await limiter.admit(request)).toEqual(admitted(0.75))
    expect(await limiter.admit({ ...request, org: 'org_2' })).toEqual(admitted(0.75))
  })

  it('logs the outage once a minute', async () => {
    const { limiter, logged } = setUp(down)
    const second = async () => {
      await limiter.admit(request)
      await vi.advanceTimersByTimeAsync(1_000)
    }
    for (let seconds = 0; seconds < 60; seconds++) await second()
    expect(logged).toEqual(['shared rate limits unavailable, using the limits of this instance'])
    // Its bucket is empty by now, so that another organization has to ask.
    await limiter.admit({ ...request, org: 'org_2' })
    expect(logged).toHaveLength(2)
  })
})
