import { getCountries } from 'libphonenumber-js/max'
import { expect, it } from 'vitest'
import { describePhone, formatPhone } from '../../../services/phone/format.ts'
import { planOfCountry } from '../../../services/phone/plans.ts'

it('a number that is not E.164 is left to the library', () => {
  for (const read of [describePhone, formatPhone]) {
    expect(read('+49 30 901820')).toEqual(read('+4930901820'))
    expect([read('call me'), read('+999123456')]).toEqual([undefined, undefined])
  }
})

it('the formats of every country are compiled', () => {
  expect(getCountries().filter(it => planOfCountry(it)?.formats === undefined)).toEqual([])
})
