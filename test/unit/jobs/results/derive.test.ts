import { describe, expect, it } from 'vitest'
import { derive, deriveEmail, derivePhone } from '../../../../services/jobs/results/outcome.ts'

describe('derivePhone', () => {
  it.each([
    ['+12127365000', ['+1 212 736 5000', 'US', '(212) 736-5000']],
    ['+442079460958', ['+44 20 7946 0958', 'GB', '020 7946 0958']],
    ['+80012345678', ['+800 1234 5678', '', '1234 5678']],
    ['+15550000000', ['+1 555 000 0000', '', '(555) 000-0000']],
  ])('writes %s', (e164, columns) => {
    expect(Object.values(derivePhone(e164))).toEqual([columns[0], e164, ...columns.slice(1)])
  })

  it('does not take anything but a canonical form', () => {
    expect(() => derivePhone('call me')).toThrow('needs a canonical E.164 number')
  })
})

describe('deriveEmail', () => {
  it('splits at the last sign', () => {
    expect(deriveEmail('"a@b"@x.org')).toEqual({ email: '"a@b"@x.org', domain: 'x.org' })
  })
})

describe('derive', () => {
  it('picks the columns of the kind', () => {
    expect(derive('phone', '+33142685300').national_format).toBe('01 42 68 53 00')
    expect(derive('email', 'jane@x.org')).toEqual({ email: 'jane@x.org', domain: 'x.org' })
  })

  it('makes the suggested domain an address', () => {
    const fields = { suggestion: 'gmail.com', free: 'false' }
    expect({ ...fields, ...derive('email', 'jane@gmial.com', fields) }).toEqual({
      email: 'jane@gmial.com', domain: 'gmial.com', suggestion: 'jane@gmail.com', free: 'false',
    })
  })
})
