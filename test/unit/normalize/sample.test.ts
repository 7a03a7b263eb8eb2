import { readFileSync } from 'node:fs'
import { parse } from 'csv-parse/sync'
import { beforeAll, describe, expect, it } from 'vitest'
import { canonicalEmail } from '../../../services/normalize/email.ts'
import { canonicalPhone } from '../../../services/normalize/phone.ts'
import { derivePhone } from '../../../services/jobs/results/outcome.ts'
import { rangeVerdictOf } from '../../../services/verify/providers/numbering-plan.ts'
import {
  loadRangeData, stateCode, type RangeData,
} from '../../../services/verify/providers/range-data.ts'

type GoogleRow = readonly [
  input: string, country: string, length: string, valid: boolean, e164: string,
  international: string, national: string, region: string, type: string, carrier: string,
  place: string
]

const data = new URL('../../support/data/', import.meta.url)
const sample = new URL('../../../deploy/sample/', import.meta.url)
const column = (file: string) =>
  parse(readFileSync(new URL(file, sample)), { from_line: 2 }).map(([value]) => value ?? '')
const google = JSON.parse(readFileSync(new URL('phones.google.json', data), 'utf8')) as
  { readonly rows: readonly GoogleRow[] }

/**
 * Differences that are known. The metadata of libphonenumber-js leaves out formats of numbers that
 * can't be dialled from abroad, so their national form has no separators; and our carrier
 * data are newer than those of Google's archive.
 */
const UNFORMATTED_NATIONAL = [
  '+3114023', '+4219090113', '+50480021235365', '+50480021235607', '+841992333', '+841992877',
  '+841992901', '+8616813344', '+8616817243', '+97716600100062', '+97716600101187',
  '+97716600106928', '+97716600109624',
]
const OTHER_CARRIER = [
  '+18682912886', '+22670121561', '+233231235374', '+24740120', '+24740123', '+24740126',
  '+24740129', '+250720121944', '+250720126046', '+37251231504', '+37251237112', '+59171230358',
  '+59171230759', '+59171232460', '+59171239786',
]

const possible = google.rows.filter(([, , length]) => length === 'IS_POSSIBLE')
const canonicalOf = ([input, country]: GoogleRow) => canonicalPhone(input, country || undefined)
/** Google writes separators as people of the country do, we write spaces. */
const spaced = (text: string) => text.replace(/[-.]/g, ' ')
const unlike = (differs: (row: GoogleRow) => boolean) =>
  [...new Set(possible.filter(differs).map(([, , , , e164]) => e164))].sort()

describe('the sample phones, compared with Google\'s libphonenumber', () => {
  let ranges: RangeData
  beforeAll(() => { ranges = loadRangeData() })

  it('are the phones of the sample', () => {
    expect(google.rows.map(([input]) => input)).toEqual(column('phones.csv'))
    expect([google.rows.length, possible.length]).toEqual([2_000, 1_888])
  })

  it('have the same canonical form, or none if Google finds no possible number', () => {
    const ours = google.rows.map((row) => canonicalOf(row))
    expect(ours.map((result) => result.ok ? result.canonical : '')).toEqual(
      google.rows.map(([, , length, , e164]) => length === 'IS_POSSIBLE' ? e164 : ''))
  })

  it('have the same international form and country', () => {
    const ours = possible.map(([, , , , e164]) => derivePhone(e164))
    expect(ours.map(({ phone, country }) => [phone, country])).toEqual(
      possible.map((row) => [spaced(row[5]), row[7] === '001' ? '' : row[7]]))
  })

  it('have the same national format, with known exceptions', () => {
    expect(unlike((row) => derivePhone(row[4]).national_format !== row[6]))
      .toEqual([...UNFORMATTED_NATIONAL].sort())
  })

  it('have the same status and line type', () => {
    const lineType = (type: string) => type === 'FIXED_LINE' ? 'landline' : type.toLowerCase()
    const expected = possible.map((row) =>
      [row[4], row[3] ? 'valid' : 'invalid', lineType(row[8])])
    expect(possible.map(([, , , , e164]) => {
      const { status, fields } = rangeVerdictOf(e164, ranges)
      return [e164, status, fields.line_type]
    })).toEqual(expected)
  })

  it('have the same range holder, with known exceptions, and the same place', () => {
    const fields = (row: GoogleRow) => rangeVerdictOf(row[4], ranges).fields
    expect(unlike((row) => (fields(row).carrier ?? '') !== row[9])).toEqual(OTHER_CARRIER)
    const place = (row: GoogleRow) =>
      [fields(row).locality, fields(row).region].filter(Boolean).join(', ')
    // Google's archive leaves out the places of some countries.
    const placed = possible
      .filter((row) => place(row) !== '' && !/^\+(?:33|60|37[12])/.test(row[4]))
    expect(placed.length).toBe(318)
    expect(placed.map(place)).toEqual(placed.map(([, , , , e164, , , , , , place]) =>
      e164.startsWith('+1') ? stateCode(place) : place))
  })
})

describe('the sample e-mails', () => {
  it('have known counts of outcomes', () => {
    const counts = new Map<string, number>()
    for (const input of column('emails.csv')) {
      const result = canonicalEmail(input)
      const outcome = result.ok ? 'canonical' : result.reason
      counts.set(outcome, (counts.get(outcome) ?? 0) + 1)
    }
    expect(Object.fromEntries(counts)).toEqual({
      canonical: 926,
      not_an_email: 52,
      invalid_domain: 12,
      local_part_too_long: 6,
      empty: 4,
    })
  })
})
