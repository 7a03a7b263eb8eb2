import { describe, expect, it } from 'vitest'
import { maxQuoteMicros } from '../../../services/money/quote.ts'

describe('the maximum price', () => {
  it('counts fresh checks and cache hits', () => {
    expect(maxQuoteMicros({ freshChecks: 5, cacheHits: 3, unitPriceMicros: 2_000 })).toBe(16_000)
  })

  it('is nothing for a job without such rows, or without a price', () => {
    expect(maxQuoteMicros({ freshChecks: 0, cacheHits: 0, unitPriceMicros: 2_000 })).toBe(0)
    expect(maxQuoteMicros({ freshChecks: 5, cacheHits: 3, unitPriceMicros: 0 })).toBe(0)
  })

  it('is exact up to fifteen digits, and an error above', () => {
    const quote = (unitPriceMicros: number) =>
      maxQuoteMicros({ freshChecks: 1, cacheHits: 0, unitPriceMicros })
    expect(quote(999_999_999_999_999)).toBe(999_999_999_999_999)
    expect(() => quote(1_000_000_000_000_000)).toThrow('exceeds the maximum of a wallet')
  })

  it.each([-1, 0.5, Number.NaN, 2 ** 53])('takes no %d rows', freshChecks => {
    expect(() => maxQuoteMicros({ freshChecks, cacheHits: 0, unitPriceMicros: 1 }))
      .toThrow('integers from 0')
  })
})
