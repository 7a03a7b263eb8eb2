import { describe, expect, it } from 'vitest'
import { exchangeName, maskExchange, unmaskExchange } from '../../../services/mail/owners.ts'

describe('the name of a mail exchange', () => {
  it.each([
    ['MX1.Mail.ORG', 'mx1.mail.org'], ['mx.mail.org.', 'mx.mail.org'], ['a_b.x.org', 'a_b.x.org'],
  ])('%s is %s', (host, name) => {
    expect(exchangeName(host)).toBe(name)
  })

  it.each([
    '', '.', 'localhost', 'a..b', '*.x.org', 'a b.org', 'x.org\u0000', '<b>.org', 'ü.org',
    '=1+1.org', `${'a'.repeat(64)}.org`, `${'a.'.repeat(126)}org`,
  ])('is none for %j', host => {
    expect(exchangeName(host)).toBeUndefined()
  })

  it.each([
    ['mail.firm.org', 'firm.org', 'mail.*1.org'],
    ['firm-co-uk.mail.protection.outlook.com', 'firm.co.uk',
      '*2-*1-uk.mail.protection.outlook.*1m'],
    ['gmail-smtp-in.l.google.com', 'gmail.com', '*1-smtp-in.l.google.com'],
    ['mx.secret.firm.org', 'secret.firm.org', 'mx.*2.*1.org'],
    ['mail.firm.org', 'secret.firm.org', 'mail.*1.org'],
    ['mx1.host.net', 'firm.org', 'mx1.host.net'],
    ['mail.x.org', 'org', 'mail.x.org'],
  ])('%s of %s is stored as %s', (exchange, domain, masked) => {
    expect(maskExchange(exchange, domain)).toBe(masked)
    expect(unmaskExchange(masked, domain)).toBe(exchange)
  })

  it('is no other one with a record that was changed', () => {
    expect(unmaskExchange('*9.*0.*', 'firm.org')).toBe('..*')
  })
})
