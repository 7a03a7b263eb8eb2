import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { idempotencyKeyOf } from '../../services/jobs/redis-keys.ts'
import { connectRedis } from '../../services/lib/redis.ts'
import { createRichDemo } from '../support/rich-demo.ts'
import { startAll, type RunningServices } from '../support/services.ts'

const BEHIND_AFTER_MS = 1_500
const ACCEPT_WITHIN_MS = 8_000

const env = inject('stack')
const overrides = {
  BEHIND_AFTER_MS: String(BEHIND_AFTER_MS), ACCEPT_WITHIN_MS: String(ACCEPT_WITHIN_MS),
}
const running: RunningServices[] = []
const start = async (stages: readonly string[], lanes = 'small,bulk') => {
  const services = await startAll({ env, stages, overrides: { ...overrides, LANES: lanes } })
  running.push(services)
  return services
}

let key: string
let tenant: string
let addresses: readonly string[]
let metricsUrls: readonly string[]

beforeAll(async () => {
  // Nobody serves the lane bulk of normalize: its group does not even exist.
  const [two, one] = await Promise.all([
    start(['ingest', 'lookup', 'verify', 'settle', 'ledger']), start(['ingest']),
    start(['normalize'], 'small'),
  ])
  addresses = [two.baseUrl, one.baseUrl]
  metricsUrls = [two, one].map(services => services.list()[0]?.metricsUrl ?? '')
  const demo = await createRichDemo(env)
  key = demo.keys.live
  tenant = tenantOf(demo.orgId, 'live')
})
afterAll(async () => { await Promise.all(running.map(services => services.stop())) })

type Answer = { readonly status: number, readonly retryAfter: number, readonly ms: number }

async function post (rows: number, { instance = 0, idempotencyKey = randomUUID() } = {}):
Promise<Answer> {
  const inputs = Array.from({ length: rows }, (_, row) => `+1212736${1_000 + row}`)
  const sentAt = performance.now()
  const response = await fetch(`${addresses[instance]}/jobs`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      'idempotency-key': idempotencyKey,
    },
    body: JSON.stringify({ service: 'phone-validation', inputs }),
  })
  await response.text()
  const retryAfter = Number(response.headers.get('retry-after'))
  return { status: response.status, retryAfter, ms: performance.now() - sentAt }
}

async function metricsOf (instance: number): Promise<string> {
  return await (await fetch(metricsUrls[instance] ?? '')).text()
}

async function untilBehind (instance: number): Promise<void> {
  while (!(await metricsOf(instance)).includes('preflight_behind{lane="bulk"} 1')) await delay(100)
}

describe('while nobody works on one lane', () => {
  it('its requests are refused at once on every instance, the other lane is served', async () => {
    expect((await post(1)).status).toBe(202)
    const late = [0, 1].map(instance => post(1_001, { instance }))
    await Promise.all([untilBehind(0), untilBehind(1)])
    const idempotencyKey = randomUUID()
    for (const instance of [0, 1]) {
      const refused = await post(1_001, { instance, idempotencyKey })
      expect([refused.status, refused.retryAfter]).toEqual([503, 10])
      // Far from the time after which a request gives up waiting.
      expect(refused.ms).toBeLessThan(ACCEPT_WITHIN_MS / 2)
      expect((await post(1_000, { instance })).status).toBe(202)
      expect(await metricsOf(instance)).toContain('preflight_refusals_total{lane="bulk"} 1')
      expect(await metricsOf(instance)).toContain('preflight_behind{lane="small"} 0')
    }
    const state = connectRedis(env.REDIS_STATE_URL ?? '')
    expect(await state.exists(idempotencyKeyOf(tenant, idempotencyKey))).toBe(0)
    state.disconnect()
    for (const { status, ms } of await Promise.all(late)) {
      expect(status).toBe(503)
      expect(ms).toBeGreaterThanOrEqual(ACCEPT_WITHIN_MS - 100)
    }
  })

  it('it opens by itself when somebody does', async () => {
    // The lane stays closed although nothing waits any more: one at a time may find out.
    const probe = post(1_001)
    await delay(100)
    expect((await post(1_001)).status).toBe(503)
    await start(['normalize'], 'bulk')
    const found = await probe
    const answers = found.status === 202 ? [found] : [await post(1_001)]
    expect(answers.map(({ status }) => status)).toEqual([202])
    expect(await metricsOf(0)).toContain('preflight_behind{lane="bulk"} 0')
    const all = await Promise.all([1, 2, 3].map(() => post(1_001)))
    expect(all.map(({ status }) => status)).toEqual([202, 202, 202])
  })
})
