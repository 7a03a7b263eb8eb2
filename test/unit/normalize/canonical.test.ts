import { readFileSync } from 'node:fs'
import { parse } from 'csv-parse/sync'
import emailAddresses from 'email-addresses'
import fc from 'fast-check'
import { getCountries } from 'libphonenumber-js/max'
import { describe, expect, it } from 'vitest'
import { canonicalEmail, canonicalPhone } from '../../../services/normalize/canonical.ts'
import { unicodeText } from '../../support/texts.ts'

/** The canonical form, or the reason in brackets. */
const phone = (input: string, country?: string) => textOf(canonicalPhone(input, country))
const email = (input: string) => textOf(canonicalEmail(input))
const textOf = (result: ReturnType<typeof canonicalEmail>) =>
  result.ok ? result.canonical : `(${result.reason})`

describe('a phone number', () => {
  it.each([
    ['  +420 212 341 661 ', undefined, '+420212341661'],
    ['+44 (0)20 7946 0958', undefined, '+442079460958'],
    ['020 7946 0958', 'GB', '+442079460958'],
    ['011442079460958', 'US', '+442079460958'],
    ['0044 20 7946 0958', 'DE', '+442079460958'],
    ['0044 20 7946 0958', undefined, '(no_calling_code)'],
    ['212 736 5000', undefined, '(no_calling_code)'],
    ['212 736 5000', 'XX', '(no_calling_code)'],
    ['(212) 736-5000', 'US', '+12127365000'],
    ['212 736 5000 ext. 12', 'US', '+12127365000'],
    ['tel:+1-212-736-5000', undefined, '+12127365000'],
    ['+1 500 000 0000', undefined, '+15000000000'],
    ['+800 1234 5678', undefined, '+80012345678'],
    ['+0123456789', undefined, '(unknown_calling_code)'],
    ['001 212 736 5000', 'GB', '+12127365000'],
    ['+012127365000', undefined, '(unknown_calling_code)'],
    ['+999999999999', undefined, '(unknown_calling_code)'],
    ['1-800-FLOWERS', 'US', '+18003569377'],
    ['+1212PENNSYL', undefined, '+12127366795'],
    ['+', 'US', '(not_a_phone_number)'], ['()', 'US', '(not_a_phone_number)'],
    ['tel:', 'US', '(not_a_phone_number)'], ['-', 'US', '(not_a_phone_number)'],
    ['call me', 'US', '(not_a_phone_number)'],
    ['someone@example.org', 'US', '(not_a_phone_number)'],
  ])('%j in country %s is %s', (input, country, expected) => {
    expect(phone(input, country)).toBe(expected)
  })

  it.each([
    ['+1', 'too_short'], ['+17365000', 'too_short'], ['736 5000', 'too_short'],
    ['+121273650001', 'too_long'], ['+491234567890123456789', 'too_long'],
    ['+43 1', 'too_short'], ['+4930', 'too_short'], ['+4412345678', 'impossible_length'],
    ['+13111234', 'too_short'], ['+13101234', undefined], ['+49301234567890123', undefined],
  ])('%s has the length fault %s', (input, fault) => {
    expect(phone(input, 'US')).toBe(fault === undefined ? input : `(${fault})`)
  })

  it.each([
    ['\uff0b\uff11\uff12\uff11\uff12\uff17\uff13\uff16\uff15\uff10\uff10\uff10', '+12127365000'],
    ['\u0662\u0661\u0662\u0667\u0663\u0666\u0665\u0660\u0660\u0660', '+12127365000'],
    ['\u202a+1\u200b212\u00ad736\u20605000\u202c', '+12127365000'],
    ['\ufeff212\u00a0736\u00a05000', '+12127365000'],
    ['\u2066+1212736\u200d5000\u2069', '+12127365000'],
    ['+\u06f1\u06f2\u06f1\u06f2\u06f7\u06f3\u06f6\u06f5\u06f0\u06f0\u06f0', '+12127365000'],
    ['+1 212 736 5000\r\n', '+12127365000'],
    ['', '(empty)'], [' \t\r\n', '(empty)'], ['\u200b\u200e', '(empty)'],
    ['\u00a0\u3000', '(empty)'], ['\ufeff', '(empty)'],
    ['+1 212\u0000736 5000', '(control_character)'],
    ['+1 212\u0085736 5000', '(control_character)'],
    ['+1 212\t736 5000', '(control_character)'],
    ['\u0007+12127365000', '(control_character)'], ['\u009b1', '(control_character)'],
    ['+1 212 736 5000\ud800', '(malformed_unicode)'], ['\udc00\ud800', '(malformed_unicode)'],
    ['1'.repeat(321), '(too_long_input)'], ['1'.repeat(320), '(too_long)'],
    ['\u{1f4de}'.repeat(320), '(not_a_phone_number)'],
    [`${'\u{1f4de}'.repeat(320)}x`, '(too_long_input)'],
  ])('with special characters, %j, is %s', (input, expected) => {
    expect(phone(input, 'US')).toBe(expected)
  })

  it('has a canonical form that maps to itself, and is never an exception', () => {
    const country = fc.constantFrom(undefined, ...getCountries())
    const digits = fc.stringMatching(/^[+0-9 ().-]{3,18}$/)
    const input = fc.oneof(digits, digits.map(text => `+${text}`), unicodeText())
    fc.assert(fc.property(input, country, country, (text, first, second) => {
      const result = canonicalPhone(text, first)
      if (result.ok) expect(canonicalPhone(result.canonical, second)).toEqual(result)
    }), { numRuns: 8_000 })
  })
})

