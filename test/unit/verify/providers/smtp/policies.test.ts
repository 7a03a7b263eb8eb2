import { describe, expect, it } from 'vitest'
import { findPolicy, madeUpName } from '../../../../../services/verify/providers/smtp/probe.ts'

describe('the policy of a mail host', () => {
  it.each([
    'gmail.com', 'googlemail.com', 'hotmail.com', 'hotmail.co.uk', 'outlook.de', 'live.com.mx',
    'msn.com',
  ])('of %s is that acceptance is true', (domain) => {
    expect(findPolicy(domain)?.acceptance).toBe('truthful')
  })

  it.each(['yahoo.com', 'yahoo.co.jp', 'ymail.com', 'aol.com', 'verizon.net', 'mail.ru', 'bk.ru'])(
    'of %s is that acceptance means nothing', (domain) => {
      expect(findPolicy(domain)?.acceptance).toBe('accepts_any')
    })

  it('is that of the mail exchange for customers\' domains', () => {
    expect(findPolicy('firm.org', 'mta5.am0.yahoodns.net')?.acceptance).toBe('accepts_any')
    expect(findPolicy('firm.org', 'yahoodns.net.firm.org')).toBeUndefined()
    expect(findPolicy('firm.org', 'notyahoodns.net')).toBeUndefined()
  })

  it.each(['notgmail.com', 'gmail.com.evil.org', 'live.company.org', 'yahoo.evil', 'mail.org'])(
    'does not exist for %s', (domain) => { expect(findPolicy(domain)).toBeUndefined() })
})

const WEEK_MS = 7 * 24 * 3_600_000
const at = (atMs: number, domain = 'firm.org', key = 'probe.verify.org') =>
  madeUpName(domain, { key, atMs })

describe('a made-up name', () => {
  it('reads like a name, and differs by domain and by client', () => {
    expect(at(0)).toMatch(/^[a-z]{6}\.[a-z]{8}\d{3}@firm\.org$/)
    const local = (address: string) => address.slice(0, address.indexOf('@'))
    expect(new Set([
      local(at(0)), local(at(0, 'other.org')), local(at(0, 'firm.org', 'probe.other.org')),
    ]).size).toBe(3)
  })

  it('changes once a week, at another time for each domain', () => {
    const changes = (domain: string) => Array.from({ length: 168 }, (_, hour) => hour)
      .filter((hour) => at(hour * WEEK_MS / 168, domain) !== at((hour + 1) * WEEK_MS / 168, domain))
    const times = ['a.org', 'b.org', 'c.org', 'd.org'].map(changes)
    expect(times.map((hours) => hours.length)).toEqual([1, 1, 1, 1])
    expect(new Set(times.flat()).size).toBeGreaterThan(1)
  })
})
