import { beforeAll, describe, expect, it } from 'vitest'
import {
  loadRangeData, splitPlace, type RangeData,
} from '../../../../services/verify/providers/range-data.ts'

describe('splitPlace', () => {
  it.each([
    ['San Francisco, CA', '1', { region: 'CA', locality: 'San Francisco' }],
    ['Cherry Street, Philadelphia, PA', '1', { region: 'PA', locality: 'Philadelphia' }],
    ['New Jersey', '1', { region: 'NJ', locality: '' }],
    ['Eleuthera', '1', { region: 'Eleuthera', locality: '' }],
    ['Nova Scotia/Prince Edward Island', '1', { region: '', locality: '' }],
    ['Berlin', '49', { region: '', locality: 'Berlin' }],
    ['Changzhou, Jiangsu', '86', { region: 'Jiangsu', locality: 'Changzhou' }],
  ])('%s of +%s', (description, callingCode, place) => {
    expect(splitPlace(description, callingCode)).toEqual(place)
  })
})

describe('loadRangeData', () => {
  let ranges: RangeData
  beforeAll(() => { ranges = loadRangeData() })

  it('finds the longest prefix that is on file', () => {
    expect(ranges.placeOf({ callingCode: '1', national: '2127365000' }))
      .toEqual({ region: 'NY', locality: 'New York' })
    expect(ranges.placeOf({ callingCode: '49', national: '30901820' }))
      .toEqual({ region: '', locality: 'Berlin' })
    expect(ranges.carrierOf({ callingCode: '49', national: '1511234567' })).toBe('T-Mobile')
  })

  it('gives the one time zone of a range, and none for a range over several', () => {
    expect(ranges.timezoneOf('12127365000')).toBe('America/New_York')
    expect(ranges.timezoneOf('49')).toBe('Europe/Berlin')
    expect(ranges.timezoneOf('1')).toBe('')
  })

  it('is blank where nothing is on file', () => {
    expect(ranges.carrierOf({ callingCode: '999', national: '1' })).toBe('')
    expect(ranges.carrierOf({ callingCode: '49', national: '0' })).toBe('')
    expect(ranges.placeOf({ callingCode: '999', national: '1' }))
      .toEqual({ region: '', locality: '' })
  })
})
