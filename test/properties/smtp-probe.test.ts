import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { loadConfig } from '../../services/runtime/platform/config.ts'
import { verifyConfig } from '../../services/verify/config.ts'
import type { ProviderAnswer } from '../../services/verify/provider.ts'
import { startDnsServer, type DnsServer, type Zone } from '../support/mail/dns-server.ts'
import { eventually } from '../support/eventually.ts'
import { startMailServers, type MailServer } from '../support/mail/mail-servers.ts'
import {
  createProviders, type ProbeSetting, request, smtpProviderOf,
} from '../support/mail/smtp-probe.ts'
import { STAGE_ENVIRONMENT } from '../support/stacks/stage-environment.ts'

type RealOptions = NonNullable<Extract<MailServer, { readonly recipients: unknown }>['options']>

const stops: (() => Promise<void>)[] = []
/** The ends of times that were set, in their order: they come when a test says so. */
const ends: { readonly ms: number, readonly end: () => void }[] = []
const now = performance.now.bind(performance)
let passedMs = 0
beforeEach(() => {
  passedMs = 0
  vi.spyOn(performance, 'now').mockImplementation(() => now() + passedMs)
  vi.spyOn(AbortSignal, 'timeout').mockImplementation((ms) => {
    const over = new AbortController()
    ends.push({ ms, end: () => over.abort(new DOMException('over', 'TimeoutError')) })
    return over.signal
  })
})
afterEach(async () => {
  vi.restoreAllMocks()
  ends.length = 0
  await Promise.all(stops.splice(0).map((stop) => stop()))
})

/** Advances the time of caches, which read their clock once a millisecond. */
async function pass (ms: number): Promise<void> {
  passedMs += ms
  await sleep(5)
}

/** Servers `mx.<name>` of domains `<name>`, and what the provider says of addresses there. */
async function setUp (
  servers: Readonly<Record<string, MailServer>>, zones: Readonly<Record<string, Zone>> = {}
) {
  const mail = await startMailServers(servers)
  const own = Object.keys(servers).map((host) => [host.slice(3), { mx: [[10, host]] }] as const)
  const dns: DnsServer = await startDnsServer({
    ...mail.zones, ...Object.fromEntries(own), ...zones,
  })
  stops.push(mail.stop, dns.stop)
  const dialled: string[] = []
  const connect: typeof mail.connect = (address, signal) => {
    dialled.push(address)
    return mail.connect(address, signal)
  }
  const provider = (setting?: ProbeSetting) => smtpProviderOf({ dns, mail: { connect } }, setting)
  const rcpt = (host: string) =>
    (mail.heard.get(host) ?? []).filter((line) => line.startsWith('RCPT'))
  return { mail, dns, dialled, provider, rcpt }
}

const words = ({ verdict, retry }: ProviderAnswer) =>
  `${verdict.status} ${verdict.reason}${retry ? ' later' : ''}`
const said = (answers: readonly ProviderAnswer[]) => answers.map(words)
const janes = (count: number, domain: string) =>
  Array.from({ length: count }, (_, n) => `jane${n}@${domain}`)
const onlyJanes = (address: string) => address.startsWith('jane') ? undefined : '550 5.1.1 unknown'

