import fc from 'fast-check'
import { getCountries } from 'libphonenumber-js/max'
import { describe, expect, it } from 'vitest'
import { canonicalPhone } from '../../../services/normalize/phone.ts'
import { unicodeText } from '../../support/texts.ts'

/** The canonical form, or the reason in brackets. */
const outcome = (input: string, country?: string) => {
  const result = canonicalPhone(input, country)
  return result.ok ? result.canonical : `(${result.reason})`
}

describe('canonicalPhone', () => {
  it('counts ten rows with two invalid ones and three duplicates', () => {
    const inputs = [
      '+12127365000', '(212) 736-5000', '1 212 736 5000', 'call me', '+442079460958', '+1',
      '212.736.5000', '+33142685300', '+4930901820', '+61293744000',
    ]
    expect(inputs.map((input) => outcome(input, 'US'))).toEqual([
      '+12127365000', '+12127365000', '+12127365000', '(not_a_phone_number)', '+442079460958',
      '(too_short)', '+12127365000', '+33142685300', '+4930901820', '+61293744000',
    ])
  })

  it.each([
    ['  +420 212 341 661 ', undefined, '+420212341661'],
    ['+44 (0)20 7946 0958', undefined, '+442079460958'],
    ['020 7946 0958', 'GB', '+442079460958'],
    ['011442079460958', 'US', '+442079460958'],
    ['0044 20 7946 0958', 'DE', '+442079460958'],
    ['0044 20 7946 0958', undefined, '(no_calling_code)'],
    ['212 736 5000', undefined, '(no_calling_code)'],
    ['212 736 5000', 'XX', '(no_calling_code)'],
    ['212 736 5000 ext. 12', 'US', '+12127365000'],
    ['tel:+1-212-736-5000', undefined, '+12127365000'],
    ['+1 500 000 0000', undefined, '+15000000000'],
    ['+800 1234 5678', undefined, '+80012345678'],
    ['+0123456789', undefined, '(unknown_calling_code)'],
    ['736 5000', 'US', '(too_short)'],
    ['1-800-FLOWERS', 'US', '+18003569377'],
    ['+1 212 736 5000 1', undefined, '(too_long)'],
    ['+491234567890123456789', undefined, '(too_long)'],
    ['+43 1', undefined, '(too_short)'],
    ['someone@example.org', 'US', '(not_a_phone_number)'],
  ])('reads %j with country %s as %s', (input, country, expected) => {
    expect(outcome(input, country)).toBe(expected)
  })

  it.each([
    ['\uff0b\uff11\uff12\uff11\uff12\uff17\uff13\uff16\uff15\uff10\uff10\uff10', '+12127365000'],
    ['\u0662\u0661\u0662\u0667\u0663\u0666\u0665\u0660\u0660\u0660', '+12127365000'],
    ['\u202a+1\u200b212\u00ad736\u20605000\u202c', '+12127365000'],
    ['\ufeff212\u00a0736\u00a05000', '+12127365000'],
    ['+1 212 736 5000\r\n', '+12127365000'],
    ['', '(empty)'],
    [' \t\r\n', '(empty)'],
    ['\u200b\u200e', '(empty)'],
    ['+1 212\u0000736 5000', '(control_character)'],
    ['+1 212\u0085736 5000', '(control_character)'],
    ['+1 212\t736 5000', '(control_character)'],
    ['+1 212 736 5000\ud800', '(malformed_unicode)'],
    ['1'.repeat(321), '(too_long_input)'],
    ['1'.repeat(320), '(too_long)'],
  ])('treats special characters in %j', (input, expected) => {
    expect(outcome(input, 'US')).toBe(expected)
  })

  it('gives one form to an unassigned number, however often it is parsed', () => {
    const once = outcome('+49 (0) 00123456')
    expect(once).toBe(outcome(once))
  })

  it('maps every canonical form to itself and never throws', () => {
    const country = fc.constantFrom(undefined, ...getCountries())
    const digits = fc.stringMatching(/^[+0-9 ().-]{3,18}$/)
    const input = fc.oneof(digits, digits.map((text) => `+${text}`), unicodeText())
    fc.assert(fc.property(input, country, country, (text, first, second) => {
      const result = canonicalPhone(text, first)
      if (result.ok) expect(canonicalPhone(result.canonical, second)).toEqual(result)
    }), { numRuns: 8_000 })
  })
})
