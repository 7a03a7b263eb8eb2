import { describe, expect, it } from 'vitest'
import {
  listPlaces, ownerLabel, type OwnerPolicy,
} from '../../../../services/verify/mailboxes/policies.ts'
import { ownerPolicies, policyAt } from '../../../support/mail/owner-policies.ts'

const limits = { sessions: 7, sessionsAMinute: 70, ratePercent: 100 }
const found = (domain: string, exchange: string) => {
  const { owner, acceptance } = policyAt(domain, exchange, limits)
  return [owner, acceptance]
}

describe('the policy of a domain and its exchange', () => {
  it.each([
    ['gmail.com', 'gmail-smtp-in.l.google.com', 'google', 'truthful'],
    ['googlemail.com', 'gmail-smtp-in.l.google.com', 'google', 'truthful'],
    ['firm.de', 'ASPMX2.googlemail.com.', 'google', undefined],
    ['hotmail.co.uk', 'eur.olc.protection.outlook.com', 'microsoft-consumer', 'truthful'],
    ['firm.de', 'firm-de.mail.protection.outlook.com', 'microsoft-365', undefined],
    ['firm.de', 'firm-de.d-v1.mx.microsoft', 'microsoft-365', undefined],
    ['live.com.mx', 'eur.olc.protection.outlook.com', 'microsoft-consumer', 'truthful'],
    ['yahoo.com.br', 'mta5.am0.yahoodns.net', 'yahoo', 'accepts_any'],
    ['ymail.com', 'mta5.am0.yahoodns.net', 'yahoo', 'accepts_any'],
    ['verizon.net', 'mta5.am0.yahoodns.net', 'yahoo', 'accepts_any'],
    ['yahoo.co.jp', 'mx1.mail.yahoo.co.jp', 'yahoo', 'accepts_any'],
    ['firm.com', 'mx-biz.mail.am0.yahoodns.net', 'yahoo', 'accepts_any'],
    ['list.ru', 'mxs.mail.ru', 'mail.ru', 'accepts_any'],
    ['firm.ru', 'emx.mail.ru', 'mail.ru', undefined],
    ['gmx.at', 'mx00.emig.gmx.net', 'united-internet', undefined],
  ])('%s at %s is that of %s, acceptance %s', (domain, exchange, owner, acceptance) => {
    expect(found(domain, exchange)).toEqual([owner, acceptance])
  })

  it.each([
    ['firm.de', 'mx1.mail.firm.de.', 'firm.de'],
    ['firm.co.uk', 'MX.firm.co.uk', 'firm.co.uk'],
    // Names that only look like those of an owner.
    ['notgmail.com', 'mx.notgoogle.com', 'notgoogle.com'],
    ['hotmail.com.evil.org', 'google.com.evil.org', 'evil.org'],
    ['hotmail.company', 'mx.ionos.company', 'ionos.company'],
    // Anybody may have such a domain in some country.
    ['live.io', 'mx.evil.org', 'evil.org'],
    ['firm.org', 'yahoodns.net.firm.org', 'firm.org'],
    ['firm.org', 'localhost', 'localhost'],
  ])('%s at %s has the limits of the settings, as owner %s', (domain, exchange, owner) => {
    const policy = policyAt(domain, exchange, limits)
    expect(policy).toMatchObject({ owner, sessions: 7, sessionsAMinute: 70 })
    expect(policy.acceptance).toBeUndefined()
    expect(ownerLabel(policy.owner)).toBe('other')
  })

  it.each(['google.com', 'mx.firm.de'])('by %s has a share of its rates', exchange => {
    const [all, half] = [100, 50].map(ratePercent =>
      policyAt('firm.de', exchange, { ...limits, ratePercent })) as [OwnerPolicy, OwnerPolicy]
    const ratesOf = ({ sessionsAMinute, recipientsAMinute: { first, least, most } }: OwnerPolicy) =>
      [sessionsAMinute, first, least, most]
    expect(ratesOf(half)).toEqual(ratesOf(all).map(rate => rate / 2))
    const others = { sessionsAMinute: 0, recipientsAMinute: all.recipientsAMinute }
    expect({ ...half, ...others }).toEqual({ ...all, ...others })
  })
})

it.each([
  ['aspmx.l.google.com', [['google', 'aspmx.l.google.com', ['192.0.2.1', '192.0.2.2']]]],
  ['mx.evil.org', [
    ['192.0.2.1', '192.0.2.1', ['192.0.2.1']], ['192.0.2.2', '192.0.2.2', ['192.0.2.2']],
  ]],
])('the sessions at %s are counted by its owner if listed, else by address', (name, expected) => {
  const places = listPlaces('firm.de', { name, addresses: ['192.0.2.1', '192.0.2.2'] }, limits)
  expect(places.map(({ party, host: { id, addresses } }) => [party, id, addresses]))
    .toEqual(expected)
})

it('of an exchange with many addresses the first four are servers', () => {
  const addresses = Array.from({ length: 9 }, (_, at) => `192.0.2.${at}`)
  const tried = (name: string) =>
    listPlaces('firm.de', { name, addresses }, limits).flatMap(({ host }) => host.addresses)
  expect([tried('mx.google.com'), tried('mx.evil.org')])
    .toEqual([addresses.slice(0, 4), addresses.slice(0, 4)])
})

it.each(ownerPolicies())('every policy of $owner can be kept', policy => {
  const { first, least, most } = policy.recipientsAMinute
  expect([least >= 1, least <= first, first <= most]).toEqual([true, true, true])
  expect(Math.min(policy.sessions, policy.sessionsAMinute, policy.recipientsASession))
    .toBeGreaterThanOrEqual(1)
  // Sessions alone must not be what keeps the rate from its maximum.
  expect(policy.sessionsAMinute * policy.recipientsASession).toBeGreaterThanOrEqual(most)
})
