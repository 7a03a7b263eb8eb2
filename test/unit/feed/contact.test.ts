import { describe, expect, it } from 'vitest'
import type { FeedContact } from '../../../schemas/types.ts'
import { cursorOf, readContact } from '../../../services/feed/contact.ts'
import { SENDER, sealedContact } from '../../support/feeds.ts'

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

describe('a contact', () => {
  it('is read with what its job needs', () => {
    expect(readContact(sealed(), options)).toEqual({
      kind: 'contact',
      contact: { offset: 7, reference: 'c1', input: '(212) 736-5000' },
      terms: { service: 'phone-validation', country: 'US', forceFresh: true },
      ends: false,
      stamp,
    })
    expect(readContact(sealed({ end: true }), options)).toMatchObject({ ends: true })
  })

  it.each<[Partial<FeedContact>, string]>([
    [{ reference: '' }, 'invalid_reference'],
    [{ reference: 'x'.repeat(201) }, 'invalid_reference'],
    [{ service: 'fortune-telling' }, 'unknown_service'],
    [{ service: 'telegram' }, 'service_not_configured'],
    [{ countryCode: 'XX' }, 'invalid_country_code'],
    [{ sentAt: nowMs - 7 * DAY_MS - 1 }, 'invalid_sent_at'],
    [{ sentAt: nowMs + DAY_MS + 1 }, 'invalid_sent_at'],
  ])('with %j is faulty as %s, and its stamp can be judged', (change, fault) => {
    const { sentAt } = sealed(change)
    expect(readContact(sealed(change), options))
      .toEqual({ kind: 'faulty', fault, ends: false, stamp: { ...stamp, sentAt } })
  })

  it.each<Partial<FeedContact>>([
    { sealed: Buffer.from('nothing sealed') }, { sealed: null }, { reference: 'c2' },
    { service: 'telegram' }, { partition: 1 }, { sequence: 6 }, { sentAt: nowMs + 1 },
    { sender: SENDER.replace('0', '1') }, { service: 'fortune-telling', reference: '' },
  ])('whose %j was changed after it was sealed is unreadable, whatever else is wrong', change => {
    expect(readContact({ ...sealed(), ...change }, options))
      .toEqual({ kind: 'faulty', fault: 'unreadable_contact', ends: false })
  })

  it('opens by any key of its partner that has not expired', () => {
    const keys = [Buffer.alloc(32, 2), key]
    expect(readContact(sealed(), { ...options, keys })).toMatchObject({ kind: 'contact' })
    expect(readContact(sealed(), { ...options, keys: keys.slice(0, 1) }))
      .toMatchObject({ fault: 'unreadable_contact' })
  })

  it('is misplaced in a partition that it was not sent to', () => {
    expect(readContact(sealed(), { ...options, partition: 1 })).toEqual({ kind: 'misplaced' })
  })

  it.each([-7, 1])('is accepted %i days from now', days => {
    const sentAt = nowMs + days * DAY_MS
    expect(readContact(sealed({ sentAt }), options)).toMatchObject({ kind: 'contact' })
  })

  it('without a UUID as its sender has no stamp', () => {
    expect(readContact(sealed({ sender: 'x'.repeat(36) }), options))
      .toEqual({ kind: 'faulty', fault: 'invalid_sender', ends: false })
  })

  it('is too long with more than 1,024 characters', () => {
    expect(readContact(sealed({}, 'x'.repeat(1_024)), options)).toMatchObject({ kind: 'contact' })
    expect(readContact(sealed({}, 'x'.repeat(1_025)), options))
      .toMatchObject({ fault: 'too_long_input' })
  })

  it('may be none at all, but an end', () => {
    const end = { ...sealed(), reference: '', sealed: null, end: true }
    expect(readContact(end, options)).toEqual({ kind: 'marker' })
  })
})

it('a cursor has one name for the same service and options', () => {
  const terms = { service: 'whatsapp', country: 'DE', forceFresh: true } as const
  expect(cursorOf(terms)).toBe('whatsapp|DE|fresh')
  expect(cursorOf({ ...terms, country: '', forceFresh: false })).toBe('whatsapp||')
})
