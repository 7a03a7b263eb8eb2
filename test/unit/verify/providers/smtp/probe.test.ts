import { describe, expect, it } from 'vitest'
import {
  isKnownCatchAll, refusesUnknownNames,
} from '../../../../../services/verify/providers/smtp/probe.ts'

describe('a well-known mail domain', () => {
  it.each([
    'gmail.com', 'googlemail.com', 'hotmail.com', 'hotmail.co.uk', 'outlook.de', 'live.com.mx',
    'msn.com', 'yahoo.com', 'yahoo.co.jp', 'ymail.com',
  ])('%s needs no catch-all test', (domain) => {
    expect(refusesUnknownNames(domain)).toBe(true)
    expect(isKnownCatchAll(domain)).toBe(false)
  })

  it.each(['notgmail.com', 'gmail.com.evil.org', 'live.company.org', 'yahoo.evil', 'mail.org'])(
    '%s is no well-known one', (domain) => {
      expect([refusesUnknownNames(domain), isKnownCatchAll(domain)]).toEqual([false, false])
    })

  it('mail.ru is a catch-all domain', () => {
    expect([refusesUnknownNames('mail.ru'), isKnownCatchAll('mail.ru')]).toEqual([false, true])
  })
})
