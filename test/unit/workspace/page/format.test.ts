import { describe, expect, it } from 'vitest'
import {
  count, moment, money, share, signedMoney, time, zoneOf,
} from '../../../../services/workspace/page/format.ts'

describe('money', () => {
  it.each([
    [0, '$0.00'], [1, '$0.000001'], [2_000, '$0.002'], [10_000, '$0.01'], [500_000, '$0.50'],
    [1_000_000, '$1.00'], [1_234_502_500, '$1,234.5025'], [-16_000, '−$0.016'],
    [999_999_999_999_999, '$999,999,999.999999'],
  ])('%d micros are %s', (micros, text) => expect(money(micros)).toBe(text))

  it('has a sign where it moved', () => {
    expect([1, 0, -1].map(signedMoney)).toEqual(['+$0.000001', '$0.00', '−$0.000001'])
  })
})

describe('numbers', () => {
  it('are grouped, and shares have one digit at most', () => {
    expect(count(1_234_567)).toBe('1,234,567')
    expect([share(1, 8), share(1, 2), share(0, 0), share(2, 3)])
      .toEqual(['12.5 %', '50 %', '0 %', '66.7 %'])
  })
})

describe('times', () => {
  it('are those of the zone, with ISO 8601 in the title', () => {
    expect(moment(Date.UTC(2026, 10, 21, 23, 47, 5), 'Asia/Kolkata')).toBe('22 Nov 2026, 05:17:05')
    expect(time(0, 'UTC').html).toBe('<time datetime="1970-01-01T00:00:00.000Z" ' +
      'title="1970-01-01T00:00:00.000Z">1 Jan 1970, 00:00:00</time>')
  })

  it('are in UTC for a zone that is none', () => {
    expect([undefined, '', '"><b>', 'Mars/Base', 'Europe/Berlin'].map(zoneOf))
      .toEqual(['UTC', 'UTC', 'UTC', 'UTC', 'Europe/Berlin'])
  })
})
