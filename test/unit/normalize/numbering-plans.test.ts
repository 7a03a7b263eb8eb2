import { describe, expect, it } from 'vitest'
import { lengthFault } from '../../../services/normalize/phone.ts'
import { readInternational } from '../../../services/phone/dial.ts'

describe('lengthFault', () => {
  it.each([
    ['+12127365000', undefined],
    ['+17365000', 'too_short'],
    ['+121273650001', 'too_long'],
    ['+4930', 'too_short'],
    ['+49301234567890123', undefined],
    ['+4412345678', 'impossible_length'],
    ['+80012345678', undefined],
    ['+13101234', undefined],
    ['+13111234', 'too_short'],
  ])('%s: %s', (e164, fault) => {
    const number = readInternational(e164, 1)
    expect(number && lengthFault(number)).toBe(fault)
    expect(number).toBeDefined()
  })
})
