import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { expiresAtMs, isCurrent, redisRecordCache } from '../../../services/cache/cache.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import { cachedRecord, TENANT } from '../../support/stage-messages.ts'

/** Every command is rejected, as while Redis is down. */
const redis = new Redis({ lazyConnect: true })
redis.disconnect()
const scope = { tenant: TENANT, service: 'whatsapp', version: '2' } as const
const token = Buffer.alloc(16, 7)
const claim = { job: 'job_1', leaseMs: 30_000, usable: () => true }

it('a cache whose Redis is down has only misses, and reports the errors', async () => {
  const faults: unknown[] = []
  const metrics = createMetrics()
  const cache = redisRecordCache(redis, { metrics, onFault: error => faults.push(error) })
  const both = Buffer.concat([token, token])
  const records = [cachedRecord()]
  expect(await cache.find(scope, both)).toEqual([undefined, undefined])
  await cache.store(scope, token, records)
  expect(await cache.claim(scope, both, claim)).toEqual(['mine', 'mine'])
  expect(await cache.offer(scope, token, { ...claim, records })).toEqual(records)
  await cache.release(scope, token, 'job_1')
  expect(faults).toEqual(Array(5).fill(expect.any(Error)))
  expect(await metrics.text())
    .toContain('cache_lookups_total{service="whatsapp",outcome="missing"} 2')
  // An erasure must not be taken for done.
  await expect(cache.erase(scope, token)).rejects.toThrow()
})

it('a cache sends no command without tokens', async () => {
  const cache = redisRecordCache(redis, { onFault: error => { throw error } })
  const none = Buffer.alloc(0)
  expect(await cache.find(scope, none)).toEqual([])
  expect(await cache.claim(scope, none, claim)).toEqual([])
  expect(await cache.offer(scope, none, { ...claim, records: [] })).toEqual([])
  await cache.release(scope, none, 'job_1')
  await cache.erase(scope, none)
  await cache.store(scope, token, [undefined])
})

const DAY_MS = 86_400_000

describe('the freshness of a record', () => {
  it('is capped at 90 days, whatever the policy', () => {
    expect(expiresAtMs(1_000, 7 * DAY_MS)).toBe(1_000 + 7 * DAY_MS)
    expect(expiresAtMs(1_000, 365 * DAY_MS)).toBe(1_000 + 90 * DAY_MS)
  })

  it.each([
    [{ checkedAtMs: 0 }, { quotedAtMs: DAY_MS - 1, freshnessMs: DAY_MS }, true],
    [{ checkedAtMs: 0 }, { quotedAtMs: DAY_MS, freshnessMs: DAY_MS }, false],
    [{ checkedAtMs: 0 }, { quotedAtMs: 0, freshnessMs: 0 }, false],
    // Made after the quote.
    [{ checkedAtMs: 5 }, { quotedAtMs: 4, freshnessMs: 0 }, true],
  ])('ends exactly at its expiry, at the time of the quote: %o, %o', (record, rule, expected) => {
    expect(isCurrent(record, rule)).toBe(expected)
  })
})
