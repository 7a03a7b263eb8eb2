import { describe, expect, it } from 'vitest'
import {
  COMMON_PROVIDERS, FURTHER_PROVIDERS, LOOKALIKE_DOMAINS, RELAY_DOMAINS,
} from '../../../../services/verify/providers/built-in-lists.ts'
import { suggestDomain } from '../../../../services/verify/providers/domain-typos.ts'
import {
  builtInLists, ENTRY_OF, readList,
} from '../../../../services/verify/providers/email-lists.ts'

/** What the lists say of many real domains, typos and local parts is measured: `test/accuracy`. */
const PERMANENT = [...COMMON_PROVIDERS, ...FURTHER_PROVIDERS, ...RELAY_DOMAINS]

it('a provider of permanent mailboxes, or a relay, is neither disposable nor corrected', () => {
  expect(PERMANENT.filter(domain => builtInLists.lookUp(domain).disposable)).toEqual([])
  expect([...PERMANENT, ...LOOKALIKE_DOMAINS]
    .filter(domain => suggestDomain(domain) !== undefined)).toEqual([])
})

it.each(['hola.org', '99.com', 'starbucks.com', 'nus.edu.sg'])(
  '%s is an organization, whatever lists say', domain => {
    const { disposable, free } = builtInLists.lookUp(domain)
    expect([disposable, free]).toEqual([false, false])
  })

it.each<[string, string?]>([
  ['outiook.com', 'outlook.com'], ['gmeil.com', 'gmail.com'], ['wanedoo.fr', 'wanadoo.fr'],
  ['company.ogr', 'company.org'], ['cloud.com'], ['email.com'],
  ['glami.com'], ['company.de'], ['company.xyz'], ['ministry.gob'], ['line.com'], ['act.net'],
])('the suggestion for %s is %s', (domain, expected) => {
  expect(suggestDomain(domain)).toBe(expected)
})

it.each([
  ['inbox.mailinator.com', true], ['b5zuw.anonbox.net', true], ['vip.21cn.com', false],
  // Anybody registers names below these, which lists call disposable.
  ['mail.jane.us.to', false], ['shop.eu.org', false], ['jane.ftp.sh', false],
])('below a listed mail domain, %s is disposable: %s', (domain, expected) => {
  expect(builtInLists.lookUp(domain).disposable).toBe(expected)
})

it.each([
  ...[
    'info.a', 'e.info',
    'Support', 'do_not_reply', 'drive-shares-noreply', 'info+news', 'sales2', 'info.berlin',
    'info-de', 'uk.sales', 'sales-emea', 'infofirma', 'firma.info', 'Geschäftsführung',
    'geschaeftsfuehrung', 'buero2', 'comptabilité', 'service-client', 'ufficio.acquisti',
    'qualità', 'försäljning', 'ügyfélszolgálat', 'vânzări', 'satış', 'Приёмная', 'πωλήσεις',
    'サポート', 'ketoan',
  ].map(local => [local, true] as const),
  ...[
    '+sales', 'm.post', 'j_seo', 'c-sales',
    'j.sales.doe', 'infomania', 'sales.jane', 'support.jane.doe', '2024', '',
  ].map(local => [local, false] as const),
])('%j names a role: %s', (local, expected) => {
  expect(builtInLists.isRole(local, 'firma.example')).toBe(expected)
})

/** The entries of a text that arrives in pieces of so many bytes. */
async function read (
  text: string | Buffer, parse: (text: string) => string | undefined = ENTRY_OF.disposable,
  size = 65_536
) {
  const bytes = Buffer.from(text)
  const entries = new Set<string>()
  await readList((async function * () {
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
  })(), parse, entries)
  return [...entries]
}

describe('a list', () => {
  const TEXT =
    '\uFEFF# Domains\r\n\r\nExample.ORG\r\n  a.b-c.net # why\nbücher.example\nexample.org'

  it.each([1, 2, 7, 65_536])('has an entry a line, in pieces of %i bytes', async size => {
    expect(await read(TEXT, ENTRY_OF.disposable, size))
      .toEqual(['example.org', 'a.b-c.net', 'xn--bcher-kva.example'])
  })

  it('of role words has them folded as local parts are', async () => {
    expect(await read('Geschäftsführung\n営業\nfront-desk', ENTRY_OF.roles))
      .toEqual(['geschaftsfuhrung', '営業', 'front-desk'])
  })

  it.each<[string, string | Buffer, string]>([
    ['a line that is no domain', 'a.org\nno domain\n', 'line 2 is no entry: "no domain"'],
    ['an address', 'jane@a.org', 'line 1 is no entry: "jane@a.org"'],
    ['a top-level domain', 'org', 'line 1 is no entry: "org"'],
    ['a long name', `${'a.'.repeat(130)}org`, 'line 1 is no entry'],
    ['control characters, which it does not repeat', 'a\u001b[2J\u202e.org',
      'line 1 is no entry: "a\\u001b[2J\\u202e.org"'],
    ['zeros', Buffer.alloc(2_000), 'line 1 has more than 1000 characters'],
    ['a long comment', `#${' '.repeat(1_000)}`, 'line 1 has more than 1000 characters'],
    ['other bytes than UTF-8', Buffer.from('a.org\nb\xfc.org', 'latin1'), 'is not UTF-8'],
    ['a character that is cut', Buffer.from('a.org\n\xc3', 'latin1'), 'is not UTF-8'],
    ['UTF-16', Buffer.from('a.org\n', 'utf16le'), 'line 1 is no entry'],
    ['more entries than a million', 'a.b\n'.repeat(1_000_001), 'more than 1000000 entries'],
  ])('with %s is refused', async (_, text, fault) => {
    await expect(read(text)).rejects.toThrow(fault)
  })

  it.each(['two words', '-', 'a@b', 'x'.repeat(65), '<b>'])(
    'of role words with %s is refused', async word => {
      await expect(read(word, ENTRY_OF.roles)).rejects.toThrow('line 1 is no entry')
    })
})