describe('an e-mail address', () => {
  it.each([
    ['jane.doe@example.org', 'jane.doe@example.org'],
    ['  Jane.Doe@EXAMPLE.org\r\n', 'Jane.Doe@example.org'],
    ['info@B\u00fccher.Example', 'info@xn--bcher-kva.example'],
    ['info@bu\u0308cher.example', 'info@xn--bcher-kva.example'],
    ['info@XN--Bcher-kva.example', 'info@xn--bcher-kva.example'],
    ['jane@ex\u0430mple.com', 'jane@xn--exmple-4nf.com'],
    ['info@\uff47mail.com', 'info@gmail.com'],
    ['\uff4a\uff41\uff4e\uff45\uff20\uff58.org\uff0c', 'jane@x.org'],
    ['jane@x.org\u200b', 'jane@x.org'], ['\u200e jane@x.org \u00ad\u200f', 'jane@x.org'],
    ['o\u2019brien@x.org', "o'brien@x.org"],
    ['\u2018jane\u2011lou@x.org\u2019', 'jane-lou@x.org'],
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
    ['SMTP:Jane@x.org', 'Jane@x.org'], ['smtp: jane@x.org', 'jane@x.org'],
    ['Jane <smtp:jane@x.org>', 'jane@x.org'], ['"smtp:jane"@x.org', '"smtp:jane"@x.org'],
    ['Doe, Jane [mailto:jane@x.org]', 'jane@x.org'], ['[SMTP:jane@x.org]', 'jane@x.org'],
    ['jane..doe.@docomo.ne.jp', '"jane..doe."@docomo.ne.jp'],
    ['"jane."@DoCoMo.ne.jp', '"jane."@docomo.ne.jp'],
    ['jane.-x@docomo.ne.jp', 'jane.-x@docomo.ne.jp'],
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
    // What spreadsheets, links and pages leave before an address.
    ["'jane@x.org", 'jane@x.org'], ["''o'hara@x.org", "o'hara@x.org"],
    ["'jane'@x.org", "'jane'@x.org"], ['"\'jane"@x.org', '"\'jane"@x.org'],
    ['mailto://jane@x.org', 'jane@x.org'], ['%20jane@x.org', 'jane@x.org'],
    ['jane%2Bt@x.org', 'jane+t@x.org'], ['jane%other.org@x.org', 'jane%other.org@x.org'],
    ['\u201cjane@x.org', 'jane@x.org'], ['\u2022jane@x.org', 'jane@x.org'],
    ['\u{1f4e7} jane@x.org', 'jane@x.org'], ['\uf0e0jane@x.org', 'jane@x.org'],
    ['\u00ef\u00bb\u00bfjane@x.org', 'jane@x.org'],
    ['\u00abm\u00fcller@x.org', 'm\u00fcller@x.org'],
    ["'\u{1f4e7}jane@x.org", 'jane@x.org'], ["%20\u2022 'jane@x.org", 'jane@x.org'],
    ['%20\u00ef\u00bb\u00bfjane@x.org', 'jane@x.org'], ['\u2709\ufe0f jane@x.org', 'jane@x.org'],
    ['\u{1f355}@x.org', '\u{1f355}@x.org'], ['"a%2bb"@x.org', '"a%2bb"@x.org'],
    ['\u4e94\u3007@x.org', '\u4e94\u3007@x.org'],
    ['\u30a2\u30fb\u30a4@\u30a2\uff65\u30a4.jp', '\u30a2\u30fb\u30a4@xn--ccke4x.jp'],
    ['\u057d\u0565\u0587@x.org', '\u057d\u0565\u0587@x.org'],
    ['ja\u{1f348}ne@x.org', 'ja\u{1f348}ne@x.org'],
    ['\u202ajane@x.org\u202c', 'jane@x.org'],
    ['JANE@x.org <jane@X.org>', 'jane@x.org'],
    ['jane.@ezweb.ne.jp.', '"jane."@ezweb.ne.jp'],
    // Letters of styles and ligatures, and the capitals of Turkish.
    ['o\ufb03ce@x.org', 'office@x.org'],
    ['\u{1d5f7}\u{1d5ee}\u{1d5fb}\u{1d5f2}@x.org', 'jane@x.org'],
    ['JANE@HOTMA\u0130L.COM', 'JANE@hotmail.com'],
    ['\u0130NFO@F\u0130RMA.COM.TR', 'INFO@firma.com.tr'],
    ['i\u0307nfo@fi\u0307rma.com.tr', 'info@firma.com.tr'],
    ['jane@\u2764.ws', 'jane@xn--qei.ws'],
    ['jane@col\u00b7lecci\u00f3.cat', 'jane@xn--collecci-ioa91d.cat'],
    ['"jane@x.org"', 'jane@x.org'],
    ['\u201cjane@x.org\u201d', 'jane@x.org'],
    ['Jane <jane@x.org>;', 'jane@x.org'],
    ['jane@x.org , ', 'jane@x.org'],
    [`${'a'.repeat(64)}@x.org`, `${'a'.repeat(64)}@x.org`],
  ])('%j is %s', (input, expected) => {
    expect(email(input)).toBe(expected)
  })

  const long = (letter: string) => letter.repeat(62)
  it.each(Object.entries({
    empty: ['', ' \t', 'mailto:', '\u00a0\u3000', '\ufeff', '\u200b \u200e'],
    too_long_input: [`${'a'.repeat(316)}@x.org`],
    control_character: [
      'jane\u0000@x.org', 'jane@x.org\nbcc: joe@x.org', 'mailto:jane%00@x.org', '\u009b1',
      '\u001b[2J',
    ],
    malformed_unicode: ['jane@x.org\ud800', '\udc00\ud800'],
    hidden_character: [
      'ja\u200bne@x.org', 'jane@x\u00ad.org', '\u202ejane@x.org', 'Jane <ja\u200bne@x.org>',
      'jane@exam\u202eple.com', 'jane\u2066@x.org', '\u202ejane@x.org\u202c',
    ],
    not_an_email: [
      'ja\u2003ne@x.org', 'plainaddress', '+1 212 736 5000', '@no-local.org', 'two@@at.org',
      'a@b@c.org', 'a b@c.org', 'a..b@c.org', '.jane@x.org', '.jane@docomo.ne.jp',
      'x400:jane@x.org',
      'Jane <jane@x.org> [mailto:joe@x.org]', 'joe@x.org [mailto:jane@x.org]',
      'a@x.org, b@x.org', '"open@x.org',
      'Jane <jane@x.org', 'Jane <jane@x.org> Doe', 'jane@x.org <joe@x.org>',
      'Jane <plainaddress>', 'jane(work@x.org', 'mailto:a@x.org,b@x.org',
      '\u2026doe@x.org', 'jane\u2122@x.org', 'jane\u00ba@x.org', 'ja\ue000ne@x.org',
      '"\u2022jane"@x.org', 'joe@x.org <jane@x.org>', '\u21165@x.org', '\u2460jane@x.org',
    ],
    invalid_domain: [
      'user@[127.0.0.1', 'user@[127.0.0.256]', 'user@[IPv6:127.0.0.1]', 'user@[x.org]', 'user@',
      'user@-bad.org', 'user@exam ple.org', 'user@.org', 'user@x..org', 'user@x.org..',
      'user@x.com©', 'jane@firm\u00b9.de', 'jane@acme\u2122.com', 'jane@\u2116.de',
      'jane@x.com\u00b2', 'jane@x.com\u00ba', 'jane@my\u2013firm.com', 'jane@x.com\u2026',
      'jane@m\u00fcller.de/x', 'jane@m\u00fcller.de#', 'jane@\u0440\u0444-.com',
      'user@127.0.0.1', 'user@x.123', 'user@yy--0.com', 'root@localhost', 'jane@gmail',
      'jane@xn--0.com', 'jane@xn--zzzzzzzzzzzz.com', 'user@_dmarc.x.org', 'user@x.or_g',
      `user@${'a'.repeat(64)}.org`,
    ],
    local_part_too_long: [`${'a'.repeat(65)}@x.org`, `${'\u00fc'.repeat(33)}@x.org`],
    address_too_long: [`jane@${long('a')}.${long('b')}.${long('c')}.${long('d')}.org`],
  }).flatMap(([reason, inputs]) => inputs.map(input => ({ reason, input }))))(
    'is not there, $reason, in $input', ({ reason, input }) => {
      expect(email(input)).toBe(`(${reason})`)
    })

  it('has a canonical form that maps to itself, and is never an exception', () => {
    const local = fc.oneof(fc.stringMatching(/^[\w.!#'+-]{1,20}$/), unicodeText())
    const domain = fc.oneof(fc.domain(), unicodeText(20))
    const around = fc.constantFrom(['', ''], ['Jane <', '>'], ['mailto:', ''], ['"', ''], ['', '.'])
    const input = fc.tuple(local, domain, around).map(([name, host, [before, behind]]) =>
      `${before}${name}@${host}${behind}`)
    fc.assert(fc.property(input, text => {
      const result = canonicalEmail(text)
      if (result.ok) expect(canonicalEmail(result.canonical)).toEqual(result)
    }), { numRuns: 3_000 })
  })

  it('agrees with the full grammar where that is not used', () => {
    const local = fc.stringMatching(/^[\w.!#$%&'*+/=?^`{|}~ ()<>,;:"\\-]{1,12}$/)
      // Not what stands before an address, or for another character.
      .filter(name => !/^[^\w"]*'|%2/.test(name))
    fc.assert(fc.property(local, name => {
      const text = `${name}@example.org`
      const result = canonicalEmail(text)
      const options = { input: text, startAt: 'mailbox', rfc6532: true, strict: true } as const
      if (result.ok) expect(emailAddresses.parseOneAddress(options)?.type).toBe('mailbox')
      else expect(result.reason).toBe('not_an_email')
    }), { numRuns: 2_000 })
  })

  it('of the sample has known counts of outcomes', () => {
    const sample = new URL('../../../deploy/sample/emails.csv', import.meta.url)
    const results = parse(readFileSync(sample), { from_line: 2 })
      .map(([value]) => canonicalEmail(value ?? ''))
    const outcomes = Map.groupBy(results, result => result.ok ? 'canonical' : result.reason)
    expect(Object.fromEntries([...outcomes].map(([name, { length }]) => [name, length]))).toEqual({
      canonical: 926, not_an_email: 52, invalid_domain: 12, local_part_too_long: 6, empty: 4,
    })
  })
})
