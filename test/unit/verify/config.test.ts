import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { ConfigError, loadConfig } from '../../../services/runtime/platform/config.ts'
import { createLog } from '../../../services/runtime/platform/log.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import { verifyConfig } from '../../../services/verify/config.ts'
import { verifyDeps } from '../../../services/verify/main.ts'
import { STAGE_ENVIRONMENT } from '../../support/stacks/stage-environment.ts'

function depsFor (more: Record<string, string>) {
  const redis = new Redis({ lazyConnect: true })
  return verifyDeps(loadConfig(verifyConfig, { ...STAGE_ENVIRONMENT, ...more }), {
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
    expect(loadConfig(verifyConfig, STAGE_ENVIRONMENT)).toMatchObject({
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
      loadConfig(verifyConfig, { ...STAGE_ENVIRONMENT, PROVIDERS: providers })
    expect(load('{"whatsapp":["sandbox"]}')).not.toThrow()
    expect(load('{"whatsapp":["acme"]}')).toThrow(ConfigError)
    expect(load('{"what":["sandbox"]}')).toThrow(ConfigError)
    expect(() => depsFor({ PROVIDERS: '{"whatsapp":["numbering-plan"]}' })).toThrow('PROVIDERS')
  })
})
