import { describe, expect, it } from 'vitest'
import { ingestConfig, settingsOf } from '../../../services/ingest/config.ts'
import { loadConfig } from '../../../services/runtime/platform/config.ts'
import { STAGE_ENVIRONMENT } from '../../support/stacks/stage-environment.ts'

const least = { ...STAGE_ENVIRONMENT, CACHE_SECRET_ACTIVE: '1' }

describe('the configuration of ingest', () => {
  it('has the values of the public interface as defaults', () => {
    const config = loadConfig(ingestConfig, least)
    expect(config).toMatchObject({ HOST: '127.0.0.1', ACCEPT_WITHIN_MS: 25_000 })
    const settings = settingsOf(config)
    expect([...settings.checks.keys()].sort()).toEqual([
      'carrier-lookup', 'carrier-single', 'email-validation', 'phone-validation',
    ])
    expect(settings).toMatchObject({
      webhooks: { allowHttp: false, allowLoopback: false, ports: [] },
      trustedProxies: [],
      bodyBudgetBytes: 41_943_040,
      bodyThroughput: { graceMs: 5_000, bytesPerSecond: 16_384, completeWithinMs: 60_000 },
      retentionMs: 7_776_000_000,
    })
  })
})
