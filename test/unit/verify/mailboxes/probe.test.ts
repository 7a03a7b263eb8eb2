import { Duplex } from 'node:stream'
import type { Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createEgressPool } from '../../../../services/verify/mailboxes/egress.ts'
import { createMailHosts } from '../../../support/mail/mail-hosts.ts'

const DAY_MS = 86_400_000
beforeEach(() => { vi.useFakeTimers({ toFake: ['Date'], now: 0 }) })
afterEach(() => { vi.useRealTimers() })

/** The replies of a server in order, the greeting first; then it ends the connection. */
type Script = readonly string[]
const ACCEPTS_ALL: Script = ['220 hi', '250 hi', '250 ok', '250 ok', '250 ok', '221 bye']

/** What a server with this script is sent, and what the probe says of the address. */
async function probe (script: Script, {
  address = 'jane@firm.org', host = 'mx.firm.org', helo = 'probe.verify.org',
} = {}) {
  const sent: string[] = []
  const closed = Promise.withResolvers<void>()
  const replies = [...script]
  const reply = (socket: Duplex) => {
    const text = replies.shift()
    socket.push(text === undefined ? null : `${text}\r\n`)
    if (text === undefined) socket.destroy()
  }
  const connect = async () => {
    const socket = new Duplex({
      read: () => {},
      destroy: (_error, done) => {
        closed.resolve()
        done(null)
      },
      write: (bytes, _encoding, done) => {
        sent.push(String(bytes).trim())
        reply(socket)
        done()
      },
    })
    reply(socket)
    return socket as unknown as Socket
  }
  const hosts = createMailHosts({
    pool: createEgressPool([
      { name: 'probe', caller: { helo, sender: 'probe@verify.org' }, connect },
    ]),
    idleMs: 0,
  })
  const probed = await hosts.ask(address, {
    tenant: 'org:live',
    hosts: [{ name: host, addresses: ['192.0.2.1'] }],
    signal: new AbortController().signal,
  })
  await closed.promise
  return { probed, sent }
}

describe('an SMTP session', () => {
  const ASKED = [
    'EHLO probe.verify.org', 'MAIL FROM:<probe@verify.org>', 'RCPT TO:<jane@firm.org>',
    expect.stringMatching(/^RCPT TO:<[a-z]{6}\.[a-z]{8}\d{3}@firm\.org>$/),
  ]
  const POSTMASTER = 'RCPT TO:<postmaster@firm.org>'
  it.each<[string, Script, object, readonly unknown[]]>([
    ['asks for the address, then for a made-up name',
      ['220 hi', '250 hi', '250 ok', '250 ok', '550 5.1.1 no', '221 bye'],
      { mailbox: 'accepted', catchAll: false }, [...ASKED, 'QUIT']],
    ['asks for the postmaster after a refusal',
      ['220 hi', '250 hi', '250 ok', '550 5.1.1 no', '250 ok', '221 bye'],
      { mailbox: 'no_mailbox' }, [...ASKED.slice(0, 3), POSTMASTER, 'QUIT']],
    ['does not believe who refuses the postmaster too',
      ['220 hi', '250 hi', '250 ok', '550 5.1.1 no', '550 5.1.1 no', '221 bye'],
      { mailbox: 'accepted', acceptance: 'accepts_any' },
      [...ASKED.slice(0, 3), POSTMASTER, 'QUIT']],
    ['asks again later where the postmaster is greylisted',
      ['220 hi', '250 hi', '250 ok', '550 5.1.1 no', '451 later', '221 bye'],
      { mailbox: 'accepted', acceptance: 'accepts_any', retry: true },
      [...ASKED.slice(0, 3), POSTMASTER, 'QUIT']],
    ['asks again when a server says that its postmaster can be asked for',
      ['220 hi', '250 hi', '250 ok', '550 5.1.1 no', '451 try again in 20 seconds', '221 bye'],
      { mailbox: 'accepted', acceptance: 'accepts_any', retry: { afterMs: 20_000 } },
      [...ASKED.slice(0, 3), POSTMASTER, 'QUIT']],
    ['asks for the postmaster in a further MAIL where it is one recipient too many',
      ['220 hi', '250 hi', '250 ok', '550 5.1.1 no', '452 4.5.3 one', '250 ok', '250 ok', '250 ok',
        '221 bye'],
      { mailbox: 'no_mailbox' }, [
        ...ASKED.slice(0, 3), POSTMASTER, 'RSET', 'MAIL FROM:<probe@verify.org>', POSTMASTER,
        'QUIT',
      ]],
    ['asks again later if the connection drops at the postmaster',
      ['220 hi', '250 hi', '250 ok', '550 5.1.1 no'],
      { mailbox: 'accepted', acceptance: 'accepts_any', retry: true },
      [...ASKED.slice(0, 3), POSTMASTER]],
    ['asks for the made-up name too if the address is greylisted',
      ['220 hi', '250 hi', '250 ok', '451 later', '451 later', '221 bye'],
      { mailbox: 'greylisted', retry: true }, [...ASKED, 'QUIT']],
    ['asks nothing more after a 421, which ends it',
      ['220 hi', '250 hi', '250 ok', '421 closing', '221 bye'],
      { mailbox: 'greylisted', retry: true }, [...ASKED.slice(0, 3), 'QUIT']],
    ['keeps the answer if the connection drops at the made-up name',
      ['220 hi', '250 hi', '250 ok', '250 ok'],
      { mailbox: 'accepted', catchAll: undefined }, ASKED],
    ['ends with a greeting that refuses us', ['554 no', '221 bye'],
      { mailbox: 'blocked', retry: { afterMs: expect.any(Number) } }, ['QUIT']],
    ['ends with a refused HELO', ['220 hi', '502 no', '502 no', '221 bye'],
      { mailbox: 'blocked', retry: { afterMs: expect.any(Number) } },
      ['EHLO probe.verify.org', 'HELO probe.verify.org', 'QUIT']],
    ['ends with a refused sender', ['220 hi', '250 hi', '550 no', '221 bye'],
      { mailbox: 'blocked', retry: { afterMs: expect.any(Number) } },
      [...ASKED.slice(0, 2), 'QUIT']],
  ])('%s', async (_, script, probed, sent) => {
    expect(await probe(script)).toEqual({ probed, sent })
  })

  it.each([
    ['250-hi\r\n250 smtputf8', 'accepted', 'MAIL FROM:<probe@verify.org> SMTPUTF8'],
    ['250 hi', 'unclear', 'QUIT'],
  ])('with %j asks for an address that is not ASCII: %s', async (hello, mailbox, line) => {
    const script = ['220 hi', hello, ...ACCEPTS_ALL.slice(2)]
    const { probed, sent } = await probe(script, { address: 'j\u00fcrgen@firm.org' })
    expect([probed.mailbox, sent[1]]).toEqual([mailbox, line])
  })
})

