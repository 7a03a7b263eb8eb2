import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import { countLookups, packStrings, unpackStrings } from '../../../services/cache/redis-cache.ts'

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

describe('a string dictionary', () => {
  it('has each string once, numbered from 1 in two bytes', () => {
    const { numbers, texts } = packStrings(['a', 'b', 'a', ''])
    expect(numbers.toString('hex')).toBe('0001000200010003')
    expect(texts).toEqual(['a', 'b', ''])
  })

  it('decodes to the same rows; 0 is a row without a string', () => {
    fc.assert(fc.property(fc.array(fc.string()), (rows) => {
      const { numbers, texts } = packStrings(rows)
      const reply = [numbers, texts.map((text) => Buffer.from(text))]
      expect(unpackStrings(reply)).toEqual(rows.map((row) => Buffer.from(row).toString()))
    }))
    expect(unpackStrings([Buffer.from('00000001', 'hex'), [Buffer.from('é')]])).toEqual([null, 'é'])
  })
})
