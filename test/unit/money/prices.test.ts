import { describe, expect, it } from 'vitest'
import {
  DEFAULT_PRICES_MICROS, readPrices, unitPriceMicros
} from '../../../services/money/prices.ts'

describe('prices', () => {
  it('are the defaults, with those of the configuration in their place', () => {
    expect(readPrices()).toEqual(DEFAULT_PRICES_MICROS)
    expect(readPrices('{"whatsapp":3500,"telegram":0}'))
      .toEqual({ ...DEFAULT_PRICES_MICROS, whatsapp: 3_500, telegram: 0 })
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
    expect(unitPriceMicros(DEFAULT_PRICES_MICROS, 'carrier-lookup', 'live')).toBe(5_000)
    expect(unitPriceMicros(DEFAULT_PRICES_MICROS, 'carrier-lookup', 'test')).toBe(0)
  })
})
