import { describe, expect, it } from 'vitest'
import {
  canonicalFor, identitiesOf, INVALID_REASONS,
} from '../../../services/normalize/canonical.ts'

describe('canonicalFor', () => {
  it('reads phone numbers with the job\'s country', () => {
    expect(canonicalFor('phone')('212 736 5000', 'US'))
      .toEqual({ ok: true, canonical: '+12127365000' })
  })

  it('reads e-mail addresses', () => {
    expect(canonicalFor('email')('Jane@X.org', 'US')).toEqual({ ok: true, canonical: 'Jane@x.org' })
  })

  it('treats the other kind of contact as an invalid row', () => {
    expect(canonicalFor('email')('+12127365000', undefined))
      .toEqual({ ok: false, reason: 'not_an_email' })
    expect(canonicalFor('phone')('jane@x.org', 'US'))
      .toEqual({ ok: false, reason: 'not_a_phone_number' })
  })
})

describe('identitiesOf', () => {
  it('compares addresses without case and phone numbers exactly', () => {
    expect(identitiesOf('email', ['Jane@x.org', ''])).toEqual(['jane@x.org', ''])
    expect(identitiesOf('phone', ['+12127365000', ''])).toEqual(['+12127365000', ''])
  })
})

describe('INVALID_REASONS', () => {
  it('holds every reason once, as a snake_case code', () => {
    expect(new Set(INVALID_REASONS).size).toBe(INVALID_REASONS.length)
    expect(INVALID_REASONS.filter((reason) => !/^[a-z]+(_[a-z]+)*$/.test(reason))).toEqual([])
  })
})
