import { randomUUID } from 'node:crypto'
import { afterAll, describe, expect, it } from 'vitest'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { eventually } from '../support/eventually.ts'
import { bindingOf } from '../support/jobs.ts'
import { createRichDemo } from '../support/organizations.ts'
import { startAll, type RunningServices } from '../support/stacks/services.ts'
import { stackEnv } from '../support/stacks/stack.ts'
import { ask, startEnvironment } from '../support/stacks/environment.ts'

const SHED_LOAD_AFTER_MS = 4_000
/** Longer than a test may take: no request here is given up. */
const ACCEPT_WITHIN_MS = 900_000
const BEHIND = 'preflight_overloaded{lane="bulk"} 1'
const OPEN = 'preflight_overloaded{lane="bulk"} 0'

const env = stackEnv()
const overrides = {
  SHED_LOAD_AFTER_MS: String(SHED_LOAD_AFTER_MS), ACCEPT_WITHIN_MS: String(ACCEPT_WITHIN_MS),
}
const environment = closeAfterAll(await startEnvironment({}, { apart: ['normalize'] }))
// No process serves the lane bulk of normalize any more.
await environment.services.setScale({ normalize: 0 })
const start = (stages: readonly string[], lanes = 'small,bulk') =>
  startAll({ env, stages, overrides: { ...overrides, LANES: lanes } })
const [one, two] = (await Promise.all([
  start(['ingest']), start(['ingest']), start(['normalize'], 'small'),
])).map(closeAfterAll) as [RunningServices, RunningServices]
const addresses = [one.baseUrl, two.baseUrl]
const metricsUrls = [one, two].map(services => services.list()[0]?.metricsUrl ?? '')
const { keys: { live: key }, orgId } = await createRichDemo(env)
const tenant = tenantOf(orgId, 'live')
let bulk: RunningServices | undefined
afterAll(() => bulk?.stop())
let waiting: readonly Promise<Answer>[]

type Answer = { readonly status: number, readonly retryAfter: number }

async function post (rows: number, { instance = 0, idempotencyKey = randomUUID() } = {}):
Promise<Answer> {
  const inputs = Array.from({ length: rows }, (_, row) => `+1212736${1_000 + row}`)
  const { status, headers } = await ask(`${addresses[instance]}/jobs`, {
    key,
    headers: { 'idempotency-key': idempotencyKey },
    body: { service: 'phone-validation', inputs },
  })
  return { status, retryAfter: Number(headers.get('retry-after')) }
}

async function metricsOf (instance: number): Promise<string> {
  return await (await fetch(metricsUrls[instance] ?? '')).text()
}

const untilTold = (instance: number, what: string) => eventually(async () =>
  expect(await metricsOf(instance)).toContain(what))

describe('a lane without a consumer', () => {
  it('refuses its requests on every instance, while the other lane is served', async () => {
    expect((await post(1)).status).toBe(202)
    // These wait for longer than any test takes.
    const ended: Answer[] = []
    const late = [0, 1].map(async instance => {
      const answer = await post(1_001, { instance })
      ended.push(answer)
      return answer
    })
    await Promise.all([0, 1].map(instance => untilTold(instance, BEHIND)))
    const idempotencyKey = randomUUID()
    for (const instance of [0, 1]) {
      const refused = await post(1_001, { instance, idempotencyKey })
      expect(refused).toEqual({ status: 503, retryAfter: 10 })
      expect((await post(1_000, { instance })).status).toBe(202)
      expect(await metricsOf(instance)).toContain('preflight_refusals_total{lane="bulk"} 1')
      expect(await metricsOf(instance)).toContain('preflight_overloaded{lane="small"} 0')
    }
    const state = openRedis(env.REDIS_STATE_URL ?? '')
    expect(await bindingOf(state, tenant, idempotencyKey)).toBeUndefined()
    state.disconnect()
    // All that came while those before them still waited.
    expect(ended).toEqual([])
    waiting = late
  })

  it('accepts jobs again when it has a consumer', async () => {
    bulk = await start(['normalize'], 'bulk')
    expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual([202, 202])
    await Promise.all([0, 1].map(instance => untilTold(instance, OPEN)))
    const all = await Promise.all([1, 2, 3].map(() => post(1_001)))
    expect(all.map(({ status }) => status)).toEqual([202, 202, 202])
  })
})
