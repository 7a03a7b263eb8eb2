import { describe, expect, it } from 'vitest'
import { stateCode } from '../../../../services/verify/providers/states.ts'

describe('the code of a state or province', () => {
  it.each([
    ['California', 'CA'], ['Washington D.C.', 'DC'], ['British Colombia', 'BC'],
    ['Northwest Territories/Nunavut/Yukon', ''], ['Grand Bahama', 'Grand Bahama'],
  ])('%s is %j', (name, code) => {
    expect(stateCode(name)).toBe(code)
  })
})
