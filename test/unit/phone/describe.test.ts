import { describe, expect, it } from 'vitest'
import {
  callingCodeAt, callingCodeOf, matchCountry, planOfCountry,
} from '../../../services/phone/calling-codes.ts'
import { describePhone, readE164 } from '../../../services/phone/format.ts'
import { countriesOf, isKnownCountry, libraryPlan } from '../../../services/phone/library.ts'
import { assignedTypeOf, compilePlan, hasLength } from '../../../services/phone/plan.ts'

describe('describePhone', () => {
  it.each([
    ['+12127365000', 'US', 'FIXED_LINE_OR_MOBILE'],
    ['+18002345678', 'US', 'TOLL_FREE'],
    ['+16135550123', 'CA', 'FIXED_LINE_OR_MOBILE'],
    ['+13402345678', 'VI', undefined],
    ['+15000000000', undefined, undefined],
    ['+77012345678', 'KZ', 'MOBILE'],
    ['+447624123456', 'IM', 'MOBILE'],
    ['+4915112345678', 'DE', 'MOBILE'],
    ['+4930901820', 'DE', 'FIXED_LINE'],
    ['+49000', 'DE', undefined],
    ['+2908999', 'TA', 'FIXED_LINE_OR_MOBILE'],
    ['+80012345678', undefined, 'TOLL_FREE'],
    ['+38970012345', 'MK', 'MOBILE'],
  ])('%s belongs to %s and is %s', (e164, country, type) => {
    expect(describePhone(e164)).toMatchObject({ country, type })
  })

  it('splits the number', () => {
    expect(describePhone('+4930901820')).toEqual(
      { callingCode: '49', national: '30901820', country: 'DE', type: 'FIXED_LINE' })
  })

  it('leaves numbers that are not E.164 to the library', () => {
    expect(readE164('+49 30 901820')).toBe(undefined)
    expect(describePhone('+49 30 901820')).toEqual(describePhone('+4930901820'))
    expect(describePhone('call me')).toBe(undefined)
    expect(describePhone('+999123456')).toBe(undefined)
  })
})

describe('callingCodeAt', () => {
  it.each([
    ['12127365000', 0, '1'],
    ['+4930901820', 1, '49'],
    ['00420212341661', 2, '420'],
    ['80012345678', 0, '800'],
    ['0123', 0, undefined],
    ['999123', 0, undefined],
    ['49', 1, undefined],
  ])('%s from %i: %s', (digits, start, expected) => {
    expect(callingCodeAt(digits, start)?.digits).toBe(expected)
  })

  it('has the countries that share a code, the main one first', () => {
    const shared = callingCodeAt('44', 0)!
    expect(shared.countries.map(({ country }) => country)).toEqual(['GB', 'GG', 'IM', 'JE'])
    expect(shared.main).toBe(planOfCountry('GB'))
    expect(callingCodeOf(planOfCountry('JE')!)).toBe(shared)
    expect(callingCodeAt('800', 0)).toMatchObject({ countries: [], main: { country: undefined } })
  })
})

describe('homeOf', () => {
  it('is the main plan if no country matches', () => {
    const { main } = callingCodeAt('1', 0)!
    expect(matchCountry(callingCodeAt('1', 0)!, '5000000000'))
      .toEqual({ country: undefined, plan: main, type: 'not_looked_up' })
  })
})

describe('the plans of the library', () => {
  it('exist for its countries and calling codes', () => {
    expect(['DE', 'XX', 'de', 'constructor'].map(isKnownCountry))
      .toEqual([true, false, false, false])
    expect([countriesOf('7'), countriesOf('800'), countriesOf('999')])
      .toEqual([['RU', 'KZ'], [], undefined])
    expect(libraryPlan('44').callingCode()).toBe('44')
    expect(planOfCountry('XX')).toBe(undefined)
  })

  it('are compiled with lengths and types', () => {
    const plan = compilePlan('US')
    expect([6, 9, 10, 11, 42].map(digits => hasLength(plan.lengths, digits)))
      .toEqual([false, false, true, false, false])
    expect(plan.maxLength).toBe(10)
    expect(compilePlan('PT').otherTypes.map(({ type }) => type)).toEqual([
      'MOBILE', 'PREMIUM_RATE', 'TOLL_FREE', 'SHARED_COST', 'VOIP', 'PERSONAL_NUMBER', 'PAGER',
      'UAN', 'VOICEMAIL',
    ])
    expect(['2127365000', '9002345678', '1112223333'].map(number => assignedTypeOf(plan, number)))
      .toEqual(['FIXED_LINE_OR_MOBILE', 'PREMIUM_RATE', undefined])
  })
})
