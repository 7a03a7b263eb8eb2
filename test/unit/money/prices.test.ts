import { describe, expect, it } from 'vitest'
import {
  formatUsd, maxQuoteMicros, parseMicros, readPrices, unitPriceMicros, usdToMicros,
} from '../../../services/money/prices.ts'
import { integer } from '../../../services/money/wallet.ts'

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

describe('an amount in USD', () => {
  it.each([
    ['25', 25_000_000], ['12.50', 12_500_000], ['0.000001', 1], ['0.1', 100_000],
    ['1.005', 1_005_000], ['8.2', 8_200_000], ['4.35', 4_350_000],
    ['999999999.999999', 999_999_999_999_999],
  ])('%s is exactly %i micros', (text, micros) => {
    expect(usdToMicros(text)).toBe(micros)
  })

  it.each([
    '', '0', '0.000000', '-1', '1,5', '1.', '.5', '1e3', '1.0000001', '1000000000', ' 1', '$1',
    'NaN',
  ])('cannot be written as "%s"', text => {
    expect(() => usdToMicros(text)).toThrow(RangeError)
  })

  it.each([[0, '0.000000'], [1, '0.000001'], [12_500_000, '12.500000'], [-1_500_000, '-1.500000']])(
    'of %i micros is printed as %s', (micros, text) => {
      expect(formatUsd(micros)).toBe(text)
    })
})

it('an amount in micros must be a whole number above 0', () => {
  expect(parseMicros('1000000')).toBe(1_000_000)
  expect(parseMicros('999999999999999')).toBe(999_999_999_999_999)
  for (const text of ['0', '-1', '1.5', '1e3', '', '1000000000000000']) {
    expect(() => parseMicros(text)).toThrow(RangeError)
  }
})

it.each(['1e+14', '1.5', '', ' 1', '9007199254740992', undefined])(
  'an entry of the outbox takes %s for no number', text => {
    expect(() => integer(text)).toThrow('not a safe integer')
  })
