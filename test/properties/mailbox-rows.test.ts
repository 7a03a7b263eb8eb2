import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { contactIdentities, listRowFields } from '../../services/jobs/results/columns.ts'
import { createRowFilter } from '../../services/jobs/results/results.ts'
import {
  MAIL_OWNERS, maskExchange, normalizedMailbox, unmaskExchange,
} from '../../services/mail/owners.ts'
import { canonicalEmail } from '../../services/normalize/canonical.ts'

const filled = (pattern: string) => pattern.replace('{country}', 'de')
const label = fc.stringMatching(/^[a-z0-9][a-z0-9-]{0,8}[a-z0-9]$/)
const ownDomains = MAIL_OWNERS.flatMap(({ domains }) => domains).map(filled)
const domain = fc.oneof(
  fc.constantFrom(...ownDomains),
  fc.tuple(label, fc.constantFrom(...ownDomains)).map(parts => parts.join('.')),
  fc.tuple(label, label, fc.constantFrom('org', 'co.uk', 'com')).map(parts => parts.join('.')),
)
const exchange = fc.oneof(
  fc.constant(''),
  fc.constantFrom(...MAIL_OWNERS.flatMap(({ exchanges }) => exchanges))
    .map(pattern => `mx.${filled(pattern).replace('*.', '')}`),
  fc.tuple(label, label).map(([host, name]) => `${host}.${name}.net`),
)
const local = fc.oneof(
  fc.stringMatching(/^[A-Za-z0-9+._-]{1,12}$/),
  fc.stringMatching(/^"[a-z +.@-]{1,8}"$/),
  fc.constantFrom('Ünal+a', 'ΑΣ', 'İ.x', '+a', '--', 'a+', 'a-'),
)
const address = fc.tuple(local, domain).map(parts => parts.join('@'))
  .map(text => canonicalEmail(text))
  .filter(form => form.ok)
  .map(({ canonical }) => canonical)

it('the normalized form of an address ' +
  'is an address and its own normalized form, the same for equal contacts', () => {
  fc.assert(fc.property(address, exchange, (canonical, host) => {
    const form = normalizedMailbox(canonical, host)
    expect(normalizedMailbox(form, host)).toBe(form)
    expect(form).toMatch(/^.+@[^@]+$/)
    const [identity = ''] = contactIdentities('email', [canonical])
    expect(normalizedMailbox(identity, host)).toBe(form)
    expect(normalizedMailbox(canonical.toUpperCase().toLowerCase(), host))
      .toBe(normalizedMailbox(canonical.toUpperCase(), host))
  }), { numRuns: 2_000 })
})

it('a masked mail exchange has no label of its domain, and is restored by the domain alone', () => {
  const related = fc.tuple(domain, fc.constantFrom('mail.%', 'mx.%.net', '%', 'a-%-b.host.net'))
    .map(([of, shape]) => [shape.replace('%', of), of] as const)
  const pairs = fc.oneof(related, fc.tuple(exchange.filter(host => host !== ''), domain))
  fc.assert(fc.property(pairs, ([host, of]) => {
    const masked = maskExchange(host, of)
    expect(unmaskExchange(masked, of)).toBe(host)
    const labels = of.split('.').slice(0, -1)
    const words = masked.replaceAll(/\*\d/g, '*')
    expect(labels.filter(name => words.includes(name))).toEqual([])
  }), { numRuns: 2_000 })
})

describe('the rows of one for each mailbox', () => {
  const fields = listRowFields('email-validation')
  const cellsOf = (row: Readonly<Record<string, string>>) => fields.map(name => row[name] ?? '')
  const row = fc.record({
    normalized: fc.constantFrom('', 'a@x.org', 'b@x.org', 'c@x.org'),
    email: fc.constantFrom('', 'A@x.org', 'b@x.org'),
    status: fc.constantFrom('valid', 'risky'),
  })

  it('are the first of each that the other filters select, and all without an address', () => {
    const wanted = fc.constantFrom(undefined, ['valid'])
    fc.assert(fc.property(fc.array(row, { maxLength: 30 }), wanted, (rows, status) => {
      const keep = createRowFilter('email-validation', { status, duplicates: 'mailbox' })
      const kept = rows.filter(cells => keep?.(cellsOf(cells)))
      const mailboxOf = ({ normalized, email }: typeof rows[number]) =>
        normalized === '' ? email.toLowerCase() : normalized
      const selected = rows.filter(it => status === undefined || it.status === 'valid')
      const expected = selected.filter((it, at) => mailboxOf(it) === '' ||
        selected.findIndex(other => mailboxOf(other) === mailboxOf(it)) === at)
      expect(kept).toEqual(expected)
    }))
  })
})
