import { describe, expect, it } from 'vitest'
import type { Redis } from 'ioredis'
import {
  connectLoadShedding, type LoadSheddingRule,
} from '../../../services/ingest/load-shedding.ts'
import { idempotencyFieldOf } from '../../../services/jobs/redis-keys.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import type { Lane } from '../../../services/topology.ts'
import { createTestApp, doubles, good, settings } from './doubles.ts'

const KEY = '0d3c6fd0-3f5b-4a57-9a3c-0a7d8f5f9b11'
const big = { ...good, inputs: new Array<string>(1_001).fill('+12127365000') }

function application (behind: readonly Lane[], claimed: readonly string[] = []) {
  const metrics = createMetrics()
  const admission: LoadSheddingRule = {
    admission: {
      rejects: (tenant, lane) => tenant === 'org_01.live' &&
        (lane === undefined ? behind.length > 1 : behind.includes(lane)),
    },
    isClaimed: async (tenant, key) => claimed.includes(`${tenant} ${key}`),
    metrics,
  }
  const deps = { ...doubles(), admission }
  const app = createTestApp({ deps, settings })
  const post = (body: object | string, headers: Record<string, string> = {}, path = 'jobs') =>
    app.inject({
      method: 'POST',
      url: `/api/v1/${path}`,
      headers: { authorization: 'Bearer live', 'content-type': 'application/json', ...headers },
      payload: body,
    })
  return { app, post, metrics, calls: deps.calls }
}

describe('a request while the stages before acceptance are overloaded', () => {
  it('is rejected at once in the overloaded lane, and nothing is submitted', async () => {
    const { post, metrics, calls } = application(['bulk'])
    const refused = await post(big)
    expect(refused.statusCode).toBe(503)
    expect(refused.headers['retry-after']).toBe('10')
    expect(refused.json().error).toMatchObject({
      type: 'unavailable', code: 'temporarily_unavailable',
    })
    expect(refused.json().error.message).toContain('more than 1,000 inputs')
    expect((await post(big, {}, 'quotes')).statusCode).toBe(503)
    expect(calls.submissions).toEqual([])
    expect((await post(good)).statusCode).toBe(202)
    expect((await post(good, {}, 'quotes')).statusCode).toBe(200)
    expect(await metrics.text()).toContain('preflight_refusals_total{lane="bulk"} 2')
  })

  it('is rejected before its body is read if both lanes are overloaded', async () => {
    const { post, metrics } = application(['small', 'bulk'])
    const refused = await post('no JSON at all')
    expect(refused.statusCode).toBe(503)
    expect(refused.json().error.message).not.toContain('1,000')
    expect(await metrics.text()).toContain('preflight_refusals_total{lane="any"} 1')
  })

  it('is admitted if it retries a claimed one', async () => {
    const { post } = application(['small', 'bulk'], [`org_01.live ${KEY}`])
    expect((await post(good, { 'idempotency-key': KEY })).statusCode).toBe(202)
    expect((await post(good, { 'idempotency-key': KEY.replace('0d', '0e') })).statusCode).toBe(503)
    // A quote has no Idempotency-Key to claim.
    expect((await post(good, { 'idempotency-key': KEY }, 'quotes')).statusCode).toBe(503)
  })

  it('gets errors of its key, path or schema first', async () => {
    const { app, post } = application(['small', 'bulk'])
    expect((await post(good, { authorization: 'Bearer unknown' })).statusCode).toBe(401)
    expect((await post(good, {}, 'nothing')).statusCode).toBe(404)
    const read = await app.inject({
      url: '/api/v1/balance', headers: { authorization: 'Bearer live' },
    })
    expect(read.statusCode).toBe(200)
    expect((await application(['small']).post({ ...good, inputs: [] })).statusCode).toBe(400)
  })

  it('is admitted by an application without the rule', async () => {
    const app = createTestApp({ deps: doubles(), settings })
    const { statusCode } = await app.inject({
      method: 'POST',
      url: '/api/v1/jobs',
      headers: { authorization: 'Bearer live' },
      payload: good,
    })
    expect(statusCode).toBe(202)
  })
})

describe('a key', () => {
  it('is claimed while it is bound to a job', async () => {
    const state = {
      hexists: async (name: string, field: Buffer) =>
        name === 'idem:{t}.live:odd' && field.equals(idempotencyFieldOf(KEY)) ? 1 : 0,
    } as unknown as Redis
    const { rule } = connectLoadShedding(
      { state, metrics: createMetrics() }, { SHED_LOAD_AFTER_MS: 10 })
    const keys = [KEY, KEY.replace('0d', '0e')]
    expect(await Promise.all(keys.map(key => rule.isClaimed('t.live', key))))
      .toEqual([true, false])
  })
})
