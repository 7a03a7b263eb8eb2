import { describe, expect, it } from 'vitest'
import { LoadShedding } from '../../../services/ingest/limits/preflights.ts'
import { toIdempotencyField } from '../../../services/jobs/job-record.ts'
import type { Submission, SubmitOutcome } from '../../../services/jobs/submit.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import type { RedisClient } from '../../../services/runtime/platform/redis.ts'
import type { Lane } from '../../../services/topology.ts'
import { application as openApi, good, jobOf, quotedOf } from './doubles.ts'

const SHED_LOAD_AFTER_MS = 1_000
const [TENANT, OTHER] = ['org_01.live', 'org_02.live']
const KEY = '0d3c6fd0-3f5b-4a57-9a3c-0a7d8f5f9b11'

const accepted: SubmitOutcome = { kind: 'accepted', job: jobOf(), replayed: false }
const expired: SubmitOutcome = { kind: 'refused', refusal: { code: 'expired' } }

const submissionOf = (tenant: string, rows: number) =>
  ({ tenant, inputs: new Array<string>(rows).fill('') }) as unknown as Submission

/** Load shedding with a clock of its own, and preflights that end on request of the test. */
function start () {
  const clock = { ms: 5_000 }
  const metrics = createMetrics()
  const hexists = async (name: string, field: Buffer) =>
    name === 'idem:{org_01}.live:odd' && field.equals(toIdempotencyField(KEY)) ? 1 : 0
  const shedding = new LoadShedding({
    state: { hexists } as unknown as RedisClient,
    metrics,
    overloadedAfterMs: SHED_LOAD_AFTER_MS,
    now: () => clock.ms,
  })
  const begin = (rows = 1, tenant = TENANT) => {
    const { promise, resolve, reject } = Promise.withResolvers<SubmitOutcome>()
    const answered = shedding.watch(() => promise)(submissionOf(tenant, rows))
    answered.catch(() => {})
    const end = async (outcome: SubmitOutcome | Error) => {
      if (outcome instanceof Error) reject(outcome)
      else resolve(outcome)
      await answered.catch(() => {})
    }
    return { end }
  }
  const pass = (ms: number) => { clock.ms += ms }
  const refuses = (lane?: Lane, tenant = TENANT) => shedding.rejects(tenant, lane)
  return { shedding, refuses, metrics, begin, pass }
}

describe('load shedding', () => {
  it('rejects requests of the lane whose oldest preflight is too old, else none', () => {
    const { refuses, begin, pass } = start()
    const refused = () => [refuses('small'), refuses('bulk'), refuses()]
    pass(1_000_000)
    expect(refused()).toEqual([false, false, false])
    begin()
    pass(600)
    begin()
    pass(399)
    expect(refused()).toEqual([false, false, false])
    pass(1)
    expect(refused()).toEqual([true, false, false])
    begin(1_001)
    pass(SHED_LOAD_AFTER_MS)
    expect(refused()).toEqual([true, true, true])
  })

  it('rejects a tenant with an old preflight, others only without progress', async () => {
    const { refuses, begin, pass } = start()
    begin()
    const served = begin(1, OTHER)
    pass(SHED_LOAD_AFTER_MS / 2)
    await served.end(accepted)
    pass(SHED_LOAD_AFTER_MS / 2)
    expect([refuses('small'), refuses('small', OTHER)]).toEqual([true, false])
    pass(SHED_LOAD_AFTER_MS / 2)
    expect(refuses('small', OTHER)).toBe(true)
  })

  it('ends when a preflight is decided and no other waits for half the time', async () => {
    const { refuses, begin, pass } = start()
    const [first, second, third] = [begin(), begin(), begin()]
    pass(400)
    const young = begin()
    pass(700)
    await first.end(accepted)
    expect(refuses('small')).toBe(true)
    await second.end({ kind: 'refused', refusal: { code: 'concurrent_jobs_limit' } })
    expect(refuses('small')).toBe(true)
    await third.end(accepted)
    // The remaining one waits for 700 ms: below the limit, but above half of it.
    expect(refuses('small')).toBe(true)
    await young.end(accepted)
    expect(refuses('small')).toBe(false)
  })

  it('admits one request at a time as a probe, until one is decided', async () => {
    const { refuses, begin, pass } = start()
    const silent: (SubmitOutcome | Error)[] = [
      expired, { kind: 'refused', refusal: { code: 'internal' } }, new Error('Redis is away'),
      { kind: 'reused' }, { ...accepted, replayed: true },
    ]
    for (const outcome of silent) {
      const probe = begin()
      pass(SHED_LOAD_AFTER_MS)
      // It is detected without requests in between.
      await probe.end(outcome)
      expect(refuses('small')).toBe(false)
      const next = begin()
      // It is no older than others, but still the only one.
      expect(refuses('small')).toBe(true)
      await next.end(outcome)
    }
    await begin().end(accepted)
    begin()
    expect(refuses('small')).toBe(false)
  })

  it('counts a quote as a preflight', async () => {
    const { refuses, begin, pass } = start()
    const old = begin()
    pass(SHED_LOAD_AFTER_MS)
    await old.end(expired)
    await begin().end(quotedOf())
    begin()
    expect(refuses('small')).toBe(false)
  })
})

describe('a request while the stages before acceptance are overloaded', () => {
  const big = { ...good, inputs: new Array<string>(1_001).fill('+12127365000') }

  function application (...behind: readonly Lane[]) {
    const { shedding, metrics, begin, pass } = start()
    for (const lane of behind) begin(lane === 'small' ? 1 : 1_001)
    pass(SHED_LOAD_AFTER_MS)
    const { get, post, calls } = openApi({ loadShedding: shedding })
    return {
      get,
      post: (body: object | string, headers: Record<string, string> = {}, path = 'jobs') =>
        post(body, { headers, path }),
      metrics,
      calls,
    }
  }

  it('is rejected at once in the overloaded lane, and nothing is submitted', async () => {
    const { post, metrics, calls } = application('bulk')
    const refused = await post(big)
    expect([refused.statusCode, refused.headers['retry-after']]).toEqual([503, '10'])
    expect(refused.json().error).toMatchObject({
      type: 'unavailable',
      code: 'temporarily_unavailable',
      message: expect.stringContaining('more than 1,000 inputs'),
    })
    expect((await post(big, {}, 'quotes')).statusCode).toBe(503)
    expect(calls.submissions).toEqual([])
    expect((await post(good)).statusCode).toBe(202)
    expect((await post(good, {}, 'quotes')).statusCode).toBe(200)
    expect(await metrics.text()).toContain('preflight_refusals_total{lane="bulk"} 2')
  })

  it('is rejected before its body is read if both lanes are overloaded', async () => {
    const { post, metrics } = application('small', 'bulk')
    const refused = await post('no JSON at all')
    expect(refused.statusCode).toBe(503)
    expect(refused.json().error.message).not.toContain('1,000')
    expect(await metrics.text()).toContain('preflight_refusals_total{lane="any"} 1')
  })

  it('is admitted if it retries a claimed one, which a quote cannot be', async () => {
    const { post } = application('small', 'bulk')
    const statuses = [
      await post(good, { 'idempotency-key': KEY }),
      await post(good, { 'idempotency-key': KEY.replace('0d', '0e') }),
      await post(good, { 'idempotency-key': KEY }, 'quotes'),
    ].map(({ statusCode }) => statusCode)
    expect(statuses).toEqual([202, 503, 503])
  })
})