describe('a mail server that greylists', () => {
  it('is retried when its time has come, by its word or by ours, and then trusted', async () => {
    let reply = '451 4.7.1 Greylisted, come back in 00:02:00'
    const { provider, rcpt } = await setUp({
      'mx.grey.org': { recipients: (address) => reply === '' ? onlyJanes(address) : reply },
    })
    const { check } = provider()
    const [asked] = await check(...request(['jane@grey.org']))
    expect([words(asked!), asked?.retry])
      .toEqual(['unknown greylisted later', { afterMs: 120_000 }])
    // The made-up name is asked for too, so that it waits no longer than the address.
    await eventually(() => expect(rcpt('mx.grey.org')).toHaveLength(2))
    reply = '451 4.7.1 Greylisted'
    const minutes: number[] = []
    for (let tries = 0; tries < 6; tries++) {
      const [rows, options] = request(['jane@grey.org'])
      const [again] = await check(rows.map(row => ({ ...row, tries })), options)
      minutes.push((again?.retry as { afterMs: number }).afterMs / 60_000)
    }
    for (const [tries, expected] of [5, 15, 30, 60, 120, 120].entries()) {
      expect(minutes[tries]).toBeGreaterThanOrEqual(0.8 * expected)
      expect(minutes[tries]).toBeLessThanOrEqual(1.2 * expected)
    }
    reply = ''
    expect(said(await check(...request(['jane@grey.org'])))).toEqual(['valid deliverable'])
  })

  it('by recipient learns the made-up name at once, whichever process asks', async () => {
    const seen = new Set<string>()
    const greylist = (address: string) => {
      if (seen.has(address)) return undefined
      seen.add(address)
      return '450 4.2.0 Greylisted'
    }
    const { provider } = await setUp({ 'mx.grey.org': { recipients: greylist } })
    const [first, second] = [provider(), provider()]
    expect(said(await first.check(...request(['jane@grey.org']))))
      .toEqual(['unknown greylisted later'])
    // It accepts every name whose time has come, also in the eyes of another process.
    expect(said(await second.check(...request(['jane@grey.org'])))).toEqual(['risky catch_all'])
    expect(seen.size).toBe(2)
  })

  it('only the made-up name has its row retried until that is refused', async () => {
    let patient = false
    const { provider } = await setUp({
      'mx.grey.org': {
        recipients: (address) => address.startsWith('jane')
          ? undefined
          : patient ? '550 5.1.1 unknown' : '451 4.7.1 Greylisted',
      },
    })
    const { check } = provider()
    const [early] = await check(...request(['jane@grey.org']))
    expect([early?.retry, early?.verdict.confidence]).toEqual([{ afterMs: expect.any(Number) }, 70])
    patient = true
    const [late] = await check(...request(['jane@grey.org']))
    expect([late?.retry, late?.verdict.confidence]).toEqual([undefined, 95])
  })
})

describe('a slow mail server', () => {
  /** A server that greets when the test says so. */
  function createSlowServer () {
    const greeted = Promise.withResolvers<void>()
    const onConnect: RealOptions['onConnect'] = (_, done) => {
      greeted.promise.then(() => done()).catch(done)
    }
    return {
      server: { recipients: onlyJanes, options: { onConnect } }, greet: () => greeted.resolve(),
    }
  }

  it('does not delay the first check, and its answer is there in the next one', async () => {
    const slow = createSlowServer()
    const { provider, dialled, rcpt } = await setUp({ 'mx.slow.org': slow.server })
    const { check } = provider({ firstTimeoutMs: 8_000 })
    const [rows, options] = request(['jane@slow.org'])
    const first = check(rows, { ...options, isFirst: true })
    const call = ends[0]!
    expect(call.ms).toBeLessThanOrEqual(8_000)
    await eventually(() => expect(dialled).toHaveLength(1))
    call.end()
    const [late] = await first
    expect([words(late!), late?.retry]).toEqual(['unknown timeout later', { afterMs: 0 }])
    const second = check(...request(['jane@slow.org', 'joe@slow.org']))
    expect(ends.at(-1)?.ms).toBeGreaterThan(8_000)
    slow.greet()
    expect(said(await second)).toEqual(['valid deliverable', 'invalid mailbox_not_found'])
    expect([dialled.length, rcpt('mx.slow.org').length]).toEqual([1, 3])
  })

  it('that does not greet in time rests, and its rows are tried twice more', async () => {
    const { provider, dialled } = await setUp({ 'mx.slow.org': { script: { GREETING: 'silent' } } })
    const { check } = provider({ greetingTimeoutMs: 100, restMs: 600_000 })
    const all = janes(5, 'slow.org')
    expect(said(await check(...request(all)))).toEqual(Array(5).fill('unknown no_answer later'))
    expect(said(await check(...request(all)))).toEqual(Array(5).fill('unknown no_answer later'))
    expect(dialled).toHaveLength(1)
    await pass(600_000)
    const [rows, options] = request(all)
    expect(said(await check(rows.map(row => ({ ...row, tries: 2 })), options)))
      .toEqual(Array(5).fill('unknown no_answer'))
    expect(dialled).toHaveLength(2)
  })

  it('that does not greet in time does not hinder the next exchange of the domain', async () => {
    const { provider, dialled } = await setUp({
      'mx.slow.org': { script: { GREETING: 'silent' } },
      'mx.mail.org': { recipients: onlyJanes },
    }, { 'both.org': { mx: [[10, 'mx.slow.org'], [20, 'mx.mail.org']] } })
    const { check } = provider({ greetingTimeoutMs: 2_000 })
    expect(said(await check(...request(['jane@both.org'])))).toEqual(['valid deliverable'])
    expect(dialled).toHaveLength(2)
  })
})

