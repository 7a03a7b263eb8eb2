import { describe, expect, it } from 'vitest'
import { lengthFault, mayParseDifferently } from '../../../services/normalize/phone.ts'

describe('lengthFault', () => {
  it.each([
    ['1', 10, undefined],
    ['1', 7, 'too_short'],
    ['1', 11, 'too_long'],
    ['49', 2, 'too_short'],
    ['49', 15, undefined],
    ['44', 8, 'impossible_length'],
    ['800', 8, undefined],
  ])('+%s with %i digits: %s', (callingCode, digits, fault) => {
    expect(lengthFault(callingCode, digits)).toBe(fault)
  })
})

describe('mayParseDifferently', () => {
  it.each([
    ['1', '2127365000', false],
    ['49', '30901820', false],
    ['49', '030901820', true],
    ['800', '12345678', false],
  ])('+%s %s: %s', (callingCode, nationalNumber, expected) => {
    expect(mayParseDifferently(callingCode, nationalNumber)).toBe(expected)
  })
})
