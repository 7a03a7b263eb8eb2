import { describe, expect, it } from 'vitest'
import {
  acceptsAnyone, tellsTheTruth,
} from '../../../../../services/verify/providers/smtp/well-known.ts'

describe('well-known mail domains', () => {
  it.each([
    'gmail.com', 'googlemail.com', 'hotmail.com', 'hotmail.co.uk', 'outlook.de', 'live.com.mx',
    'msn.com', 'yahoo.com', 'yahoo.co.jp', 'ymail.com',
  ])('%s needs no made-up name', (domain) => {
    expect(tellsTheTruth(domain)).toBe(true)
    expect(acceptsAnyone(domain)).toBe(false)
  })

  it.each(['notgmail.com', 'gmail.com.evil.org', 'live.company.org', 'yahoo.evil', 'mail.org'])(
    '%s is like any other', (domain) => {
      expect([tellsTheTruth(domain), acceptsAnyone(domain)]).toEqual([false, false])
    })

  it('mail.ru takes mail for any name', () => {
    expect([tellsTheTruth('mail.ru'), acceptsAnyone('mail.ru')]).toEqual([false, true])
  })
})