it('a row whose domain has no answer of the DNS waits a minute, three times', async () => {
  const { provider, dns } = await setUp({ 'mx.plain.org': { recipients: onlyJanes } }, {
    'plain.org': { fault: 'SERVFAIL' },
  })
  const { check } = provider()
  const answerTo = async (tries: number) => {
    const [rows, options] = request(['jane@plain.org'])
    const [answer] = await check(rows.map(row => ({ ...row, tries })), options)
    return [words(answer!), answer?.retry]
  }
  for (const tries of [0, 1, 2]) {
    expect(await answerTo(tries)).toEqual(['unknown dns_error later', { afterMs: 60_000 }])
  }
  expect(await answerTo(3)).toEqual(['unknown dns_error', undefined])
  dns.zones.set('plain.org', { mx: [[10, 'mx.plain.org']] })
  expect(await answerTo(1)).toEqual(['valid deliverable', undefined])
})

describe('the test with a made-up name', () => {
  it('is made once a domain and remembered', async () => {
    const { provider, rcpt } = await setUp({ 'mx.any.org': { recipients: () => undefined } })
    const { check } = provider()
    await check(...request(['jane@any.org']))
    expect(rcpt('mx.any.org')).toHaveLength(2)
    expect(rcpt('mx.any.org')[0]).toBe('RCPT jane@any.org')
    expect(said(await check(...request(['joe@any.org'])))).toEqual(['risky catch_all'])
    expect(rcpt('mx.any.org').slice(2)).toEqual(['RCPT joe@any.org'])
  })

  it('starts another mail where the server accepts one recipient for each', async () => {
    const { provider, mail } = await setUp({
      'mx.one.org': {
        script: (() => {
          let taken = 0
          return {
            MAIL: () => {
              taken = 0
              return '250 ok'
            },
            RCPT: (line: string) => taken++ > 0
              ? '452 4.5.3 One at a time'
              : line.includes('<jane') ? '250 ok' : '550 5.1.1 unknown',
          }
        })(),
      },
    })
    const answers = await provider().check(...request(janes(3, 'one.org')))
    expect(answers.map(({ verdict }) => [verdict.confidence, verdict.fields['catch_all']]))
      .toEqual(Array(3).fill([95, 'false']))
    const heard = mail.heard.get('mx.one.org') ?? []
    expect(heard.filter(line => line.startsWith('EHLO'))).toHaveLength(1)
    expect(heard.filter(line => line === 'RSET').length).toBeGreaterThan(2)
    expect(heard).not.toContain('DATA')
  })

  it('never counts against hosts that reject unknown names', async () => {
    const host = 'mx.l.google.com'
    const { provider, rcpt } =
      await setUp({ [host]: { recipients: onlyJanes } }, { 'gmail.com': { mx: [[10, host]] } })
    await provider().check(...request(['jane@gmail.com', 'joe@gmail.com']))
    expect(rcpt(host).toSorted()).toEqual(['RCPT jane@gmail.com', 'RCPT joe@gmail.com'])
  })
})

