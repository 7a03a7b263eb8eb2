import { describe, expect, it } from 'vitest'
import { sealContact } from '../../../schemas/feeds/seal.ts'
import type { FeedContact } from '../../../schemas/types.ts'
import { cursorOf, readContact } from '../../../services/feed/contact.ts'

const key = Buffer.alloc(32, 1)
const isConfigured = (service: string) => service !== 'telegram'
const options = { partner: 'acme', key, offset: 7, isConfigured }

function sealed (change: Partial<FeedContact> = {}, input = '(212) 736-5000'): FeedContact {
  const place = {
    reference: 'c1', service: 'phone-validation', countryCode: 'us', forceFresh: true, ...change,
  }
  const bytes = sealContact(key, { partner: 'acme', ...place }, input)
  return { sealed: bytes, end: false, ...place }
}

describe('a contact', () => {
  it('is read with what its job needs', () => {
    expect(readContact(sealed(), options)).toEqual({
      kind: 'contact',
      contact: { offset: 7, reference: 'c1', input: '(212) 736-5000' },
      terms: { service: 'phone-validation', country: 'US', forceFresh: true },
      ends: false,
    })
    expect(readContact(sealed({ end: true }), options)).toMatchObject({ ends: true })
  })

  it.each<[Partial<FeedContact>, string]>([
    [{ reference: '' }, 'invalid_reference'],
    [{ reference: 'x'.repeat(201) }, 'invalid_reference'],
    [{ service: 'fortune-telling' }, 'unknown_service'],
    [{ service: 'telegram' }, 'service_not_configured'],
    [{ countryCode: 'XX' }, 'invalid_country_code'],
    [{ sealed: Buffer.from('nothing sealed') }, 'unreadable_contact'],
    [{ sealed: null }, 'unreadable_contact'],
  ])('with %j is told that it is %s', (change, fault) => {
    expect(readContact({ ...sealed(change), ...change }, options))
      .toEqual({ kind: 'faulty', fault, ends: false })
  })

  it('that was moved to another reference is not readable', () => {
    expect(readContact({ ...sealed(), reference: 'c2' }, options))
      .toMatchObject({ fault: 'unreadable_contact' })
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
