import { describe, expect, it } from 'vitest'
import { createLoadShedding } from '../../../services/ingest/load-shedding.ts'
import type { Quoted, Submitted } from '../../../services/jobs/submit.ts'
import type { Submission } from '../../../services/jobs/send.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import type { Lane } from '../../../services/topology.ts'
import { jobOf } from './doubles.ts'

const SHED_LOAD_AFTER_MS = 1_000
const [TENANT, OTHER] = ['org_a.live', 'org_b.live']

const accepted: Submitted = { kind: 'accepted', job: jobOf(), replayed: false }
const expired: Submitted = { kind: 'refused', refusal: { code: 'expired' } }
const quoted: Quoted = { kind: 'quoted', preflight: jobOf().preflight, expiresAtMs: 0 }

const submissionOf = (tenant: string, rows: number) =>
  ({ tenant, inputs: new Array<string>(rows).fill('') }) as unknown as Submission

/** Load shedding with a clock of its own, and preflights that end on request of the test. */
function start () {
  const clock = { ms: 5_000 }
  const metrics = createMetrics()
  const admission = createLoadShedding({
    overloadedAfterMs: SHED_LOAD_AFTER_MS, metrics, now: () => clock.ms,
  })
  const begin = (rows = 1, tenant = TENANT) => {
    const { promise, resolve, reject } = Promise.withResolvers<Submitted>()
    const { submit } = admission.watch({ submit: () => promise, quote: async () => quoted })
    const answered = submit(submissionOf(tenant, rows))
    answered.catch(() => {})
    const end = async (outcome: Submitted | Error) => {
      if (outcome instanceof Error) reject(outcome)
      else resolve(outcome)
      await answered.catch(() => {})
    }
    return { answered, end }
  }
  const pass = (ms: number) => { clock.ms += ms }
  const refuses = (lane?: Lane, tenant = TENANT) => admission.rejects(tenant, lane)
  return { admission, refuses, metrics, begin, pass }
}

describe('load shedding', () => {
  it('admits all requests when idle or just started', () => {
    const { refuses, pass } = start()
    expect(refuses('small')).toBe(false)
    pass(1_000_000)
    expect([refuses('small'), refuses('bulk'), refuses()])
      .toEqual([false, false, false])
  })

  it('rejects requests of the lane whose oldest preflight is too old', () => {
    const { refuses, begin, pass } = start()
    begin()
    pass(600)
    begin()
    pass(399)
    expect(refuses('small')).toBe(false)
    pass(1)
    expect([refuses('small'), refuses('bulk'), refuses()])
      .toEqual([true, false, false])
    begin(1_001)
    pass(SHED_LOAD_AFTER_MS)
    expect([refuses('bulk'), refuses()]).toEqual([true, true])
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

  it('admits one request at a time as a probe', async () => {
    const { refuses, begin, pass } = start()
    const silent: (Submitted | Error)[] = [
      expired, { kind: 'refused', refusal: { code: 'internal' } }, new Error('Redis is away'),
      { kind: 'reused' }, { ...accepted, replayed: true },
    ]
    for (const outcome of silent) {
      const probe = begin()
      pass(SHED_LOAD_AFTER_MS)
      expect(refuses('small')).toBe(true)
      await probe.end(outcome)
      expect(refuses('small')).toBe(false)
      const next = begin()
      // It is no older than others, but still the only one.
      expect(refuses('small')).toBe(true)
      await next.end(outcome)
    }
    const good = begin()
    await good.end(accepted)
    begin()
    expect(refuses('small')).toBe(false)
  })

  it('detects an old preflight without requests in between', async () => {
    const { refuses, begin, pass } = start()
    const old = begin()
    pass(SHED_LOAD_AFTER_MS)
    await old.end(expired)
    begin()
    expect(refuses('small')).toBe(true)
  })

  it('counts a quote as a preflight', async () => {
    const { admission, refuses, begin, pass } = start()
    const old = begin()
    pass(SHED_LOAD_AFTER_MS)
    await old.end(expired)
    const { quote } = admission.watch({
      submit: () => new Promise(() => {}), quote: async () => quoted,
    })
    await quote(submissionOf(TENANT, 1))
    begin()
    expect(refuses('small')).toBe(false)
  })

  it('reports ages and lanes as metrics', async () => {
    const { metrics, begin, pass } = start()
    begin(1_001)
    pass(1_500)
    const text = await metrics.text()
    expect(text).toContain('preflight_oldest_age_seconds{lane="bulk"} 1.5')
    expect(text).toContain('preflight_oldest_age_seconds{lane="small"} 0')
    expect(text).toContain('preflight_overloaded{lane="bulk"} 1')
    expect(text).toContain('preflight_overloaded{lane="small"} 0')
  })
})
