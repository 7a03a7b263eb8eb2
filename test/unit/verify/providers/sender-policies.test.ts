import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import {
  SenderPolicies, type SenderPolicy,
} from '../../../../services/verify/providers/sender-policies.ts'
import { spfPolicy } from '../../../../services/verify/mailboxes/spf.ts'
import { createMailDomains } from '../../../../services/verify/providers/mail-domains.ts'
import { closeAfterAll } from '../../../support/close-after-all.ts'
import { startDnsServer, type Zone } from '../../../support/mail/dns-server.ts'
import { createPatientDns, lists } from '../../../support/mail/smtp-probe.ts'

const chain = (length: number) => Object.fromEntries(Array.from({ length }, (_, at) =>
  [`chain${at}.org`, { txt: [`v=spf1 redirect=chain${at + 1}.org`] }]))

const ZONES: Readonly<Record<string, Zone>> = {
  'strict.org': { txt: ['other', 'v=spf1 ip4:192.0.2.0/24 -all'] },
  '_dmarc.strict.org': { txt: ['v=DMARC1; p=reject; rua=mailto:a@strict.org'] },
  'soft.org': { txt: ['v=spf1 include:strict.org ~all'] },
  '_dmarc.soft.org': { txt: ['v=DMARC1;p=quarantine;pct=5'] },
  'neutral.org': { txt: ['v=spf1 a ?all'] },
  '_dmarc.neutral.org': { txt: ['v = DMARC1 ; P = None'] },
  'open.org': { txt: ['v=spf1 +all'] },
  'silent-end.org': { txt: ['v=spf1 mx'] },
  'redirected.org': { txt: ['v=spf1 redirect=Strict.org.'] },
  'sender.org': { txt: ['v=spf1 redirect=%{l}.strict.org'] },
  'bare.org': { txt: ['unrelated', 'v=spf10 -all', 'v=DMARC1; p=reject'] },
  '_dmarc.bare.org': { txt: ['v=spf1 -all', 'xv=DMARC1; p=reject', 'v=dmarc1; p=reject'] },
  'empty.org': {},
  'sub.strict.org': {},
  'alias.org': { cname: 'strict.org' },
  '_dmarc.parent.org': { txt: ['v=DMARC1; p=reject; sp=none'] },
  'a.b.parent.org': {},
  // Hostile records.
  'two.org': { txt: ['v=spf1 -all', 'v=spf1 ~all'] },
  '_dmarc.two.org': { txt: ['v=DMARC1; p=none', 'v=DMARC1; p=reject'] },
  'broken.org': { txt: ['v=spf1 ip4:1.2.3.4.5 -all'] },
  '_dmarc.broken.org': { txt: ['v=DMARC1; p=perhaps'] },
  'no-p.org': {},
  '_dmarc.no-p.org': { txt: ['v=DMARC1;;;=;p;rua=p=reject'] },
  'loop.org': { txt: ['v=spf1 redirect=pool.org'] },
  'pool.org': { txt: ['v=spf1 redirect=loop.org'] },
  'itself.org': { txt: ['v=spf1 redirect=itself.org'] },
  'to-nothing.org': { txt: ['v=spf1 redirect=nowhere.org'] },
  'alias-loop.org': { cname: 'gone.org' },
  'many.org': { txt: [...Array.from({ length: 400 }, (_, at) => `t=${at}`), 'v=spf1 -all'] },
  '_dmarc.many.org': { txt: Array.from({ length: 300 }, () => 'v=DMARC1; p=none') },
  ...chain(12),
  'fault.org': { fault: 'SERVFAIL' },
  'half.org': { txt: ['v=spf1 -all'] },
  '_dmarc.half.org': { fault: 'REFUSED' },
  'garbage.org': { fault: 'garbage' },
}

/** A domain, its SPF and its DMARC policy, `-` for one that is not known. */
const CASES: readonly (readonly [domain: string, spf: string, dmarc: string])[] = [
  ['strict.org', 'fail', 'reject'],
  ['soft.org', 'softfail', 'quarantine'],
  ['neutral.org', 'neutral', 'none'],
  ['open.org', 'pass', 'no_record'],
  ['silent-end.org', 'neutral', 'no_record'],
  ['redirected.org', 'fail', 'no_record'],
  ['sender.org', '-', 'no_record'],
  ['bare.org', 'no_record', 'no_record'],
  ['empty.org', 'no_record', 'no_record'],
  ['sub.strict.org', 'no_record', 'reject'],
  ['alias.org', 'fail', 'no_record'],
  ['a.b.parent.org', 'no_record', 'none'],
  ['two.org', 'invalid', 'invalid'],
  ['broken.org', 'invalid', 'invalid'],
  ['no-p.org', 'no_record', 'invalid'],
  ['loop.org', 'invalid', 'no_record'],
  ['itself.org', 'invalid', 'no_record'],
  ['to-nothing.org', 'invalid', 'no_record'],
  ['many.org', 'fail', 'invalid'],
  ['chain0.org', 'invalid', 'no_record'],
  ['chain3.org', 'invalid', 'no_record'],
  // No answer, or a name that does not exist although it has mail.
  ['fault.org', '-', '-'], ['half.org', '-', '-'], ['garbage.org', '-', '-'],
  ['gone.org', '-', '-'], ['alias-loop.org', '-', '-'],
]