describe('acceptance by a mail host', () => {
  it.each([
    ...['gmail.com', 'googlemail.com']
      .map(domain => [domain, 'gmail-smtp-in.l.google.com', 'truthful']),
    ...['hotmail.com', 'hotmail.co.uk', 'outlook.de', 'live.com.mx', 'msn.com']
      .map(domain => [domain, 'eur.olc.protection.outlook.com', 'truthful']),
    ...['yahoo.com', 'ymail.com', 'aol.com', 'verizon.net']
      .map(domain => [domain, 'mta5.am0.yahoodns.net', 'accepts_any']),
    ['yahoo.co.jp', 'mx1.mail.yahoo.co.jp', 'accepts_any'],
    ...['mail.ru', 'bk.ru'].map(domain => [domain, 'mxs.mail.ru', 'accepts_any']),
    // The server of another owner does not speak for the domain's.
    ['live.io', 'mx.live.io', undefined],
    ['firm.org', 'mta5.am0.yahoodns.net', 'accepts_any'],
    ['firm.org', 'yahoodns.net.firm.org', undefined],
    ['firm.org', 'notyahoodns.net', undefined],
    ...['notgmail.com', 'gmail.com.evil.org', 'live.company.org', 'yahoo.evil', 'mail.org']
      .map(domain => [domain, undefined, undefined]),
  ])('at %s, %s is %s', async (domain, host, acceptance) => {
    const { probed } =
      await probe(ACCEPTS_ALL, { address: `jane@${domain}`, ...(host && { host }) })
    expect(probed.acceptance).toBe(acceptance)
    expect(probed.catchAll).toBe(acceptance === undefined ? true : undefined)
  })
})

describe('a made-up name', () => {
  const madeUp = async (domain = 'firm.org', helo = 'probe.verify.org') => {
    const { sent } = await probe(ACCEPTS_ALL, { address: `jane@${domain}`, helo })
    return /<(.*)@/.exec(sent[3] ?? '')?.[1]
  }

  it('differs by domain and by client', async () => {
    const names = [
      await madeUp(), await madeUp('other.org'), await madeUp('firm.org', 'probe.other.org'),
    ]
    expect(new Set(names).size).toBe(3)
  })

  it('changes once a week, at another time for each domain', async () => {
    const changes = async (domain: string) => {
      const names: (string | undefined)[] = []
      for (let day = 0; day <= 7; day++) {
        vi.setSystemTime(day * DAY_MS)
        names.push(await madeUp(domain))
      }
      return names.flatMap((name, day) => day > 0 && name !== names[day - 1] ? [day] : [])
    }
    const times: number[][] = []
    for (const domain of ['a.org', 'b.org', 'c.org', 'd.org']) times.push(await changes(domain))
    expect(times.map(({ length }) => length)).toEqual([1, 1, 1, 1])
    expect(new Set(times.flat()).size).toBeGreaterThan(1)
  })
})
