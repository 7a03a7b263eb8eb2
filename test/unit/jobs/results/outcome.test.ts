import { describe, expect, it } from 'vitest'
import { rowOutcomeOf, withoutVerdict } from '../../../../services/jobs/results/outcome.ts'
import { cachedRecord } from '../../../support/stage-messages.ts'

const subject = { service: 'phone-validation', canonical: '+12127365000', copies: 2 } as const
const terms = { source: 'cache', freshnessMs: 50 } as const

describe('the outcome of a record', () => {
  it('combines the stored fields with those derived from the contact', () => {
    const record = cachedRecord({ checkedAtMs: 100, fields: { carrier: 'Acme', e164: 'stale' } })
    const outcome = rowOutcomeOf(record, subject, terms)
    expect(outcome).toMatchObject({
      status: 'valid',
      source: 'cache',
      confidence: 90,
      checkedAtMs: 100,
      expiresAtMs: 150,
      copies: 2,
    })
    expect(outcome.fields).toBe(record.fields)
  })

  it.each([
    ['+12127365000', ['+1 212 736 5000', 'US', '(212) 736-5000']],
    ['+442079460958', ['+44 20 7946 0958', 'GB', '020 7946 0958']],
    ['+80012345678', ['+800 1234 5678', '', '1234 5678']],
    ['+15550000000', ['+1 555 000 0000', '', '(555) 000-0000']],
  ])('writes %s in each format', (canonical, [phone, ...others]) => {
    const { contact } = rowOutcomeOf(cachedRecord(), { ...subject, canonical }, terms)
    expect(Object.values(contact)).toEqual([phone, canonical, ...others])
  })

  const contactOf = (canonical: string, fields: Record<string, string>) => {
    const contact = { ...subject, service: 'email-validation', canonical } as const
    return rowOutcomeOf(cachedRecord({ fields }), contact, terms).contact
  }

  it('splits an address at the last sign, and makes the suggested domain an address', () => {
    expect(contactOf('"a@b"@x.org', { suggestion: '' }))
      .toEqual({ email: '"a@b"@x.org', domain: 'x.org', normalized: '"a@b"@x.org' })
    expect(contactOf('jane@gmial.com', { suggestion: 'gmail.com' })).toEqual({
      email: 'jane@gmial.com',
      domain: 'gmial.com',
      normalized: 'jane@gmial.com',
      suggestion: 'jane@gmail.com',
    })
  })

  it('restores the mail exchange, and says whose it is and which form the mailbox has', () => {
    expect(contactOf('J.Doe+a@firm.org', { mx_record: '*1-org.mail.protection.outlook.com' }))
      .toEqual({
        email: 'J.Doe+a@firm.org',
        domain: 'firm.org',
        normalized: 'j.doe@firm.org',
        mx_record: 'firm-org.mail.protection.outlook.com',
        mail_provider: 'microsoft',
      })
    expect(contactOf('jane+a@firm.org', { mx_record: 'mail.*1.org' })).toMatchObject({
      normalized: 'jane+a@firm.org', mx_record: 'mail.firm.org', mail_provider: 'other',
    })
    // A record of a release that stored no exchange.
    expect(contactOf('J.Doe+a@gmail.com', {})).toEqual({
      email: 'J.Doe+a@gmail.com', domain: 'gmail.com', normalized: 'jdoe@gmail.com',
    })
  })

  it('does not take anything but a canonical form', () => {
    expect(() => rowOutcomeOf(cachedRecord(), { ...subject, canonical: 'call me' }, terms))
      .toThrow('needs a canonical E.164 number')
  })

  it('expires at once and has no source when there is no verdict', () => {
    const record = cachedRecord({ status: 'unknown', reason: 'no_answer', checkedAtMs: 100 })
    expect(rowOutcomeOf(record, subject, { ...terms, source: 'live' }))
      .toMatchObject({ expiresAtMs: 100, source: 'none' })
  })
})

describe('a row without a verdict', () => {
  it('has what follows from its canonical form, and the check of the syntax', () => {
    expect(withoutVerdict('unavailable', { atMs: 9, subject })).toMatchObject({
      status: 'unknown',
      source: 'none',
      reason: 'unavailable',
      evidence: 0,
      checkedAtMs: 9,
      expiresAtMs: 9,
      copies: 2,
      contact: { e164: '+12127365000', country: 'US' },
    })
    expect(withoutVerdict('internal', { atMs: 0 })).toMatchObject({ contact: {}, copies: 0 })
    expect(withoutVerdict('internal', { atMs: 0 }).evidence).toBeUndefined()
  })
})