const server = closeAfterAll(await startDnsServer(ZONES))

const OPTIONS = {
  isAvailable: async () => true, keepMs: 60_000, keepNegativeMs: 5_000, maxDomains: 100,
}

/** Policies by resolvers that answer at once. */
function answering (texts: (name: string) => Promise<readonly string[]>) {
  const asked: string[] = []
  const policies = new SenderPolicies(async name => {
    asked.push(name)
    return { kind: 'found', records: await texts(name) }
  }, OPTIONS)
  return { policies, asked }
}

/** No check waits until its time is over, unless the test moves the time. */
function stopTime (...more: 'clearTimeout'[]) {
  vi.useFakeTimers({ toFake: ['setTimeout', ...more] })
  onTestFinished(() => { vi.useRealTimers() })
}

const wordsOf = (policy: SenderPolicy = {}) => [policy.spf ?? '-', policy.dmarc ?? '-']

describe('the policies of a domain', () => {
  it('follow from its records, whatever they are', async () => {
    const policies = new SenderPolicies(createPatientDns(server).texts, OPTIONS)
    stopTime()
    await policies.find(CASES.map(([domain]) => domain), 'a')
    expect(CASES.map(([domain]) => [domain, ...wordsOf(policies.known(domain))])).toEqual(CASES)
  })

  it.each([
    ['ends of a redirect', 9, 'fail'], ['too many redirects', 11, 'invalid'],
  ])('count %s', async (_, redirects, expected) => {
    const policy = await spfPolicy('0', async name =>
      [Number(name.split('.')[0]) < redirects
        ? `v=spf1 redirect=${Number(name.split('.')[0]) + 1}.a`
        : 'v=spf1 -all'])
    expect(policy).toBe(expected)
  })

  it('are invalid with a record that no receiver would read', async () => {
    const long = ' ip4:192.0.2.1'.repeat(4_000)
    expect(await spfPolicy('x.org', async () => [`v=spf1${long} -all`])).toBe('invalid')
    const { policies } = answering(async () => [`v=DMARC1; p=none;${long}`])
    await policies.find(['x.org'], 'a')
    expect(policies.known('x.org')).toEqual({ spf: 'no_record', dmarc: 'invalid' })
  })

  it('of a name that is as long as the DNS allows are asked for without _dmarc', async () => {
    const label = 'a'.repeat(60)
    const domain = `${label}.${label}.${label}.${label}.org`
    const { policies, asked } = answering(async () => [])
    await policies.find([domain], 'a')
    expect(policies.known(domain)).toEqual({ spf: 'no_record', dmarc: 'no_record' })
    expect(asked).toEqual([domain, `_dmarc.${label}.org`])
  })
})

const POLICY = { spf: 'fail', dmarc: 'reject' } as const

/** Policies by resolvers that answer when the test lets them. */
function held (more: Partial<ConstructorParameters<typeof SenderPolicies>[1]> = {}) {
  const released = Promise.withResolvers<void>()
  const asked: string[] = []
  let nowMs = 1_000
  const policies = new SenderPolicies(async name => {
    asked.push(name)
    await released.promise
    const record = name.startsWith('_') ? 'v=DMARC1; p=reject' : 'v=spf1 -all'
    return { kind: 'found', records: [record] }
  }, {
    ...OPTIONS, maxDomains: 5_000, now: () => nowMs, ...more,
  })
  stopTime('clearTimeout')
  const ended = async (search: Promise<void>) => {
    let isOver = false
    const over = search.then(() => { isOver = true })
    await turn()
    if (isOver) await over
    return isOver
  }
  const pass = (ms: number) => { nowMs += ms }
  return { policies, asked, release: released.resolve, ended, pass }
}

