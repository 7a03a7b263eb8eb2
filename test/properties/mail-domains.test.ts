import { setImmediate as turn } from 'node:timers/promises'
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { createEmailDomainProvider } from '../../services/verify/providers/email.ts'
import {
  createDns, createMailDomains, type DnsOptions,
} from '../../services/verify/providers/mail-domains.ts'
import type { DomainStore } from '../../services/verify/providers/sender-policies.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { startDnsServer, type DnsServer, type Zone } from '../support/mail/dns-server.ts'
import { createPatientDns, lists } from '../support/mail/smtp-probe.ts'

const host: Zone = { a: ['93.184.215.14'] }
const mx = (...hosts: string[]): Zone =>
  ({ mx: hosts.map((name, index) => [(index + 1) * 10, name] as const) })

/** A small internet with every situation a mail domain can be in. */
const ZONES: Readonly<Record<string, Zone>> = {
  'mx1.net-a.org': host,
  'mx2.net-a.org': host,
  'mx6.net-a.org': { aaaa: ['2606:4700::1'] },
  'private.net-a.org': { a: ['10.1.2.3'] },
  'local6.net-a.org': { aaaa: ['fc00::1'] },
  'mixed.net-a.org': { a: ['10.1.2.3'], aaaa: ['2606:4700::4'] },
  'lost.net-a.org': { fault: 'SERVFAIL', faultOf: 'A', denied: 'AAAA' },
  'text.net-a.org': {},
  'broken.net-a.org': { fault: 'SERVFAIL' },
  'quiet.net-a.org': { fault: 'silent' },
  'alias.net-a.org': { cname: 'mx1.net-a.org' },
  'alias-gone.net-a.org': { cname: 'gone.net-a.org' },
  'plain.org': mx('mx1.net-a.org'),
  'under_score.org': mx('mx1.net-a.org'),
  'two.org': mx('mx1.net-a.org', 'mx2.net-a.org'),
  'unsorted.org': { mx: [[20, 'gone.net-a.org'], [5, 'mx1.net-a.org']] },
  'shouting.org': mx('MX1.NET-A.ORG'),
  'six.org': mx('mx6.net-a.org'),
  'second.org': mx('gone.net-a.org', 'mx2.net-a.org'),
  'second-broken.org': mx('broken.net-a.org', 'mx2.net-a.org'),
  'same-twice.org': mx('mx1.net-a.org', 'mx1.net-a.org'),
  'exchange-alias.org': mx('alias.net-a.org'),
  'alias.org': { cname: 'plain.org' },
  'alias-of-alias.org': { cname: 'alias.org' },
  'alias-null.org': { cname: 'null.org' },
  'alias-gone.org': { cname: 'gone.org' },
  'alias-host.org': { cname: 'host-only.org' },
  'null.org': { mx: [[0, '']], ...host },
  'null-and-more.org': { mx: [[0, ''], [10, 'mx1.net-a.org']] },
  'dangling.org': mx('gone.net-a.org'),
  'dangling-all.org': mx('gone.net-a.org', 'gone2.net-a.org'),
  'dangling-alias.org': mx('alias-gone.net-a.org'),
  'exchange-text.org': mx('text.net-a.org'),
  'exchange-address.org': mx('192.0.2.7'),
  'exchange-private.org': mx('private.net-a.org'),
  'exchange-local6.org': mx('local6.net-a.org'),
  'exchange-mixed.org': mx('mixed.net-a.org'),
  'exchange-lost.org': mx('lost.net-a.org'),
  'exchange-broken.org': mx('broken.net-a.org'),
  'exchange-quiet.org': mx('quiet.net-a.org'),
  'gone-and-broken.org': mx('gone.net-a.org', 'broken.net-a.org'),
  'twenty-first-only.org': mx(
    ...Array.from({ length: 20 }, (_, n) => `gone${n}.net-a.org`), 'mx1.net-a.org'),
  'sixth-only.org': mx(...[1, 2, 3, 4, 5].map((n) => `gone${n}.net-a.org`), 'mx1.net-a.org'),
  'host-only.org': host,
  'host-six.org': { aaaa: ['2606:4700::2'] },
  'host-private.org': { a: ['192.168.0.9'] },
  'host-broken.org': { fault: 'SERVFAIL', faultOf: 'A' },
  'host-broken-four.org': { aaaa: ['2606:4700::3'], fault: 'SERVFAIL', faultOf: 'A' },
  'host-broken-six.org': { fault: 'REFUSED', faultOf: 'AAAA' },
  'host-mixed.org': { a: ['192.168.0.9'], aaaa: ['2606:4700::5'] },
  'host-mixed-broken.org': { a: ['192.168.0.9'], fault: 'SERVFAIL', faultOf: 'AAAA' },
  'host-lost.org': { fault: 'SERVFAIL', faultOf: 'A', denied: 'AAAA' },
  'host-denied.org': { denied: 'AAAA' },
  'text-only.org': {},
  'servfail.org': { fault: 'SERVFAIL' },
  'refused.org': { fault: 'REFUSED' },
  'formerr.org': { fault: 'FORMERR' },
  'silent.org': { fault: 'silent' },
  'garbage.org': { fault: 'garbage' },
  'cut-off.org': { ...mx('mx1.net-a.org', 'mx2.net-a.org'), truncated: true },
  'xn--bcher-kva.org': mx('mx1.net-a.org'),
  'deep.sub.plain.org': mx('mx1.net-a.org'),
  'gmail.com': mx('mx1.net-a.org', 'mx2.net-a.org'),
  'gmial.com': host,
  'gmail.con': { fault: 'SERVFAIL' },
  'mailinator.com': mx('mx1.net-a.org'),
  'mail.mailinator.com': host,
  'fresh-today.org': mx('mail.mailinator.com'),
  'yopmail.com': { mx: [[0, '']] },
  'guerrillamail.com': { fault: 'SERVFAIL' },
  'duck.com': mx('mx1.net-a.org'),
}

