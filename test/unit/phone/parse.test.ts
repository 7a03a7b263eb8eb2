import { describe, expect, it } from 'vitest'
import {
  callingCodeAt, planOfCountry, type CallingCode,
} from '../../../services/phone/calling-codes.ts'
import {
  readInternational, split, withoutNationalPrefix,
} from '../../../services/phone/national.ts'
import { parsePhone } from '../../../services/phone/parse.ts'

const codeOf = (digits: string): CallingCode => callingCodeAt(digits, 0)!

describe('parsePhone', () => {
  it.each([
    ['+12127365000', undefined, '+12127365000'],
    [' (212) 736-5000 ', 'US', '+12127365000'],
    ['1.212.736.5000', 'US', '+12127365000'],
    ['020 7946 0958', 'GB', '+442079460958'],
    ['011442079460958', 'US', '+442079460958'],
    ['442079460958', 'GB', '+442079460958'],
    // Of no assigned range, but too long to be meant without the calling code.
    ['444000000000', 'GB', '+444000000000'],
    ['0 11 15-2345-6789', 'AR', '+5491123456789'],
    ['2345678', 'VI', '+13402345678'],
    ['+800 1234 5678', undefined, '+80012345678'],
    ['06 698 12345', 'VA', '+390669812345'],
    // Of no possible length, which is for the caller to say.
    ['7365000', 'US', '+17365000'],
    ['+1 212 736 5000 1', undefined, '+121273650001'],
  ])('reads %j in %s as %s', (input, country, expected) => {
    const number = parsePhone(input, country)
    expect(number && `+${number.callingCode.digits}${number.national}`).toBe(expected)
  })

  it.each([
    ['212 736 5000', undefined],
    ['212 736 5000', 'XX'],
    ['212 736 5000 x12', 'US'],
    ['++12127365000', undefined],
    ['1+2127365000', 'US'],
    ['+12', undefined],
    ['+0123456789', undefined],
    ['+999123456', undefined],
    ['call me 12', 'US'],
    ['Call me (212) 736-5000', 'US'],
    ['+44 (0)20 7946 0958', undefined],
    ['4930901820.0', 'DE'],
    ['(+49) 30 901820', undefined],
    ['BBB 4099', 'NU'],
    ['2. 030 901820', 'DE'],
    ['+8 495 123 45 67', 'RU'],
    ['4921123456', 'DE'],
    ['1-800-FLOWERS', 'US'],
    ['office: 212 736 5000', 'US'],
    [`+1 212 736 ${' '.repeat(40)} 5000`, undefined],
    ['tel:+12127365000', undefined],
    ['\uff0b12127365000', undefined],
    ['', 'US'],
    [' - ', 'US'],
  ])('leaves %j in %s to readCell', (input, country) => {
    expect(parsePhone(input, country)).toBe(undefined)
  })
})

describe('readInternational', () => {
  it('splits after the calling code', () => {
    expect(readInternational('00390669812345', 2))
      .toEqual({ callingCode: codeOf('39'), national: '0669812345' })
    expect(readInternational('+999', 1)).toBe(undefined)
  })
})

describe('withoutNationalPrefix', () => {
  it.each([
    ['DE', '030901820', '30901820'],
    ['RU', '88005553535', '8005553535'],
    // The prefix may be the begin of the number, which would not fit the plan without it.
    ['RU', '8005553535', '8005553535'],
    ['BR', '0311123456789', '1123456789'],
    ['VI', '2345678', '3402345678'],
    ['IT', '0669812345', '0669812345'],
    // Long enough for Great Britain, whose number it then is, if not for Jersey.
    ['JE', '08001111', '8001111'],
    // Too short without it.
    ['DE', '01', '01'],
    ['DE', '', ''],
  ])('removes it in %s from %j: %j', (country, digits, expected) => {
    const plan = planOfCountry(country)!
    expect(withoutNationalPrefix(codeOf(plan.callingCode), plan, digits)).toBe(expected)
  })
})

describe('split', () => {
  it('accepts 2 to 17 digits', () => {
    const taken = [1, 2, 17, 18].map(digits => split(codeOf('49'), '1'.repeat(digits))?.national)
    expect(taken).toEqual([undefined, '11', '1'.repeat(17), undefined])
  })
})
