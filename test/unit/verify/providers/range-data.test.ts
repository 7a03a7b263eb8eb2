import { beforeAll, describe, expect, it } from 'vitest'
import {
  loadRangeData, readRangeData, splitPlace, stateCode, type RangeData,
} from '../../../../services/verify/providers/range-data.ts'

describe('the place of a number range', () => {
  it.each([
    ['San Francisco, CA', '1', { region: 'CA', locality: 'San Francisco' }],
    ['Cherry Street, Philadelphia, PA', '1', { region: 'PA', locality: 'Philadelphia' }],
    ['New Jersey', '1', { region: 'NJ', locality: '' }],
    ['Eleuthera', '1', { region: 'Eleuthera', locality: '' }],
    ['Nova Scotia/Prince Edward Island', '1', { region: '', locality: '' }],
    ['Berlin', '49', { region: '', locality: 'Berlin' }],
    ['Changzhou, Jiangsu', '86', { region: 'Jiangsu', locality: 'Changzhou' }],
  ])('is split from "%s" of +%s', (description, callingCode, place) => {
    expect(splitPlace(description, callingCode)).toEqual(place)
  })
})

describe('the range data', () => {
  let ranges: RangeData
  beforeAll(() => { ranges = loadRangeData() })

  it('has the value of the longest prefix', () => {
    expect(ranges.placeOf('12127365000'))
      .toEqual({ region: 'NY', locality: 'New York' })
    expect(ranges.placeOf('4930901820'))
      .toEqual({ region: '', locality: 'Berlin' })
    expect(ranges.carrierOf('491511234567')).toBe('T-Mobile')
  })

  it('has the time zone of a range with exactly one', () => {
    expect(ranges.timezoneOf('12127365000')).toBe('America/New_York')
    expect(ranges.timezoneOf('49')).toBe('Europe/Berlin')
    expect(ranges.timezoneOf('1')).toBe('')
  })

  it('is blank for a number without a prefix', () => {
    expect(ranges.carrierOf('9991')).toBe('')
    expect(ranges.carrierOf('490')).toBe('')
    expect(ranges.placeOf('9991'))
      .toEqual({ region: '', locality: '' })
  })
})

describe('the text of range data', () => {
  const release = '{"version":"1.2.3","publishedAt":"2026-11-06"}'
  const text = (prefix: string) =>
    `${release}\n= places\n4930\tBerlin\n= carriers\n${prefix}\tOne\n` +
    '= timezones\n49\tEurope/Berlin\n'

  it('has the release and the tables', () => {
    const ranges = readRangeData(text('4915'))
    expect(ranges.release).toEqual({ version: '1.2.3', publishedAt: '2026-11-06' })
    expect([ranges.placeOf('4930901820').locality, ranges.carrierOf('49151'),
      ranges.timezoneOf('49')]).toEqual(['Berlin', 'One', 'Europe/Berlin'])
  })

  it('is refused without one of the tables, and with prefixes that are too long', () => {
    expect(() => readRangeData(text('4915').replace('= carriers', '= others')))
      .toThrow('no carriers; renew it')
    expect(() => readRangeData(text('491512345678901'))).toThrow('a prefix of 15 digits')
  })
})

describe('the code of a state or province', () => {
  it.each([
    ['California', 'CA'], ['Washington D.C.', 'DC'], ['British Colombia', 'BC'],
    ['Northwest Territories/Nunavut/Yukon', ''], ['Grand Bahama', 'Grand Bahama'],
  ])('%s is %j', (name, code) => {
    expect(stateCode(name)).toBe(code)
  })
})