/** An address and `status reason confidence mx_found`, `-` where the column stays blank. */
const SITUATIONS: readonly (readonly [address: string, expected: string])[] = [
  ...[
    'jane@plain.org', 'jane@two.org', 'jane@unsorted.org', 'jane@shouting.org', 'jane@six.org',
    'jane@second.org', 'jane@second-broken.org', 'jane@same-twice.org', 'jane@sixth-only.org',
    'jane@exchange-alias.org', 'jane@alias.org', 'jane@alias-of-alias.org',
    'jane@null-and-more.org', 'jane@cut-off.org', 'jane@xn--bcher-kva.org',
    'jane@deep.sub.plain.org', 'jane.doe@gmail.com', '"a@b"@plain.org', 'jane+tag@plain.org',
    'jane@duck.com', 'jane@exchange-mixed.org',
  ].map((address) => [address, 'unknown domain_accepts_mail 0 true'] as const),
  ['jane@fresh-today.org', 'risky disposable_domain 90 true'],
  ...[
    'jane@host-only.org', 'jane@host-six.org', 'jane@alias-host.org', 'jane@host-broken-four.org',
    'jane@host-mixed.org',
  ].map((address) => [address, 'risky no_mx_record 60 false'] as const),
  ...[
    'jane@null.org', 'sales@null.org', 'jane@alias-null.org', 'jane@dangling.org',
    'jane@dangling-all.org', 'jane@dangling-alias.org', 'jane@exchange-text.org',
    'jane@exchange-address.org', 'jane@exchange-private.org', 'jane@exchange-local6.org',
    'jane@host-private.org', 'jane@host-denied.org', 'jane@text-only.org', 'jane@yopmail.com',
  ].map((address) => [address, 'invalid no_mail_service 95 false'] as const),
  ...['jane@gone.org', 'sales@gone.org', 'jane@sub.plain.org', 'jane@alias-gone.org',
    'jane@gone.gmail.com', 'jane@hotmial.com']
    .map((address) => [address, 'invalid domain_not_found 95 false'] as const),
  ...[
    'jane@servfail.org', 'jane@refused.org', 'jane@formerr.org', 'jane@silent.org',
    'jane@garbage.org', 'jane@exchange-broken.org', 'jane@exchange-quiet.org',
    'jane@gone-and-broken.org', 'jane@host-broken.org', 'jane@host-broken-six.org',
    'jane@twenty-first-only.org', 'jane@exchange-lost.org', 'jane@host-lost.org',
    'jane@host-mixed-broken.org',
  ].map((address) => [address, 'unknown dns_error 0 -'] as const),
  ...['jane@localhost', 'jane@example.com', 'jane@shop.example', 'jane@printer.local', 'a@b.test']
    .map((address) => [address, 'invalid reserved_domain 100 -'] as const),
  ['jane@mailinator.com', 'risky disposable_domain 90 true'],
  ['jane@guerrillamail.com', 'risky disposable_domain 90 -'],
  ['sales@plain.org', 'risky role_address 70 true'],
  ['jane@under_score.org', 'unknown domain_accepts_mail 0 true'],
  ['jane@[93.184.215.14]', 'risky no_mx_record 60 false'],
  ['jane@[IPv6:2606:4700::1]', 'risky no_mx_record 60 false'],
  ['jane@[10.1.2.3]', 'invalid reserved_domain 100 -'],
  ['info@host-only.org', 'risky role_address 70 false'],
  ['sales@servfail.org', 'unknown dns_error 0 -'],
  ['jane@gmail.con', 'unknown dns_error 0 -'],
]

