import { describe, expect, it } from 'vitest'
import { networkCodeOf } from '../../../../services/verify/providers/numbering-plan.ts'

describe('the network code of a carrier', () => {
  it.each([
    ['AL', 'Vodafone', { mcc: '276', mnc: '02' }],
    ['IS', 'Síminn', { mcc: '274', mnc: '01' }],
    ['IS', 'SIMINN', { mcc: '274', mnc: '01' }],
    ['VG', 'Cable & Wireless', { mcc: '348', mnc: '170' }],
  ])('in %s of %s is %o', (country, carrier, code) => {
    expect(networkCodeOf(country, carrier)).toEqual(code)
  })

  it.each([
    ['several codes', 'DE', 'Vodafone'],
    ['another country', 'IS', 'T-Mobile'],
    ['no country', undefined, 'Vodafone'],
    ['no name', 'US', ''],
    ['a network that ended', 'NO', 'Tele2'],
  ])('is undefined for a carrier with %s', (_, country, carrier) => {
    expect(networkCodeOf(country, carrier)).toBeUndefined()
  })
})
