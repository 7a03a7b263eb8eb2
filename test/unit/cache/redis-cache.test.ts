import { expect, it } from 'vitest'
import { createMetrics } from '../../../services/platform/metrics.ts'
import { countLookups } from '../../../services/cache/redis-cache.ts'

it('countLookups counts rows as found or missing', async () => {
  const metrics = createMetrics()
  const record = {} as never
  const cache = countLookups({ find: async () => [record, undefined, undefined] }, metrics)
  const scope = { tenant: 'a.live', service: 'whatsapp', version: 1 } as never
  expect(await cache.find(scope, Buffer.alloc(48))).toEqual([record, undefined, undefined])
  const text = await metrics.text()
  expect(text).toContain('cache_lookups_total{service="whatsapp",outcome="found"} 1')
  expect(text).toContain('cache_lookups_total{service="whatsapp",outcome="missing"} 2')
})
