import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../../services/platform/config.ts'
import { createLog } from '../../../services/platform/log.ts'
import { createMetrics } from '../../../services/platform/metrics.ts'
import { lookupConfig } from '../../../services/lookup/config.ts'
import { lookupDeps } from '../../../services/lookup/deps.ts'
import { STAGE_ENVIRONMENT } from '../../support/stage-environment.ts'

function partsFor (more: Record<string, string>, stored: Record<string, string> = {}) {
  const redis = new Redis({ lazyConnect: true })
  redis.hmget = (async (_key: string, ...names: readonly string[]) =>
    names.map(name => stored[name] ?? null)) as never
  return lookupDeps(loadConfig(lookupConfig, { ...STAGE_ENVIRONMENT, ...more }), {
    state: redis,
    cache: redis,
    clock: { now: () => 0, stop: () => {} },
    metrics: createMetrics(),
    log: createLog('test', { level: 'silent' }),
  })
}

describe('the dependencies of lookup', () => {
  it('have the limits of the configuration or of the policy', async () => {
    const usual = { freshnessMs: 90 * 86_400_000, maxActiveJobs: 7 }
    expect(await partsFor({ MAX_ACTIVE_JOBS: '7' }).policy('org_1.live')).toEqual(usual)
    const { policy } = partsFor({ MAX_ACTIVE_JOBS: '7' }, { activeJobs: '30', freshnessDays: '0' })
    expect(await policy('org_1.live')).toEqual({ freshnessMs: 0, maxActiveJobs: 30 })
  })

  it('have the events that endpoints of the mode want before the end of a job', async () => {
    const subscription = { endpoint: 'we_1', events: ['job.progress', 'job.completed'] }
    const { policy } = partsFor({}, {
      liveSubscriptions: JSON.stringify([subscription]), lowBalanceMicros: '5000',
    })
    expect(await policy('org_1.live'))
      .toMatchObject({ events: ['job.progress'], lowBalanceMicros: 5_000 })
    expect(await policy('org_1.test')).not.toHaveProperty('events')
  })

  it('know an erased organization', async () => {
    const { policy } = partsFor({}, { erasedAt: '1' })
    expect(await policy('org_1.live')).toMatchObject({ isErased: true })
  })

  it('have the documented limits by default', async () => {
    const { batchRows, policy, batch } = partsFor({})
    expect([(await policy('org_1.live')).maxActiveJobs, batch]).toEqual([10, 25])
    expect(batchRows('small', 'phone-validation')).toBe(50)
    expect(batchRows('bulk', 'whatsapp')).toBe(200)
    expect(batchRows('bulk', 'phone-validation')).toBe(2_000)
    const changed = partsFor({
      VERIFY_BATCH_ROWS_SMALL: '5', VERIFY_BATCH_ROWS_QUICK: '70', QUICK_SERVICES: '["whatsapp"]',
    })
    expect(changed.batchRows('small', 'whatsapp')).toBe(5)
    expect(changed.batchRows('bulk', 'whatsapp')).toBe(70)
    expect(changed.batchRows('bulk', 'phone-validation')).toBe(200)
  })

  it('price by service and mode', () => {
    const { unitPriceMicros } = partsFor({ PRICES: '{"whatsapp":3500}' })
    expect(unitPriceMicros('org_1.live', 'whatsapp')).toBe(3_500)
    expect(unitPriceMicros('org_1.live', 'phone-validation')).toBe(2_000)
    expect(unitPriceMicros('org_1.test', 'whatsapp')).toBe(0)
  })
})
