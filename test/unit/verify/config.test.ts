import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { ConfigError, loadConfig } from '../../../services/platform/config.ts'
import { createLog } from '../../../services/platform/log.ts'
import { createMetrics } from '../../../services/platform/metrics.ts'
import { verifyConfig } from '../../../services/verify/config.ts'
import { verifyDeps } from '../../../services/verify/main.ts'
import { MESSAGE_KEY_ENV } from '../../support/signed.ts'

const env = {
  ...MESSAGE_KEY_ENV,
  KAFKA_BROKERS: 'localhost:9092',
  SCHEMA_REGISTRY_URL: 'http://localhost:8081',
  REDIS_STATE_URL: 'redis://localhost:6379',
  REDIS_CACHE_URL: 'redis://localhost:6380',
  KEY_RING: JSON.stringify({ 1: Buffer.alloc(32).toString('base64') }),
  KEY_ACTIVE: '1',
}

function depsFor (more: Record<string, string>) {
  const redis = new Redis({ lazyConnect: true })
  return verifyDeps(loadConfig(verifyConfig, { ...env, ...more }), {
    state: redis,
    cache: redis,
    clock: { now: () => 0, stop: () => {} },
    log: createLog('test', { level: 'silent' }),
    metrics: createMetrics(),
  })
}

describe('the configuration of verify', () => {
  it('has the documented durations and limits as defaults', () => {
    expect(depsFor({ PROVIDERS: '{}' })).toMatchObject({
      leaseMs: 30_000,
      leasePollMs: 250,
      batch: 8,
      retryDelayMs: 60_000,
      retryForMs: 900_000,
    })
    expect(loadConfig(verifyConfig, env)).toMatchObject({
      PROVIDER_TIMEOUT_MS: 8_000, LANES: ['small', 'bulk'],
    })
    expect(depsFor({ PROVIDERS: '{}', RETRY_DELAY_MS: '5' }).retryDelayMs).toBe(5)
    const { concurrencyOf } = depsFor({
      PROVIDERS: '{}', VERIFY_CONCURRENCY_BY_SERVICE: '{"whatsapp":4}',
    })
    expect([concurrencyOf('whatsapp'), concurrencyOf('telegram')]).toEqual([4, 32])
  })

  it('refuses unknown providers', () => {
    const load = (providers: string) => () =>
      loadConfig(verifyConfig, { ...env, PROVIDERS: providers })
    expect(load('{"whatsapp":["sandbox"]}')).not.toThrow()
    expect(load('{"whatsapp":["acme"]}')).toThrow(ConfigError)
    expect(load('{"what":["sandbox"]}')).toThrow(ConfigError)
    expect(() => depsFor({ PROVIDERS: '{"whatsapp":["numbering-plan"]}' })).toThrow('PROVIDERS')
  })
})