describe('a check that asks for policies', () => {
  it('waits briefly for slow answers, once in a while, and keeps late ones', async () => {
    const { policies, release, ended, pass } = held()
    const first = policies.find(['a.org'], 'a')
    expect(await ended(first)).toBe(false)
    vi.advanceTimersByTime(299)
    expect(await ended(first)).toBe(false)
    vi.advanceTimersByTime(1)
    await first
    expect(policies.known('a.org')).toBeUndefined()
    // No check of the tenant waits again, until a while has passed.
    expect(await ended(policies.find(['b.org'], 'a'))).toBe(true)
    expect(await ended(policies.find(['b.org'], 'b'))).toBe(false)
    pass(60_000)
    const third = policies.find(['c.org'], 'a')
    expect(await ended(third)).toBe(false)
    release()
    await third
    expect(['a.org', 'b.org', 'c.org'].map(domain => policies.known(domain)))
      .toEqual([POLICY, POLICY, POLICY])
  })

  it('asks once for a domain, and for no more than a bounded number at a time', async () => {
    const { policies, asked, release } = held()
    const domains = Array.from({ length: 3_000 }, (_, at) => `d${at}.org`)
    const searches = [policies.find(domains, 'a'), policies.find(domains, 'a')]
    await turn()
    expect(asked).toHaveLength(2_000)
    searches.push(policies.find(['other.org'], 'b'))
    await turn()
    expect(asked.slice(2_000)).toEqual(['other.org', '_dmarc.other.org'])
    asked.length = 2_000
    release()
    await Promise.all(searches)
    expect(domains.filter(domain => policies.known(domain) !== undefined)).toHaveLength(1_000)
    await policies.find(domains.slice(0, 1_000), 'a')
    expect(asked).toHaveLength(2_000)
  })

  it('asks nothing while the resolvers know nothing', async () => {
    const { policies, asked } = held({ isAvailable: async () => false })
    await policies.find(['a.org'], 'a')
    expect([asked, policies.known('a.org')]).toEqual([[], undefined])
  })

  it('shares that a domain does not exist', async () => {
    const stored = new Map<string, readonly [text: string, ttlMs: number]>()
    const policiesOf = () => new SenderPolicies(createPatientDns(server).texts, {
      ...OPTIONS,
      shared: {
        read: async domain => {
          const [text, ttlMs = 0] = stored.get(domain) ?? []
          return text === undefined ? undefined : { text, ttlMs }
        },
        write: async (domain, text, ttlMs) => { stored.set(domain, [text, ttlMs]) },
      },
    })
    stopTime()
    await policiesOf().find(['gone.org'], 'a')
    expect(stored.get('gone.org')).toEqual(['- -', 5_000])
    server.questions.length = 0
    const other = policiesOf()
    await other.find(['gone.org'], 'a')
    expect([other.known('gone.org'), server.questions])
      .toEqual([{ spf: undefined, dmarc: undefined }, []])
  })

  it('shares answers with other processes, and ignores what they cannot have written', async () => {
    const stored = new Map<string, string>([
      ['b.org', 'fail reject more'], ['c.org', '- none'], ['d.org', 'perhaps none'], ['e.org', ''],
    ])
    const shared = {
      read: async (domain: string) => {
        const text = stored.get(domain)
        return text === undefined ? undefined : { text, ttlMs: 5_000 }
      },
      write: async (domain: string, text: string) => { stored.set(domain, text) },
    }
    const { policies, asked, release, pass } = held({ shared })
    release()
    await policies.find(['a.org', 'b.org', 'c.org', 'd.org', 'e.org'], 'a')
    expect(asked.filter(name => !name.startsWith('_')))
      .toEqual(['a.org', 'b.org', 'd.org', 'e.org'])
    expect([stored.get('a.org'), policies.known('c.org')])
      .toEqual(['fail reject', { spf: undefined, dmarc: 'none' }])
    pass(5_001)
    expect([policies.known('a.org'), policies.known('c.org')]).toEqual([POLICY, undefined])
  })
})

describe('the facts of a mail domain', () => {
  const factsOf = async (domain: string) => {
    stopTime()
    const domains = createMailDomains(createPatientDns(server), {
      keepMs: 60_000, keepNegativeMs: 60_000, maxDomains: 100, lists,
    })
    await Promise.all([domains.find(domain, 'a'), domains.findPolicies([domain], 'a')])
    return domains.facts(domain)
  }

  it.each<[domain: string, zone: Zone, facts: object]>([
    ['firm.org', { mx: [[20, 'mx.host.org'], [10, 'MX.Mail.Firm.org']], txt: ['v=spf1 -all'] },
      { exchange: 'mx.mail.*1.org', spf: 'fail', dmarc: 'no_record' }],
    ['no-mx.org', { a: ['93.184.215.14'] }, { exchange: '', spf: 'no_record', dmarc: 'no_record' }],
    ['null-mx.org', { mx: [[0, '']], txt: ['v=spf1 -all'] },
      { exchange: '', spf: 'fail', dmarc: 'no_record' }],
    ['lost.org', { fault: 'SERVFAIL' }, {}],
    ['[93.184.215.14]', {}, { exchange: '' }],
  ])('of %s with %j are %j', async (domain, zone, facts) => {
    for (const host of ['mx.host.org', 'mx.mail.firm.org']) {
      server.zones.set(host, { a: ['93.184.215.14'] })
    }
    server.zones.set(domain, zone)
    expect(await factsOf(domain)).toEqual(facts)
  })

  it('are none for a domain that does not exist', async () => {
    expect(await factsOf('missing.org')).toEqual({ exchange: '' })
  })
})
