import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../../services/lib/config.ts'
import { createLog } from '../../../services/lib/log.ts'
import { createMetrics } from '../../../services/lib/metrics.ts'
import { lookupConfig } from '../../../services/lookup/config.ts'
import { lookupParts } from '../../../services/lookup/parts.ts'
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

function partsFor (more: Record<string, string>) {
  const redis = new Redis({ lazyConnect: true })
  return lookupParts(loadConfig(lookupConfig, { ...env, ...more }), {
    state: redis,
    cache: redis,
    clock: { now: () => 0, stop: () => {} },
    metrics: createMetrics(),
    log: createLog('test', { level: 'silent' }),
  })
}

describe('the parts of lookup', () => {
  it('have the documented limits unless told otherwise', () => {
    const { partRows, ...others } = partsFor({})
    expect(others).toMatchObject({ maxActiveJobs: 10, batch: 25 })
    expect(partRows('small', 'phone-validation')).toBe(50)
    expect(partRows('bulk', 'whatsapp')).toBe(200)
    expect(partRows('bulk', 'phone-validation')).toBe(2_000)
    const changed = partsFor({
      PART_ROWS_SMALL: '5', PART_ROWS_QUICK: '70', QUICK_SERVICES: '["whatsapp"]',
    })
    expect(changed.partRows('small', 'whatsapp')).toBe(5)
    expect(changed.partRows('bulk', 'whatsapp')).toBe(70)
    expect(changed.partRows('bulk', 'phone-validation')).toBe(200)
  })

  it('price by service and mode', () => {
    const { unitPriceMicros } = partsFor({ PRICES: '{"whatsapp":3500}' })
    expect(unitPriceMicros('org_1.live', 'whatsapp')).toBe(3_500)
    expect(unitPriceMicros('org_1.live', 'phone-validation')).toBe(2_000)
    expect(unitPriceMicros('org_1.test', 'whatsapp')).toBe(0)
  })
})
