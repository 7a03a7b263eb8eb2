import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { verifyWebhook } from '../../../services/client/verify-webhook.ts'
import { createHostRate, makeAttempt, type AttemptDeps } from '../../../services/deliver/attempt.ts'
import { deliverConfig } from '../../../services/deliver/config.ts'
import type { Answer } from '../../../services/deliver/sender.ts'
import type { DeliveryClaim, AttemptRecord } from '../../../services/webhooks/deliveries.ts'
import { deriveEventId } from '../../../services/webhooks/event.ts'
import { sealHeader } from '../../../services/jobs/message-codec.ts'
import type { WebhookEndpoint } from '../../../services/webhooks/endpoints.ts'
import type { Job } from '../../../services/jobs/job.ts'
import { loadConfig } from '../../../services/runtime/platform/config.ts'
import { InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import { MissingOrganizationKeyError } from '../../../services/runtime/crypto/key-ring.ts'
import { STAGE_ENVIRONMENT } from '../../support/stacks/stage-environment.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import { DELIVERED_JOB, DELIVERED_TENANT, endedJob } from '../../support/webhooks/deliveries.ts'
import { endpointOf } from '../../support/webhooks/endpoints.ts'
import { spansOf } from '../../support/tracing.ts'

const config = loadConfig(deliverConfig, STAGE_ENVIRONMENT)
const { WEBHOOK_WAITS_MS: WAITS_MS } = config
const key = randomBytes(32)
const owner = { tenant: DELIVERED_TENANT, job: DELIVERED_JOB }
const webhookUrl = 'https://a.example/hook'
const header = sealHeader(key, owner, { metadata: { a: '1' }, webhookUrl })
const event = deriveEventId(DELIVERED_JOB, 'job.completed')
const secrets = ['1', '2'].map(digit =>
  `whsec_${Buffer.alloc(32, digit).toString('base64')}`) as [string, string]
const signingKey = `whsk_${Buffer.alloc(32, 5).toString('base64')}`
const NOW_MS = Date.parse('2026-08-11T10:00:03.000Z')

const claimOf = (more: Partial<DeliveryClaim> = {}): DeliveryClaim =>
  ({
    ...owner,
    delivery: event,
    type: 'job.completed',
    attempt: 1,
    once: false,
    token: 't',
    ...more,
  })
const answered = (status: number, retryAfterMs?: number): Answer =>
  ({ kind: 'answered', status, retryAfterMs })

type Setup = { answer?: Answer, durationMs?: number } & Partial<AttemptDeps>

function scene ({ answer = answered(200), durationMs = 20, ...more }: Setup = {}) {
  const records: AttemptRecord[] = []
  const released: number[] = []
  const throttled: number[] = []
  const dropped: string[] = []
  const warned: unknown[] = []
  const metrics = createMetrics()
  const sent: { url: string, headers: Readonly<Record<string, string>>, body: string }[] = []
  const deps: AttemptDeps = {
    deliveries: {
      record: async (_claim, one) => { records.push(one); return true },
      release: async (_claim, afterMs) => { released.push(afterMs) },
      throttle: async (_claim, forMs) => { throttled.push(forMs) },
      drop: async claim => { dropped.push(claim.delivery) },
    },
    findJob: async () => endedJob({ header }),
    keys: { get: async () => key },
    secrets: { active: async () => secrets, show: async () => secrets[0] },
    signingKeys: { active: async () => [signingKey], show: async () => signingKey },
    endpoints: { current: async () => undefined },
    takeToken: () => 0,
    log: { warn: (fields: unknown) => { warned.push(fields) } },
    metrics,
    send: async (url, request) => {
      sent.push({ url, ...request })
      return { answer, durationMs }
    },
    clock: { now: () => NOW_MS },
    waitsMs: [1_000, 2_000],
    slowAfterMs: 1_000,
    random: () => 0.5,
    ...more,
  }
  return { deps, records, released, throttled, dropped, sent, warned, metrics }
}

async function outcome (setup: Setup, claim: Partial<DeliveryClaim> = {}) {
  const { deps, records } = scene(setup)
  await makeAttempt(deps, claimOf(claim))
  return records[0]!
}

describe('a webhook attempt', () => {
  type Row = [Answer, Partial<DeliveryClaim>, state: string, reason: string, nextMs?: number]
  it.each<Row>([
    [answered(200), {}, 'delivered', ''],
    [answered(500), {}, 'waiting', 'status', 1_000],
    [answered(500), { attempt: 2 }, 'waiting', 'status', 2_000],
    [answered(500), { attempt: 3 }, 'exhausted', 'status'],
    [answered(500), { once: true }, 'exhausted', 'status'],
    [answered(302), {}, 'waiting', 'redirect', 1_000],
    [answered(410), {}, 'gone', 'status'],
    [{ kind: 'failed', reason: 'blocked_address' }, {}, 'waiting', 'blocked_address', 1_000],
  ])('that ends with %j, claimed as %j, is %s', async (answer, claim, state, reason, nextMs) => {
    const nextAtMs = nextMs && NOW_MS + nextMs
    expect(await outcome({ answer }, claim)).toEqual({
      state,
      priority: 'quick',
      ...nextAtMs !== undefined && { dueAtMs: nextAtMs },
      attempt: {
        ...owner,
        event,
        attempt: claim.attempt ?? 1,
        type: 'job.completed',
        atMs: NOW_MS,
        outcome: state === 'waiting' ? 'failed' : state,
        reason,
        httpStatus: answer.kind === 'answered' ? answer.status : 0,
        durationMs: 20,
        nextAtMs,
      },
    })
  })

  it('that fails internally is recorded, so that it is not repeated in a tight loop', async () => {
    const fault = async () => { throw new TypeError('a fault') }
    const { deps, records, warned } = scene({ findJob: fault })
    await makeAttempt(deps, claimOf())
    expect(records).toMatchObject([{
      state: 'waiting', dueAtMs: NOW_MS + 1_000, attempt: { outcome: 'failed', reason: 'internal' },
    }])
    expect(warned).toHaveLength(1)
  })

  it.each([
    new InfrastructureError('no store'),
    new MissingOrganizationKeyError('no key', { wraps: 'rows', advice: 'wait' }),
  ])('that ends with %s is not recorded: its lease repeats it', async error => {
    const { deps, records } = scene({ findJob: async () => { throw error } })
    await expect(makeAttempt(deps, claimOf())).rejects.toBe(error)
    expect(records).toEqual([])
  })

  it('makes its receiver slow if it takes slowAfterMs', async () => {
    expect((await outcome({ durationMs: 999 })).priority).toBe('quick')
    expect((await outcome({ durationMs: 1_000 })).priority).toBe('slow')
  })

  it('waits until the job is closed', async () => {
    const findJob = async () => endedJob({ header, closed: false })
    const { deps, records, released, sent } = scene({ findJob })
    await makeAttempt(deps, claimOf())
    expect([records, released, sent]).toEqual([[], [200], []])
  })

  it.each<[string, Partial<AttemptDeps>]>([
    ['the job', { findJob: async () => undefined }],
    ['its key', { keys: { get: async () => undefined } }],
    ['its address', { findJob: async () => endedJob() }],
  ])('is discarded when %s is gone', async (_, more) => {
    const { deps, records, sent } = scene(more)
    await makeAttempt(deps, claimOf())
    expect(sent).toEqual([])
    expect(records[0]).toMatchObject({ state: 'discarded', attempt: { reason: 'erased' } })
  })

  it('creates the first secret of an organization that has none', async () => {
    let made = 0
    const active = async () => made === 0 ? [] : [secrets[0]]
    const show = async () => { made += 1; return secrets[0] }
    const { deps, sent } = scene({ secrets: { active, show } })
    await makeAttempt(deps, claimOf())
    expect(made).toBe(1)
    const { headers, body } = sent[0]!
    expect(headers).toMatchObject({ 'content-type': 'application/json', 'webhook-id': event })
    expect(verifyWebhook({ headers, body, secret: secrets[0], nowMs: NOW_MS }).ok).toBe(true)
  })
})

it('a webhook attempt is a span with its status and without the address', async () => {
  const { deps } = scene({ answer: answered(503) })
  const [span, ...others] = await spansOf(() => makeAttempt(deps, claimOf({ attempt: 3 })))
  expect([span?.name, others]).toEqual(['webhook attempt', []])
  expect(span?.attributes).toEqual({
    ...owner,
    event,
    attempt: 3,
    'http.request.method': 'POST',
    'http.response.status_code': 503,
    'error.type': '503',
  })
})

describe('an attempt to a webhook endpoint', () => {
  const endpoint = endpointOf({ secret: secrets[0] })
  const endpoints = (found?: WebhookEndpoint) => ({ current: async () => found })

  it('is discarded when the endpoint is deleted or disabled', async () => {
    for (const found of [undefined, endpointOf({ enabled: false })]) {
      const { deps, sent, records } = scene({ endpoints: endpoints(found) })
      await makeAttempt(deps, claimOf({ delivery: `${event}.${endpoint.id}` }))
      expect(sent).toEqual([])
      expect(records[0]).toMatchObject({
        state: 'discarded', attempt: { reason: 'endpoint_removed' },
      })
    }
  })

  describe('with progress', () => {
    const running = (finishedRows: number, more: Partial<Job> = {}) => endedJob({
      status: 'verifying',
      ended: false,
      closed: false,
      counts: { ...endedJob().counts, finishedRows },
      ...more,
    })
    const progressOf = (tenth: number) => claimOf({
      delivery: `${deriveEventId(DELIVERED_JOB, 'job.progress', tenth)}.${endpoint.id}`,
      type: 'job.progress',
    })
    const attempted = async (tenth: number, job: Job | undefined) => {
      const { deps, sent, dropped } = scene({
        endpoints: endpoints(endpoint), findJob: async () => job,
      })
      await makeAttempt(deps, progressOf(tenth))
      return [sent.length, dropped.length]
    }

    it('is sent while the job has made no more, closed or not', async () => {
      expect(await attempted(5, running(5))).toEqual([1, 0])
      expect(await attempted(6, running(5))).toEqual([1, 0])
    })

    it('is dropped once the job has made more, has ended or is gone', async () => {
      expect(await attempted(4, running(5))).toEqual([0, 1])
      expect(await attempted(5, running(5, { ended: true }))).toEqual([0, 1])
      expect(await attempted(9, endedJob())).toEqual([0, 1])
      expect(await attempted(5, undefined)).toEqual([0, 1])
    })
  })
})

describe('the webhook retry schedule', () => {
  const waitOf = async (attempt: number, answer: Answer, more: Setup = {}) => {
    const { dueAtMs } = await outcome({ answer, waitsMs: WAITS_MS, ...more }, { attempt })
    return dueAtMs === undefined ? undefined : dueAtMs - NOW_MS
  }

  it('has ten attempts in 75 h 35 min', async () => {
    expect(WAITS_MS.map(ms => ms / 1_000))
      .toEqual([5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400])
    expect(WAITS_MS.reduce((sum, ms) => sum + ms, 0)).toBe((75 * 60 + 35) * 60_000 + 5_000)
    const attempts = [...WAITS_MS.keys(), WAITS_MS.length].map(index => index + 1)
    expect(await Promise.all(attempts.map(attempt => waitOf(attempt, answered(500)))))
      .toEqual([...WAITS_MS, undefined])
  })

  it('varies each wait by at most 20 %, and grants up to twice the wait on request', async () => {
    const waits = [
      ...[0, 0.25, 1].map(random => waitOf(1, answered(500), { random: () => random })),
      ...[0, 7_000, 60_000].map(retryAfterMs => waitOf(1, answered(503, retryAfterMs))),
    ]
    expect(await Promise.all(waits)).toEqual([4_000, 4_500, 6_000, 5_000, 7_000, 10_000])
  })
})

it('a lease of an attempt lasts for twice its timeout, which is 15 s', () => {
  expect(config.WEBHOOK_TIMEOUT_MS).toBe(15_000)
  expect(config.WEBHOOK_LEASE_MS).toBeGreaterThanOrEqual(30_000)
})

describe('the metrics of webhook attempts', () => {
  const textAfter = async (setup: Setup) => {
    const { deps, metrics } = scene(setup)
    await makeAttempt(deps, claimOf())
    return await metrics.text()
  }

  it('count by outcome and reason, and have durations', async () => {
    const delivered = await textAfter({ durationMs: 500 })
    expect(delivered).toContain('webhook_attempts_total{outcome="delivered",reason=""} 1')
    expect(delivered).toContain('webhook_attempt_seconds_sum{outcome="delivered"} 0.5')
    const failed = await textAfter({ answer: { kind: 'failed', reason: 'timeout' } })
    expect(failed).toContain('webhook_attempts_total{outcome="failed",reason="timeout"} 1')
    expect(failed).toContain('webhook_attempt_seconds_count{outcome="failed"} 1')
  })

  it('have no duration for attempts that were not sent', async () => {
    const erased = await textAfter({ keys: { get: async () => undefined } })
    expect(erased).toContain('webhook_attempts_total{outcome="discarded",reason="erased"} 1')
    expect(erased).not.toContain('webhook_attempt_seconds_count')
    const internal = await textAfter({ findJob: async () => { throw new TypeError('a fault') } })
    expect(internal).toContain('webhook_attempts_total{outcome="failed",reason="internal"} 1')
    expect(internal).not.toContain('webhook_attempt_seconds_count')
  })

  it('count attempts that are throttled', async () => {
    const text = await textAfter({ takeToken: () => 20 })
    expect(text).toContain('webhook_attempts_throttled_total 1')
    expect(text).not.toContain('webhook_attempts_total{')
  })
})

function hostRate (perSecond: number) {
  const clock = { ms: 5_000 }
  const take = createHostRate(perSecond, () => clock.ms)
  const takeAll = (count: number, from = webhookUrl) =>
    Array.from({ length: count }, () => take(from))
  return { clock, take, takeAll }
}

describe('the rate of a webhook host', () => {
  it('lets refused attempts return one after the other', () => {
    const { clock, take, takeAll } = hostRate(10)
    takeAll(10)
    const waits = takeAll(30)
    expect(waits).toEqual(waits.map((_, index) => 100 * (index + 1)))
    const startMs = clock.ms
    const again = waits.map(waitMs => {
      clock.ms = startMs + waitMs
      return take(webhookUrl)
    })
    expect(again).toEqual(waits.map(() => 0))
  })

  it('is separate for each name and port, whatever the path', () => {
    const { takeAll } = hostRate(1)
    expect(takeAll(1)).toEqual([0])
    const others = [
      'https://A.example:443/other?x=1', 'https://b.example/hook', 'https://a.example:8443/hook',
    ]
    expect(others.map(other => takeAll(1, other)[0])).toEqual([1_000, 0, 0])
  })
})
