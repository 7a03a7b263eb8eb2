import { setImmediate as turn } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { createEmailDomainProvider } from '../../services/verify/providers/email.ts'
import {
  createDns, createMailDomains, type DnsOptions, type MailDomain, type SharedDomains,
} from '../../services/verify/providers/mail-domains.ts'
import { SITUATIONS, ZONES } from '../support/data/mail-domains.ts'
import { startDnsServer, type DnsServer } from '../support/mail/dns-server.ts'
import { createPatientDns } from '../support/mail/patient-dns.ts'

let server: DnsServer
let nowMs = 0
beforeAll(async () => { server = await startDnsServer(ZONES) })
afterAll(async () => { await server.stop() })
beforeEach(() => {
  server.questions.length = 0
  nowMs = 1_000
})

type DomainsOptions = Partial<DnsOptions> & { readonly shared?: SharedDomains }

function domainsOf ({ shared, ...more }: DomainsOptions = {}) {
  const isOwn = more.servers !== undefined || more.timeoutMs !== undefined
  const dns = isOwn
    ? createDns({ servers: [server.address], timeoutMs: 300, concurrency: 16, ...more })
    : createPatientDns(server, more)
  const times = { keepMs: 60_000, keepNegativeMs: 5_000, maxDomains: 1_000 }
  return createMailDomains(dns, { ...times, now: () => nowMs, ...shared && { shared } })
}

async function verdicts (
  addresses: readonly string[], { domains = domainsOf(), withinMs = 300_000 } = {}
) {
  const rows = addresses.map((canonical, row) => ({ row, canonical }))
  const answers = await createEmailDomainProvider({ domains }).check(rows, {
    service: 'email-validation',
    signal: new AbortController().signal,
    deadlineMs: Date.now() + withinMs,
  })
  return answers.map(({ row, verdict: { status, reason, confidence, fields } }) =>
    [addresses[row], `${status} ${reason} ${confidence} ${fields.mx_found ?? '-'}`])
}

describe('a mail domain', () => {
  it('has the expected verdict in every situation, with a real resolver', async () => {
    expect(SITUATIONS.length).toBeGreaterThanOrEqual(60)
    expect(await verdicts(SITUATIONS.map(([address]) => address))).toEqual(SITUATIONS)
    expect(server.questions.filter((it) => /example|localhost|\.local|\.test/.test(it))).toEqual([])
  })

  it('is queried once, by however many rows, until its TTL expires', async () => {
    const domains = domainsOf()
    const rows = ['a@plain.org', 'b@plain.org', 'c@gone.org', 'd@two.org']
    const first = await verdicts(rows, { domains })
    expect(server.questions.toSorted())
      .toEqual(['A mx1.net-a.org', 'MX gone.org', 'MX plain.org', 'MX two.org', 'NS .'])
    server.questions.length = 0
    nowMs += 4_999
    expect(await verdicts(rows, { domains })).toEqual(first)
    expect(server.questions).toEqual([])
    nowMs += 2
    await verdicts(rows, { domains })
    expect(server.questions).toEqual(['MX gone.org'])
    nowMs += 60_000
    await verdicts(rows, { domains })
    expect(server.questions).toContain('MX plain.org')
  })

  it('is queried by one of several processes, for the rest of its TTL', async () => {
    const stored = new Map<string, { readonly kind: MailDomain, readonly endsAtMs: number }>()
    const shared: SharedDomains = {
      read: async (domain) => {
        const { kind, endsAtMs = 0 } = stored.get(domain) ?? {}
        return kind !== undefined && endsAtMs > nowMs
          ? { kind, ttlMs: endsAtMs - nowMs }
          : undefined
      },
      write: async (domain, { kind, ttlMs }) => {
        stored.set(domain, { kind, endsAtMs: nowMs + ttlMs })
      },
    }
    server.zones.set('failing.org', { fault: 'SERVFAIL' })
    const rows = ['a@plain.org', 'b@gone.org', 'c@null.org', 'd@host-only.org', 'e@failing.org']
    const first = await verdicts(rows, { domains: domainsOf({ shared }) })
    server.questions.length = 0
    nowMs += 4_000
    const other = domainsOf({ shared })
    expect(await verdicts(rows, { domains: other })).toEqual(first)
    expect(new Set(server.questions)).toEqual(new Set(['NS .', 'MX failing.org']))
    nowMs += 1_001
    server.questions.length = 0
    await verdicts(['b@gone.org', 'a@plain.org'], { domains: other })
    expect(server.questions).toEqual(['MX gone.org'])
    expect(await other.hosts('plain.org'))
      .toEqual([{ name: 'mx1.net-a.org', addresses: [expect.any(String)] }])
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
    const domains = domainsOf({ concurrency: 1 })
    const known = await verdicts(['a@plain.org', 'b@host-only.org', 'c@null.org'], { domains })
    expect(known.map(([, verdict]) => verdict?.split(' ')[1]))
      .toEqual(['domain_accepts_mail', 'no_mx_record', 'no_mail_service'])
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
