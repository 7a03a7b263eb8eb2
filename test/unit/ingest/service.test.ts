import { EventEmitter } from 'node:events'
import type { ClickHouseClient } from '@clickhouse/client'
import { expect, it } from 'vitest'
import { freePort } from '../../../deploy/local/ports.ts'
import { createApiKeys } from '../../../services/accounts/api-keys.ts'
import { ingestConfig } from '../../../services/ingest/config.ts'
import { isRecoverable } from '../../../services/ingest/serve.ts'
import { startIngest } from '../../../services/ingest/service.ts'
import { loadConfig } from '../../../services/runtime/platform/config.ts'
import { FatalError, InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import { createLog } from '../../../services/runtime/platform/log.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import { memoryRedis } from '../accounts/memory-redis.ts'
import { JOB_ID, NOW_MS } from './doubles.ts'
import { STAGE_ENVIRONMENT } from '../../support/stacks/stage-environment.ts'
import { rowsAnswer } from '../../support/clickhouse/stored.ts'

const { redis } = memoryRedis()
const subscriber = Object.assign(new EventEmitter(), {
  subscribe: async () => {}, disconnect: () => {},
})
const state = Object.assign(redis, {
  status: 'ready' as string,
  duplicate: () => subscriber,
  hgetallBuffer: async () => ({}),
})
/** Answers the script of the limits. */
const cache = { call: async () => ['admitted', '199'] }
const clickhouse = {
  query: async () => rowsAnswer([]),
} as unknown as ClickHouseClient

const clock = { now: () => NOW_MS }

const bus = { producer: () => ({}), watchPartitions: () => () => 4 }

const connect = (async () =>
  ({ bus, codec: {}, state, cache, clickhouse, clock })
) as unknown as Parameters<typeof startIngest>[2]

it('the API listens, finds keys and jobs, reports readiness, and stops', async () => {
  const port = await freePort()
  const settings = loadConfig(ingestConfig, {
    ...STAGE_ENVIRONMENT,
    CACHE_SECRET_ACTIVE: '1',
    PORT_HTTP: String(port),
  })
  const closers: (() => unknown)[] = []
  const running = await startIngest(settings, {
    name: 'ingest',
    log: createLog('ingest', { level: 'silent' }),
    metrics: createMetrics(),
    fatal: () => {},
    onStop: close => { closers.push(close) },
  }, connect)
  const { secret } = await createApiKeys(redis)
    .create({ orgId: 'org_1', mode: 'live', scopes: ['jobs:read'] })
  const ask = async (path: string, key = '') => {
    const headers = { authorization: `Bearer ${key}`, connection: 'close' }
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { headers })
    const { error } = await answer.json() as { readonly error?: { readonly code: string } }
    return [answer.status, error?.code]
  }
  expect(await ask(`/api/v1/jobs/${JOB_ID}`, 'nonsense')).toEqual([401, 'invalid_key'])
  expect(await ask(`/api/v1/jobs/${JOB_ID}`, secret)).toEqual([404, 'job_not_found'])
  expect(running.ready()).toBe(true)
  state.status = 'reconnecting'
  expect(running.ready()).toBe(false)
  for (const close of closers.toReversed()) await close()
  await expect(ask('/')).rejects.toThrow('fetch failed')
})

it('a missing key of the ring is answered like an outage', () => {
  expect(isRecoverable(new FatalError('lacks'))).toBe(true)
  expect(isRecoverable(new InfrastructureError('away'))).toBe(true)
  expect(isRecoverable(new Error('other'))).toBe(false)
})
