import { readFileSync } from 'node:fs'
import { parse } from 'csv-parse/sync'
import emailAddresses from 'email-addresses'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalEmail } from '../../../services/normalize/email.ts'
import { emailIdentity } from '../../../services/jobs/results/columns.ts'
import { unicodeText } from '../../support/texts.ts'

/** The canonical form, or the reason in brackets. */
const outcome = (input: string) => {
  const result = canonicalEmail(input)
  return result.ok ? result.canonical : `(${result.reason})`
}

describe('canonicalEmail', () => {
  it.each([
    ['jane.doe@example.org', 'jane.doe@example.org'],
    ['  Jane.Doe@EXAMPLE.org\r\n', 'Jane.Doe@example.org'],
    ['info@B\u00fccher.Example', 'info@xn--bcher-kva.example'],
    ['info@XN--Bcher-kva.example', 'info@xn--bcher-kva.example'],
    ['info@\uff47mail.com', 'info@gmail.com'],
    ['m\u00fcller@gmail.com', 'm\u00fcller@gmail.com'],
    ['mu\u0308ller@gmail.com', 'm\u00fcller@gmail.com'],
    ['"quoted local"@example.org', '"quoted local"@example.org'],
    ['"a@b"@example.org', '"a@b"@example.org'],
    ['"\\a \\"b\\\\"@example.org', '"a \\"b\\\\"@example.org'],
    ['"jane.doe"@example.org', 'jane.doe@example.org'],
    ['John Smith <john@foo.com>', 'john@foo.com'],
    ['"Smith, John (Sales) @ Foo" <john@foo.com>', 'john@foo.com'],
    ['J\u00fcrgen\u00a0M\u00fcller <j@foo.com>', 'j@foo.com'],
    ['<jane@x.org>', 'jane@x.org'],
    ['jane(work)@x.org', 'jane@x.org'],
    ['(a (nested) one) jane @ x.org (work \\) too)', 'jane@x.org'],
    ['John (work) <"a b"@foo.com>', '"a b"@foo.com'],
    ['mailto:jane@x.org', 'jane@x.org'],
    ['MAILTO:%22a%20b%22@x.org?subject=hi', '"a b"@x.org'],
    ['mailto:100%@x.org', '100%@x.org'],
    ['jane@x.org.', 'jane@x.org'],
    ['jane@b\u00fccher.example\u3002', 'jane@xn--bcher-kva.example'],
    ['user@[127.0.0.1]', 'user@[127.0.0.1]'],
    ['user@[ipv6:2001:DB8:0::1]', 'user@[IPv6:2001:db8::1]'],
    ["o'hara+tag@x.org", "o'hara+tag@x.org"],
    ['user@under_score.org', 'user@under_score.org'],
    ['<mailto:jane@x.org>', 'jane@x.org'],
    ['jane@x.org <mailto:jane@x.org>', 'jane@x.org'],
    ['Jane@X.org <Jane@X.org>', 'Jane@x.org'],
    ['Doe, Jane <jane@x.org>', 'jane@x.org'],
    ['Jane [Sales]; Foo <jane@x.org>', 'jane@x.org'],
    ["'jane@x.org'", 'jane@x.org'],
    ['"jane@x.org"', 'jane@x.org'],
    ['\u201cjane@x.org\u201d', 'jane@x.org'],
    ['Jane <jane@x.org>;', 'jane@x.org'],
    ['jane@x.org , ', 'jane@x.org'],
    [`${'a'.repeat(64)}@x.org`, `${'a'.repeat(64)}@x.org`],
  ])('reads %j as %s', (input, expected) => {
    expect(outcome(input)).toBe(expected)
  })

  it.each([
    ['', 'empty'],
    [' \t', 'empty'],
    [`${'a'.repeat(316)}@x.org`, 'too_long_input'],
    ['jane\u0000@x.org', 'control_character'],
    ['jane@x.org\nbcc: joe@x.org', 'control_character'],
    ['jane@x.org\ud800', 'malformed_unicode'],
    ['ja\u200bne@x.org', 'hidden_character'],
    ['jane@x\u00ad.org', 'hidden_character'],
    ['\u202ejane@x.org', 'hidden_character'],
    ['ja\u2003ne@x.org', 'not_an_email'],
    ['plainaddress', 'not_an_email'],
    ['+1 212 736 5000', 'not_an_email'],
    ['@no-local.org', 'not_an_email'],
    ['two@@at.org', 'not_an_email'],
    ['a@b@c.org', 'not_an_email'],
    ['a b@c.org', 'not_an_email'],
    ['a..b@c.org', 'not_an_email'],
    ['a@x.org, b@x.org', 'not_an_email'],
    ['"open@x.org', 'not_an_email'],
    ['Jane <jane@x.org', 'not_an_email'],
    ['Jane <jane@x.org> Doe', 'not_an_email'],
    ['jane@x.org <joe@x.org>', 'not_an_email'],
    ['Jane <plainaddress>', 'not_an_email'],
    ['Jane <ja\u200bne@x.org>', 'hidden_character'],
    ['jane(work@x.org', 'not_an_email'],
    ['mailto:', 'empty'],
    ['mailto:jane%00@x.org', 'control_character'],
    ['mailto:a@x.org,b@x.org', 'not_an_email'],
    ['user@[127.0.0.1', 'invalid_domain'],
    ['user@[127.0.0.256]', 'invalid_domain'],
    ['user@[IPv6:127.0.0.1]', 'invalid_domain'],
    ['user@[x.org]', 'invalid_domain'],
    ['user@', 'invalid_domain'],
    ['user@-bad.org', 'invalid_domain'],
    ['user@exam ple.org', 'invalid_domain'],
    ['user@.org', 'invalid_domain'],
    ['user@x.org..', 'invalid_domain'],
    ['user@x.com©', 'invalid_domain'],
    ['user@127.0.0.1', 'invalid_domain'],
    ['user@x.123', 'invalid_domain'],
    ['user@yy--0.com', 'invalid_domain'],
    ['root@localhost', 'invalid_domain'],
    ['jane@gmail', 'invalid_domain'],
    ['jane@xn--0.com', 'invalid_domain'],
    ['jane@xn--zzzzzzzzzzzz.com', 'invalid_domain'],
    ['user@_dmarc.x.org', 'invalid_domain'],
    ['user@x.or_g', 'invalid_domain'],
    [`user@${'a'.repeat(64)}.org`, 'invalid_domain'],
    [`${'a'.repeat(65)}@x.org`, 'local_part_too_long'],
    [`${'\u00fc'.repeat(33)}@x.org`, 'local_part_too_long'],
    [`jane@${'a'.repeat(62)}.${'b'.repeat(62)}.${'c'.repeat(62)}.${'d'.repeat(62)}.org`,
      'address_too_long'],
  ])('rejects %j: %s', (input, reason) => {
    expect(outcome(input)).toBe(`(${reason})`)
  })

  it('maps every canonical form to itself and never throws', () => {
    const local = fc.oneof(fc.stringMatching(/^[\w.!#'+-]{1,20}$/), unicodeText())
    const domain = fc.oneof(fc.domain(), unicodeText(20))
    const around = fc.constantFrom(['', ''], ['Jane <', '>'], ['mailto:', ''], ['"', ''], ['', '.'])
    const input = fc.tuple(local, domain, around).map(([name, host, [before, behind]]) =>
      `${before}${name}@${host}${behind}`)
    fc.assert(fc.property(input, (text) => {
      const result = canonicalEmail(text)
      if (result.ok) expect(canonicalEmail(result.canonical)).toEqual(result)
    }), { numRuns: 3_000 })
  })

  it('agrees with the full grammar where it does not use it', () => {
    const local = fc.stringMatching(/^[\w.!#$%&'*+/=?^`{|}~ ()<>,;:"\\-]{1,12}$/)
    fc.assert(fc.property(local, (name) => {
      const text = `${name}@example.org`
      const result = canonicalEmail(text)
      const options = { input: text, startAt: 'mailbox', rfc6532: true, strict: true } as const
      if (result.ok) expect(emailAddresses.parseOneAddress(options)?.type).toBe('mailbox')
      else expect(result.reason).toBe('not_an_email')
    }), { numRuns: 2_000 })
  })
})

describe('emailIdentity', () => {
  it('compares local parts without case', () => {
    expect(emailIdentity('Jane.DOE@x.org')).toBe(emailIdentity('jane.doe@x.org'))
    expect(emailIdentity('jane.do@x.org')).not.toBe(emailIdentity('jane.doe@x.org'))
    expect(emailIdentity('')).toBe('')
  })
})

it('the sample e-mails have known counts of outcomes', () => {
  const sample = new URL('../../../deploy/sample/emails.csv', import.meta.url)
  const results = parse(readFileSync(sample), { from_line: 2 })
    .map(([value]) => canonicalEmail(value ?? ''))
  const outcomes = Map.groupBy(results, result => result.ok ? 'canonical' : result.reason)
  const counts = [...outcomes].map(([outcome, { length }]) => [outcome, length])
  expect(Object.fromEntries(counts)).toEqual({
    canonical: 926,
    not_an_email: 52,
    invalid_domain: 12,
    local_part_too_long: 6,
    empty: 4,
  })
})