let nowMs = 0
const server = closeAfterAll(await startDnsServer(ZONES))
beforeEach(() => {
  server.questions.length = 0
  nowMs = 1_000
})

type DomainsOptions = Partial<DnsOptions> & { readonly shared?: DomainStore }

function domainsOf ({ shared, ...more }: DomainsOptions = {}) {
  const isOwn = more.servers !== undefined || more.timeoutMs !== undefined
  const dns = isOwn
    ? createDns({ servers: [server.address], timeoutMs: 300, concurrency: 16, ...more })
    : createPatientDns(server)
  const options = { keepMs: 60_000, keepNegativeMs: 5_000, maxDomains: 1_000, lists }
  return createMailDomains(dns, { ...options, now: () => nowMs, ...shared && { shared } })
}

/** The questions that verdicts rest on; those for texts come in any order. */
const questions = ({ questions: all }: DnsServer = server) =>
  all.filter((question) => !question.startsWith('TXT '))

async function verdicts (
  addresses: readonly string[], { domains = domainsOf(), withinMs = 300_000 } = {}
) {
  const rows = addresses.map((canonical, row) => ({ row, canonical }))
  const answers = await createEmailDomainProvider({ domains, lists }).check(rows, {
    service: 'email-validation',
    mode: 'live',
    signal: new AbortController().signal,
    deadlineMs: Date.now() + withinMs,
  })
  return answers.map(({ row, verdict: { status, reason, confidence, fields } }) =>
    [addresses[row], `${status} ${reason} ${confidence} ${fields.mx_found ?? '-'}`])
}

