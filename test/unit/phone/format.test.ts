import { getCountries } from 'libphonenumber-js/max'
import { describe, expect, it } from 'vitest'
import { planOfCountry } from '../../../services/phone/calling-codes.ts'
import { formatPhone } from '../../../services/phone/format.ts'
import { compileFormats, fillLayout } from '../../../services/phone/layout.ts'
import type { LibraryFormat } from '../../../services/phone/library.ts'

describe('formatPhone', () => {
  it.each([
    ['+12127365000', '+1 212 736 5000', '(212) 736-5000'],
    ['+442079460958', '+44 20 7946 0958', '020 7946 0958'],
    ['+33142685300', '+33 1 42 68 53 00', '01 42 68 53 00'],
    ['+5491123456789', '+54 9 11 2345 6789', '011 15-2345-6789'],
    ['+390669812345', '+39 06 6981 2345', '06 6981 2345'],
    ['+80012345678', '+800 1234 5678', '1234 5678'],
    ['+13402345678', '+1 340 234 5678', '(340) 234-5678'],
    ['+3114023', '+31 14023', '14023'],
  ])('writes %s', (e164, international, national) => {
    expect(formatPhone(e164)).toMatchObject({ international, national })
  })

  it('returns the country, if there is one', () => {
    expect(formatPhone('+390669812345')?.country).toBe('VA')
    expect(formatPhone('+15550000000')?.country).toBe(undefined)
  })

  it('leaves numbers that are not E.164 to the library', () => {
    expect(formatPhone('+49 30 901820')).toEqual(formatPhone('+4930901820'))
    expect(formatPhone('call me')).toBe(undefined)
  })

  it('has the formats of every country', () => {
    const unclear = getCountries().filter(it => planOfCountry(it)?.formats === undefined)
    expect(unclear).toEqual([])
  })
})

type Given = { pattern: string, format: string, international?: string, prefixRule?: string }

const formatOf = ({ pattern, format, international = format, prefixRule }: Given) => ({
  pattern: () => pattern,
  format: () => format,
  internationalFormat: () => international,
  leadingDigitsPatterns: () => ['1', '12'],
  nationalPrefixFormattingRule: () => prefixRule,
}) satisfies LibraryFormat

describe('layOut', () => {
  const [rule] = compileFormats([formatOf({
    pattern: '(\\d)(\\d{2,4})(\\d{3})',
    format: '$1-$2 $3',
    international: '($2).$3',
    prefixRule: '(0$1)',
  })])!

  it('gives spare digits to the first group that can take them', () => {
    expect(rule!.layouts.map(layouts => layouts && fillLayout(layouts.national, '123456789')))
      .toEqual([...Array(6), '(01)-23 456', '(01)-234 567', '(01)-2345 678'])
  })

  it('gives remaining digits to the next group', () => {
    const [two] = compileFormats([formatOf({ pattern: '(\\d{1,2})(\\d{1,3})', format: '$1-$2' })])!
    expect(two!.layouts.map(layouts => layouts && fillLayout(layouts.national, '12345')))
      .toEqual([undefined, undefined, '1-2', '12-3', '12-34', '12-345'])
  })

  it('separates the groups of an international number by spaces', () => {
    expect(fillLayout(rule!.layouts[7]!.international, '1234567')).toBe('234 567')
  })

  it('uses only the most detailed leading digits', () => {
    expect(rule!.leadingDigits).toEqual(/^(?:12)/)
  })

  it.each([
    [{ pattern: '(\\d{3})-(\\d)', format: '$1 $2' }],
    [{ pattern: '(\\d{3})(\\d+)', format: '$1 $2' }],
    [{ pattern: '(\\d{3})(\\d)', format: '$1 $3' }],
    [{ pattern: '(\\d{3})(\\d)', format: '$1 $$2' }],
    [{ pattern: '(\\d{3})(\\d)', format: '$1 #$2' }],
    [{ pattern: '(\\d{3})(\\d)', format: '$1 $2', international: '$1\u2010$2' }],
  ])('leaves %j to the library', (given) => {
    expect(compileFormats([formatOf(given)])).toBe(undefined)
  })
})