it('a session asks for the rows of many domains and tenants, in turns', async () => {
  const { provider, rcpt, dialled } = await setUp(
    { 'mx.busy.org': { recipients: onlyJanes } }, { 'other.org': { mx: [[10, 'mx.busy.org']] } })
  const { check } = provider()
  const [rows, options] = request(janes(15, 'busy.org'))
  const [others] = request(janes(2, 'other.org'))
  const both = await Promise.all([
    check(rows, { ...options, tenant: 'large:live' }),
    check(others, { ...options, tenant: 'small:live' }),
  ])
  expect(said(both.flat())).toEqual(Array(17).fill('valid deliverable'))
  expect(dialled).toHaveLength(1)
  const asked = rcpt('mx.busy.org').filter(line => line.startsWith('RCPT jane'))
  expect(asked.slice(0, 4).filter(line => line.endsWith('@other.org'))).toHaveLength(2)
})

describe('the end of a call', () => {
  it('postpones interrupted rows, and delays no others', async () => {
    let closed = 0
    const options = { onClose: () => { closed += 1 } }
    const { provider, rcpt } = await setUp({
      'mx.slow.org': { script: { RCPT: 'silent' } },
      'mx.mail.org': { recipients: onlyJanes, options },
    })
    const running = provider().check(...request(['jane@slow.org', 'jane@mail.org'], 60_000))
    const call = ends[0]!
    await eventually(() => expect([rcpt('mx.slow.org').length, closed]).toEqual([1, 1]))
    call.end()
    expect(said(await running)).toEqual(['unknown timeout later', 'valid deliverable'])
    // A little is left for the answer itself.
    expect(call.ms).toBeLessThanOrEqual(60_000 - 250)
  })

  it('by its signal ends the wait at once', async () => {
    const { provider, dialled } = await setUp({ 'mx.slow.org': { script: { GREETING: 'silent' } } })
    const stop = new AbortController()
    const [rows, options] = request(['jane@slow.org'])
    const running = provider().check(rows, { ...options, signal: stop.signal })
    await eventually(() => expect(dialled).toHaveLength(1))
    stop.abort()
    expect(said(await running)).toEqual(['unknown timeout later'])
  })
})

it('a mail server that blocks us is not probed for a while, also for other addresses', async () => {
  const { provider, dialled } = await setUp({
    'mx.no.org': { script: { GREETING: '554 go away' } },
    'mx.dead.org': 'closed',
  })
  const { check } = provider({ restMs: 600_000 })
  const all = ['jane@no.org', 'jane@dead.org']
  const answers = ['unknown blocked later', 'unknown mail_server_unreachable later']
  expect(said(await check(...request(all)))).toEqual(answers)
  expect(said(await check(...request(['joe@no.org', 'joe@dead.org'])))).toEqual(answers)
  expect(dialled).toHaveLength(2)
  await pass(600_000)
  await check(...request(all))
  expect(dialled).toHaveLength(4)
})

it('a row for which a server ends the session costs no other row its answer', async () => {
  const { provider } = await setUp({
    'mx.picky.org': {
      script: {
        EHLO: '250-hi\r\n250 PIPELINING',
        RCPT: line => line.includes('<joe@')
          ? 'drop'
          : line.includes('<jane') ? '250 ok' : '550 5.1.1 unknown',
      },
    },
  })
  const [first, ...others] = await provider().check(
    ...request(['joe@picky.org', ...janes(3, 'picky.org'), 'x@picky.org']))
  expect(words(first!)).toBe('unknown mail_server_unreachable later')
  expect(said(others)).toEqual([...Array(3).fill('valid deliverable'), 'invalid mailbox_not_found'])
})