describe('a mail domain', () => {
  it('has the expected verdict in every situation, with a real resolver', async () => {
    expect(await verdicts(SITUATIONS.map(([address]) => address))).toEqual(SITUATIONS)
    expect(server.questions.filter((it) => /example|localhost|\.local|\.test/.test(it))).toEqual([])
  })

  it('is queried once, by however many rows, until its TTL expires', async () => {
    const domains = domainsOf()
    const rows = ['a@plain.org', 'b@plain.org', 'c@gone.org', 'd@two.org']
    const first = await verdicts(rows, { domains })
    expect(questions().toSorted())
      .toEqual(['A mx1.net-a.org', 'MX gone.org', 'MX plain.org', 'MX two.org', 'NS .', 'NS .'])
    server.questions.length = 0
    nowMs += 4_999
    expect(await verdicts(rows, { domains })).toEqual(first)
    expect(server.questions).toEqual([])
    nowMs += 2
    await verdicts(rows, { domains })
    expect(questions()).toEqual(['MX gone.org', 'NS .'])
    nowMs += 60_000
    await verdicts(rows, { domains })
    expect(questions()).toContain('MX plain.org')
  })

  it('is queried by one of several processes, for the rest of its TTL', async () => {
    const stored = new Map<string, { readonly text: string, readonly endsAtMs: number }>()
    const shared: DomainStore = {
      read: async (domain) => {
        const { text, endsAtMs = 0 } = stored.get(domain) ?? {}
        return text !== undefined && endsAtMs > nowMs
          ? { text, ttlMs: endsAtMs - nowMs }
          : undefined
      },
      write: async (domain, text, ttlMs) => {
        stored.set(domain, { text, endsAtMs: nowMs + ttlMs })
      },
    }
    server.zones.set('failing.org', { fault: 'SERVFAIL' })
    const rows = ['a@plain.org', 'b@gone.org', 'c@null.org', 'd@host-only.org', 'e@failing.org']
    const first = await verdicts(rows, { domains: domainsOf({ shared }) })
    server.questions.length = 0
    nowMs += 4_000
    const other = domainsOf({ shared })
    expect(await verdicts(rows, { domains: other })).toEqual(first)
    expect(new Set(questions())).toEqual(new Set(['NS .', 'MX failing.org']))
    nowMs += 1_001
    server.questions.length = 0
    await verdicts(['b@gone.org', 'a@plain.org'], { domains: other })
    expect(questions()).toEqual(['MX gone.org', 'NS .'])
    expect(await other.hosts('plain.org', 'a'))
      .toEqual([{ name: 'mx1.net-a.org', addresses: [expect.any(String)] }])
    expect(stored.get('plain.org')?.text).toBe('accepts mx1.net-a.org')
    // What is no result does not count, nor one of a release that stored no exchange.
    for (const text of ['anything', '', 'disposable']) {
      stored.set('plain.org', { text, endsAtMs: Infinity })
      expect(await domainsOf({ shared }).find('plain.org', 'a')).toBe('accepts')
    }
  })

  it('is queried again after a fault, and counts once it answers', async () => {
    const domains = domainsOf()
    server.zones.set('failing.org', { fault: 'SERVFAIL' })
    expect(await verdicts(['a@failing.org'], { domains }))
      .toEqual([['a@failing.org', 'unknown dns_error 0 -']])
    server.zones.set('failing.org', ZONES['plain.org'] ?? {})
    expect(await verdicts(['a@failing.org'], { domains }))
      .toEqual([['a@failing.org', 'unknown domain_accepts_mail 0 true']])
  })

  it('that responds slowly delays no other row past the deadline of the call', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] })
    onTestFinished(() => { vi.useRealTimers() })
    const domains = domainsOf({ timeoutMs: 5_000 })
    let answer: unknown
    const telling = verdicts(['a@silent.org', 'b@plain.org'], { domains, withinMs: 450 })
      .then((answers) => { answer = answers })
    while (domains.known('plain.org') === undefined) await turn()
    expect(answer).toBeUndefined()
    vi.advanceTimersByTime(450)
    await telling
    expect(answer).toEqual([
      ['a@silent.org', 'unknown dns_error 0 -'],
      ['b@plain.org', 'unknown domain_accepts_mail 0 true'],
    ])
  })

  it('is queried with a limited number of queries at a time', async () => {
    const dns = createDns({ servers: [server.address], timeoutMs: 100, concurrency: 1 })
    let asked: readonly string[] = []
    const first = dns.mailExchanges('silent.org', 'a').then(() => { asked = questions() })
    await Promise.all([first, dns.mailExchanges('plain.org', 'a')])
    expect(new Set(asked)).toEqual(new Set(['MX silent.org']))
    expect(questions()).toContain('MX plain.org')
  })

  it('waits for no query of another tenant, however many name servers are silent', async () => {
    const domains = domainsOf({ timeoutMs: 60_000, concurrency: 4 })
    const names = Array.from({ length: 20 }, (_, at) => `silent${at}.org`)
    for (const name of names) server.zones.set(name, { fault: 'silent' })
    const late: string[] = []
    for (const name of [...names, 'plain.org']) {
      domains.find(name, 'a').then(() => { late.push(name) }, () => {})
    }
    expect(await Promise.all(['plain.org', 'two.org', 'gone.org', 'host-only.org', 'null.org']
      .map(name => domains.find(name, 'b'))))
      .toEqual(['accepts', 'accepts', 'missing', 'implicit', 'refuses'])
    expect(late).toEqual([])
  })

  it('is not asked for by a query that waited until nobody needs it', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    onTestFinished(() => { vi.useRealTimers() })
    const dns = createDns({ servers: [server.address], timeoutMs: 100, concurrency: 1 })
    const answers = ['silent.org', 'plain.org'].map(name => dns.mailExchanges(name, 'a'))
    await turn()
    vi.advanceTimersByTime(10_001)
    answers.push(dns.mailExchanges('two.org', 'a'))
    const kinds = (await Promise.all(answers)).map(({ kind }) => kind)
    expect(kinds).toEqual(['fault', 'fault', 'found'])
    expect(new Set(questions())).toEqual(new Set(['MX silent.org', 'MX two.org']))
  })

  it('are unknown when no resolver answers', async () => {
    const domains = domainsOf({ servers: ['127.0.0.1:9'], timeoutMs: 100 })
    expect(await verdicts(['a@plain.org'], { domains }))
      .toEqual([['a@plain.org', 'unknown dns_error 0 -']])
  })

  it.each([
    ['deny the root zone', { ns: [] }], ['fail', { fault: 'SERVFAIL' }],
    ['refuse', { fault: 'REFUSED' }],
  ] as const)('has no verdict while the resolvers %s, and is not queried', async (_, root) => {
    const own = await startDnsServer({ ...ZONES, '.': root })
    onTestFinished(own.stop)
    const domains = domainsOf({ servers: [own.address], timeoutMs: 60_000 })
    expect(await domains.isAvailable()).toBe(false)
    expect(await verdicts(['a@plain.org', 'b@gone.org', 'c@null.org'], { domains })).toEqual([
      ['a@plain.org', 'unknown dns_error 0 -'], ['b@gone.org', 'unknown dns_error 0 -'],
      ['c@null.org', 'unknown dns_error 0 -'],
    ])
    expect(new Set(own.questions)).toEqual(new Set(['NS .']))
    own.zones.set('.', { ns: ['a.root-servers.net'] })
    nowMs += 60_000
    expect(await domains.isAvailable()).toBe(true)
    expect(await verdicts(['b@gone.org'], { domains }))
      .toEqual([['b@gone.org', 'invalid domain_not_found 95 false']])
  })

  it('is not missing when the resolvers lose the DNS after they knew the root zone', async () => {
    const own = await startDnsServer(ZONES)
    onTestFinished(own.stop)
    const domains = domainsOf({ servers: [own.address], timeoutMs: 60_000 })
    expect(await domains.isAvailable()).toBe(true)
    // As behind a captive portal: no name exists, the root zone least of all.
    const zones = new Map(own.zones)
    own.zones.clear()
    const rows = ['a@plain.org', 'b@null.org', 'c@host-only.org']
    expect(await verdicts(rows, { domains }))
      .toEqual(rows.map(address => [address, 'unknown dns_error 0 -']))
    for (const [name, zone] of zones) own.zones.set(name, zone)
    expect(await verdicts(rows, { domains })).toEqual([
      ['a@plain.org', 'unknown domain_accepts_mail 0 true'],
      ['b@null.org', 'invalid no_mail_service 95 false'],
      ['c@host-only.org', 'risky no_mx_record 60 false'],
    ])
  })

  it('that is cached costs next to nothing: no row queries or waits', async () => {
    const domains = domainsOf()
    const names = ['plain.org', 'two.org', 'gmail.com', 'null.org', 'host-only.org', 'six.org']
    const many = Array.from({ length: 10_000 }, (_, row) => `jane${row}@${names[row % 6]}`)
    await verdicts(many.slice(0, 6), { domains })
    server.questions.length = 0
    let hasWaited = false
    const later = setImmediate(() => { hasWaited = true })
    await verdicts(many, { domains })
    clearImmediate(later)
    expect([server.questions, hasWaited]).toEqual([[], false])
  })
})
