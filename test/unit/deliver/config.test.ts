import type { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { deliverConfig, WAITS_MS } from '../../../services/deliver/config.ts'
import { deliveryDeps } from '../../../services/deliver/deps.ts'
import { loadConfig } from '../../../services/platform/config.ts'
import { endedJob } from '../../support/deliveries.ts'
import { MESSAGE_KEY_ENV, recordMacOf, storedJob } from '../../support/signed.ts'
import { createClickhouseDouble } from '../../support/stored.ts'

const env = {
  ...MESSAGE_KEY_ENV,
  KAFKA_BROKERS: 'localhost:9092',
  SCHEMA_REGISTRY_URL: 'http://localhost:8081',
  REDIS_STATE_URL: 'redis://localhost:6379',
  CLICKHOUSE_URL: 'http://localhost:8123',
  WEBHOOKS_ROOT_KEYS: `{"1":"${Buffer.alloc(32).toString('base64')}"}`,
  WEBHOOKS_ROOT_KEY_ACTIVE: '1',
}

describe('the configuration of deliver', () => {
  const config = loadConfig(deliverConfig, env)

  it('has the values of the public interface as defaults', () => {
    expect(config).toMatchObject({
      WEBHOOK_TIMEOUT_MS: 15_000, WEBHOOK_ALLOW_HTTP: false, WEBHOOK_ALLOW_LOOPBACK: false,
    })
    expect(config.WEBHOOK_WAITS_MS).toEqual(WAITS_MS)
    // A lease must be longer than its attempt.
    expect(config.WEBHOOK_LEASE_MS).toBeGreaterThanOrEqual(2 * config.WEBHOOK_TIMEOUT_MS)
  })

  it('accepts another retry schedule', () => {
    expect(loadConfig(deliverConfig, { ...env, WEBHOOK_WAITS_MS: '[10,20]' }).WEBHOOK_WAITS_MS)
      .toEqual([10, 20])
    expect(() => loadConfig(deliverConfig, { ...env, WEBHOOK_WAITS_MS: '[-1]' }))
      .toThrow('WEBHOOK_WAITS_MS')
  })

  it('finds a job in the archive after Redis has removed it', async () => {
    const job = endedJob({ closed: false })
    const deps = deliveryDeps(config, {
      state: { hmget: async () => [], call: async () => [] } as unknown as Redis,
      clickhouse: createClickhouseDouble([storedJob(job, [])]).clickhouse,
      recordMac: recordMacOf(),
      clock: { now: () => 0, stop: () => {} },
      keys: { get: async () => undefined } as never,
      log: {} as never,
      metrics: {} as never,
    })
    expect(await deps.findJob(job.tenant, job.id)).toEqual(endedJob())
  })
})