describe('connections to mail servers', () => {
  it('go to public addresses alone, whatever DNS says', async () => {
    const { provider, dialled } = await setUp({ 'mx.mail.org': { recipients: onlyJanes } }, {
      'trap.org': { mx: [[1, 'inside.trap.org'], [2, 'mixed.trap.org']] },
      'inside.trap.org': { a: ['127.0.0.1', '10.0.0.1', '169.254.169.254'] },
      'mixed.trap.org': { a: ['192.168.1.1', '93.184.250.250'] },
      'inside.org': { a: ['127.0.0.1'] },
    })
    const answers = await provider().check(...request(['jane@trap.org', 'jane@inside.org']))
    expect(said(answers)).toEqual([
      'unknown mail_server_unreachable later', 'invalid no_mail_service',
    ])
    expect(dialled).toEqual(['93.184.250.250'])
  })

  it('try the next address of a host that cannot be reached at the first one', async () => {
    const { provider, dialled } = await setUp({ 'mx.mail.org': { recipients: onlyJanes } }, {
      'firm.org': { mx: [[10, 'mx.firm.org']] },
      'mx.firm.org': { a: ['93.184.250.250', '93.184.250.251', '93.184.200.1'] },
    })
    const answers = await provider().check(...request(['jane@firm.org']))
    expect(said(answers)).toEqual(['valid deliverable'])
    expect(dialled.toSorted()).toEqual(['93.184.200.1', '93.184.250.250', '93.184.250.251'])
  })

  it('prefer a host that may answer later to one that cannot be reached', async () => {
    const { provider } = await setUp({
      'mx.busy.org': { script: { GREETING: '421 Too many connections' } }, 'mx.dead.org': 'closed',
    }, { 'firm.org': { mx: [[10, 'mx.busy.org'], [20, 'mx.dead.org']] } })
    expect(said(await provider().check(...request(['jane@firm.org']))))
      .toEqual(['unknown greylisted later'])
  })

  it('are plain, and name the configured sender, if configured', async () => {
    const { provider, mail } = await setUp({ 'mx.mail.org': { recipients: onlyJanes } })
    const caller = { helo: 'a.org', sender: 'probe@a.org' }
    await provider({ startTls: false, caller }).check(...request(['jane@mail.org']))
    expect(mail.heard.get('mx.mail.org')?.[0]).toBe('MAIL probe@a.org plain a.org')
  })

  it('serve 200 rows of 20 servers at once', async () => {
    const greeted = Promise.withResolvers<void>()
    let connections = 0
    // The server greets no client before all of the first ones have connected.
    const onConnect: RealOptions['onConnect'] = (_, done) => {
      if (++connections === 20) greeted.resolve()
      greeted.promise.then(() => done()).catch(done)
    }
    const servers = Object.fromEntries(Array.from({ length: 20 }, (_, n) =>
      [`mx.many${n}.org`, { recipients: onlyJanes, options: { onConnect } }]))
    const { provider } = await setUp(servers)
    const all = Array.from({ length: 20 }, (_, n) => janes(10, `many${n}.org`)).flat()
    const { check } = provider({ startTls: false })
    expect(new Set(said(await check(...request(all))))).toEqual(new Set(['valid deliverable']))
  })
})

describe('the configured provider', () => {
  const env = {
    ...STAGE_ENVIRONMENT,
    SMTP_HELO: 'probe.verify.org',
    DNS_TIMEOUT_MS: '60000',
    SMTP_REPLY_TIMEOUT_MS: '120000',
  }

  it('queries a real server, at a loopback address only if that is allowed', async () => {
    const { mail, dns } = await setUp({ 'mx.mail.org': { recipients: onlyJanes } }, {
      'local.org': { a: ['127.0.0.1'] },
    })
    const check = async (more: Record<string, string>) => {
      const config = loadConfig(verifyConfig, {
        ...env, DNS_SERVERS: dns.address, SMTP_PORT: String(mail.portOf('mx.mail.org')), ...more,
      })
      const provider = createProviders(config)['smtp-probe']?.()
      return said(await provider?.check(...request(['jane@local.org', 'joe@local.org'])) ?? [])
    }
    expect(await check({ SMTP_ALLOW_PRIVATE: 'true' }))
      .toEqual(['valid deliverable', 'invalid mailbox_not_found'])
    const heard = mail.heard.get('mx.mail.org')?.length
    expect(await check({})).toEqual(['invalid no_mail_service', 'invalid no_mail_service'])
    expect(mail.heard.get('mx.mail.org')).toHaveLength(heard ?? 0)
  })
})
