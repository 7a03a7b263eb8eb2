import { describe, expect, it } from 'vitest'
import { maxQuoteMicros, readPrices, unitPriceMicros } from '../../../services/money/prices.ts'

describe('prices', () => {
  it('are the defaults, with those of the configuration in their place', () => {
    const defaults = {
      'phone-validation': 2_000,
      whatsapp: 4_000,
      telegram: 4_000,
      'carrier-single': 5_000,
      'carrier-lookup': 5_000,
      'email-validation': 2_000,
    }
    expect(readPrices()).toEqual(defaults)
    expect(readPrices('{"whatsapp":3500,"telegram":0}'))
      .toEqual({ ...defaults, whatsapp: 3_500, telegram: 0 })
  })

  it.each([
    ['[]', 'PRICES must be a JSON object'],
    ['null', 'PRICES must be a JSON object'],
    ['{"fax":1}', 'unknown service "fax"'],
    ['{"whatsapp":1.5}', 'whole number of micros'],
    ['{"whatsapp":"1"}', 'whole number of micros'],
    ['{"whatsapp":-1}', 'whole number of micros'],
    ['{"whatsapp":1000000001}', 'whole number of micros'],
    ['{', 'JSON'],
  ])('of %s are an error that says what to write', (text, fault) => {
    expect(() => readPrices(text)).toThrow(fault)
  })

  it('are nothing for test keys', () => {
    expect(unitPriceMicros(readPrices(), 'carrier-lookup', 'live')).toBe(5_000)
    expect(unitPriceMicros(readPrices(), 'carrier-lookup', 'test')).toBe(0)
  })
})

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
