import { describe, expect, it } from 'vitest'
import type { FeedContact } from '../../../schemas/types.ts'
import { nameCursor, readContact } from '../../../services/feed/contact.ts'
import { SENDER, sealedContact } from '../../support/feeds/feeds.ts'

const DAY_MS = 86_400_000
const nowMs = 1_790_000_000_000
const key = Buffer.alloc(32, 1)
const isConfigured = (service: string) => service !== 'telegram'
const options = { partner: 'acme', keys: [key], partition: 0, offset: 7, isConfigured, nowMs }
const stamp = { sender: SENDER, sequence: 5, sentAt: nowMs }

function sealed (change: Partial<FeedContact> = {}, input = '(212) 736-5000'): FeedContact {
  return sealedContact(key, input, {
    partner: 'acme',
    reference: 'c1',
    service: 'phone-validation',
    countryCode: 'us',
    forceFresh: true,
    sequence: 5,
    sentAt: nowMs,
    ...change,
  })
}

describe('a contact of a feed', () => {
  it.each<[Partial<FeedContact>, string]>([
    [{ reference: '' }, 'invalid_reference'],
    [{ reference: 'x'.repeat(201) }, 'invalid_reference'],
    [{ service: 'fortune-telling' }, 'unknown_service'],
    [{ service: 'telegram' }, 'service_not_configured'],
    [{ countryCode: 'XX' }, 'invalid_country_code'],
    [{ sentAt: nowMs - 7 * DAY_MS - 1 }, 'invalid_sent_at'],
    [{ sentAt: nowMs + DAY_MS + 1 }, 'invalid_sent_at'],
  ])('with %j is rejected as %s, with its stamp', (change, reason) => {
    const { sentAt } = sealed(change)
    expect(readContact(sealed(change), options))
      .toEqual({ kind: 'rejected', reason, endsBatch: false, stamp: { ...stamp, sentAt } })
  })

  it.each<Partial<FeedContact>>([
    { sealed: null }, { reference: 'c2' }, { service: 'fortune-telling', reference: '' },
  ])('whose %j was changed after sealing is rejected as unreadable', change => {
    expect(readContact({ ...sealed(), ...change }, options))
      .toEqual({ kind: 'rejected', reason: 'unreadable_contact', endsBatch: false })
  })

  it.each<Partial<FeedContact>>([
    { sentAt: nowMs - 7 * DAY_MS }, { sentAt: nowMs + DAY_MS }, { reference: 'x'.repeat(200) },
  ])('with %j is accepted', change => {
    expect(readContact(sealed(change), options)).toMatchObject({ kind: 'contact' })
  })

  it('without a UUID as its sender has no stamp', () => {
    expect(readContact(sealed({ sender: 'x'.repeat(36) }), options))
      .toEqual({ kind: 'rejected', reason: 'invalid_sender', endsBatch: false })
  })

  it('is too long with more than 1,024 characters beside white space', () => {
    expect(readContact(sealed({}, 'x'.repeat(1_024)), options)).toMatchObject({ kind: 'contact' })
    expect(readContact(sealed({}, 'x'.repeat(1_025)), options))
      .toMatchObject({ reason: 'too_long_input' })
    expect(readContact(sealed({}, `${' '.repeat(1_020)}+12127365000 `), options))
      .toMatchObject({ contact: { input: '+12127365000' } })
  })
})

it('a cursor has one name for the same service and options', () => {
  const terms = { service: 'whatsapp', country: 'DE', forceFresh: true } as const
  expect(nameCursor(terms)).toBe('whatsapp|DE|fresh')
  expect(nameCursor({ ...terms, country: '', forceFresh: false })).toBe('whatsapp||')
})
