import { afterEach, describe, expect, it, vi } from 'vitest'
import { SmtpFault } from '../../../../services/verify/mailboxes/session.ts'
import {
  createOpenMemory, knowing, NO_MAILBOX, people, PIPELINING, startMailHosts,
} from '../../../support/mail/mail-hosts.ts'

const NO_TURN = { why: 'rate', waitMs: 600_000 } as const
const UNTRUTHFUL = { mailbox: 'accepted', acceptance: 'accepts_any' }
afterEach(() => { vi.useRealTimers() })

const MX = 'mx.hosting.net'
/** The reply to a recipient by its domain, or accepted. */
const byDomain = (replies: Readonly<Record<string, string>>) => (line: string) =>
  replies[/@(.*)>/.exec(line)?.[1] ?? ''] ?? '250 fine'

describe('a server whose owner is not listed', () => {
  it('is its address, whatever names lead there', async () => {
    const { begin } = createOpenMemory()
    const begun: string[] = []
    const { hosts, server } = await startMailHosts({ [MX]: {} }, {
      memory: {
        begin: async (party, wanted) => {
          begun.push(party.policy.owner)
          return await begin(party, wanted)
        },
      },
    })
    const { id } = server(MX)
    const ask = async (name: string, ...addresses: string[]) => await hosts.ask(`jane@${name}`, {
      tenant: 'a', hosts: [{ name: `mx.${name}`, addresses }], signal: new AbortController().signal,
    })
    const accepted = { mailbox: 'accepted' }
    expect(await ask('a.org', id)).toMatchObject(accepted)
    // Nobody listens there, as is remembered of the address.
    expect(await ask('b.org', '1.0.0.1', id)).toMatchObject(accepted)
    expect(await ask('c.org', '1.0.0.1', id, '1.0.0.2')).toMatchObject(accepted)
    expect(await ask('d.org', '1.0.0.1')).toMatchObject({ mailbox: 'unreachable' })
    expect(begun).toEqual([id, '1.0.0.1', id, id])
  })
})

describe('a server that refuses everybody, also its postmaster,', () => {
  const script = { EHLO: PIPELINING, POSTMASTER: NO_MAILBOX }

  it('is not believed, is asked for its postmaster once, and goes on being asked', async () => {
    const { ask, heard } = await startMailHosts({ [MX]: { ...script, RCPT: NO_MAILBOX } })
    const refused = people(30)
    const answers = await Promise.all(refused.map(address => ask(address, MX)))
    expect(answers).toEqual(refused.map(() => UNTRUTHFUL))
    // Of two sessions at the same time.
    const postmasters = heard(MX, 'RCPT TO:<postmaster@').length
    expect(postmasters).toBeLessThanOrEqual(2)
    expect(await ask('later@firm.org', MX)).toEqual(UNTRUTHFUL)
    expect(heard(MX, 'RCPT TO:<postmaster@')).toHaveLength(postmasters)
    expect(heard(MX, 'RCPT TO:<later@')).toHaveLength(1)
  })

  it.each([
    ['its domain as missing', '550 5.1.2 Recipient address rejected: Domain not found'],
    ['its domain as unknown to its name servers',
      '550 5.1.2 <jane@firm.org>... Host unknown (Name server: firm.org: host not found)'],
    ['its domain as closed', '550 the domain of the recipient was vacated'],
  ])('is not believed if it names %s', async (_, refusal) => {
    const { ask } = await startMailHosts({
      [MX]: { EHLO: PIPELINING, RCPT: refusal, POSTMASTER: refusal },
    })
    expect(await ask('jane@firm.org', MX)).toEqual(UNTRUTHFUL)
  })

  it.each([
    '521 5.3.2 host does not accept mail', '556 5.1.10 <jane@firm.org>: domain has a null MX',
    '550 5.3.2 system not accepting network messages', '550 this domain does not accept mail',
  ])('is believed if it speaks of itself: %s', async refusal => {
    const { ask } = await startMailHosts({
      [MX]: { EHLO: PIPELINING, RCPT: refusal, POSTMASTER: refusal },
    })
    expect(await ask('jane@firm.org', MX)).toMatchObject({ mailbox: 'no_mail' })
  })

  it('is believed from the first that it accepts, also for others', async () => {
    const { ask } = await startMailHosts({
      [MX]: { ...script, RCPT: line => line.includes('<jane@') ? '250 fine' : NO_MAILBOX },
    })
    await Promise.all(people(30).map(address =>
      ask(address, MX, { tenant: 'bad:live' })))
    expect(await ask('jane@firm.org', MX)).toEqual({ mailbox: 'accepted', catchAll: false })
    expect(await ask('john@firm.org', MX)).toEqual({ mailbox: 'no_mailbox' })
  })

  it('is believed of those before the first that it accepts in the same session', async () => {
    const { ask, heard } = await startMailHosts({
      [MX]: { ...script, RCPT: line => line.includes('<p9@') ? '250 fine' : NO_MAILBOX },
    })
    const answers = await Promise.all(people(10).map(address => ask(address, MX)))
    expect(answers.slice(0, 9)).toEqual(people(9).map(() => ({ mailbox: 'no_mailbox' })))
    expect(heard(MX, 'RCPT TO:<postmaster@')).toEqual([])
  })

  it('is believed by the postmaster of any of its domains', async () => {
    const { ask } = await startMailHosts({
      [MX]: {
        EHLO: PIPELINING, RCPT: NO_MAILBOX, POSTMASTER: byDomain({ 'firm.org': NO_MAILBOX }),
      },
    })
    expect(await Promise.all([ask('jane@firm.org', MX), ask('jane@other.org', MX)]))
      .toEqual([{ mailbox: 'no_mailbox' }, { mailbox: 'no_mailbox' }])
  })

  it('is believed if its owner is known, whose customers have no postmasters', async () => {
    const exchange = 'mx1.pphosted.com'
    const { ask, heard } = await startMailHosts({ [exchange]: { ...script, RCPT: NO_MAILBOX } })
    expect(await ask('jane@firm.org', exchange)).toEqual({ mailbox: 'no_mailbox' })
    expect(heard(exchange, 'RCPT TO:<postmaster@')).toEqual([])
  })

  it('and then us is asked for nobody any more', async () => {
    const { ask, heard, reports } = await startMailHosts({
      [MX]: {
        ...script, RCPT: line => line.includes('<p0@') ? NO_MAILBOX : '550 5.7.1 You are blocked',
      },
    })
    await Promise.all(people(4, 'hosting.net').map(address => ask(address, MX)))
    expect(heard(MX, 'RCPT TO:<postmaster@')).toEqual([])
    expect(reports.map(({ ending }) => ending)).toEqual(['blocked'])
  })

  it('is asked for no more postmasters than its sessions have recipients', async () => {
    let [recipients, most] = [0, 0]
    const refuse = () => {
      most = Math.max(most, ++recipients)
      return NO_MAILBOX
    }
    const { ask } = await startMailHosts({
      [MX]: {
        EHLO: () => {
          recipients = 0
          return PIPELINING
        },
        RCPT: refuse,
        POSTMASTER: refuse,
      },
    }, {
      connections: 1, memory: knowing({ limit: 12 }),
    })
    const answers = await Promise.all(Array.from({ length: 40 }, (_, index) =>
      ask(`jane@firm${index}.org`, MX)))
    expect(most).toBe(12)
    expect(answers).toEqual(answers.map(() => expect.objectContaining(UNTRUTHFUL)))
  })

  it.each([
    ['accepts him is believed', '250 ok', { mailbox: 'no_mailbox' }],
    ['greylists him is asked again later', '451 later', { ...UNTRUTHFUL, retry: true }],
    ['names the time is asked then', '451 try again in 20 seconds',
      { ...UNTRUTHFUL, retry: { afterMs: 20_000 } }],
    ['drops the connection is asked again', 'drop', { ...UNTRUTHFUL, retry: true }],
  ])('or only the row: one that %s', async (_, reply, answer) => {
    const { ask } = await startMailHosts({ [MX]: { RCPT: NO_MAILBOX, POSTMASTER: reply } })
    expect(await ask('jane@firm.org', MX)).toEqual(answer)
  })

  it('is asked for him in a further MAIL where he is one recipient too many', async () => {
    const replies = ['452 4.5.3 One at a time', '250 ok']
    const { ask, heard } = await startMailHosts({
      [MX]: { RCPT: NO_MAILBOX, POSTMASTER: () => replies.shift() ?? '' },
    })
    expect(await ask('jane@firm.org', MX)).toEqual({ mailbox: 'no_mailbox' })
    expect(heard(MX, 'RSET')).toHaveLength(1)
  })

  it('to one egress is not believed for what it accepts from another', async () => {
    const { ask, memory } = await startMailHosts({ [MX]: { ...script, RCPT: NO_MAILBOX } })
    await memory.note(MX, { accepted: 'another' })
    expect(await ask('jane@firm.org', MX)).toEqual(UNTRUTHFUL)
    await memory.note(MX, { accepted: 'probe' })
    expect(await ask('john@firm.org', MX)).toEqual({ mailbox: 'no_mailbox' })
  })
})

describe('an exchange that accepts any name of many domains', () => {
  const acceptsAny = { memory: knowing({ acceptsAny: true, hasAccepted: true }) }

  it('is not asked for these, and another domain shows whether it still does', async () => {
    const { ask, heard, memory } = await startMailHosts({
      [MX]: { RCPT: line => line.includes('<jane@') ? '250 fine' : NO_MAILBOX },
    }, acceptsAny)
    await memory.rememberCatchAll(MX, 'open.org', true)
    expect(await ask('jane@open.org', MX)).toEqual(UNTRUTHFUL)
    expect(heard(MX, 'RCPT')).toEqual([])
    expect(await ask('jane@firm.org', MX)).toEqual({ mailbox: 'accepted', catchAll: false })
  })

  it('says nothing of the first row of a domain either', async () => {
    const { ask } = await startMailHosts({ [MX]: {} }, acceptsAny)
    expect(await ask('jane@firm.org', MX)).toEqual(UNTRUTHFUL)
  })
})

describe('a refusal of us', () => {
  const BLOCKED = '550 5.7.1 Your address is blocked by our policy'

  it('by one customer of an exchange is no rest for the others, and not asked again', async () => {
    const { ask, heard, reports } = await startMailHosts({
      [MX]: { RCPT: byDomain({ 'evil.org': BLOCKED }) },
    })
    const evil = await Promise.all(people(20, 'evil.org').map(address => ask(address, MX)))
    expect(new Set(evil.map(({ mailbox }) => mailbox))).toEqual(new Set(['blocked']))
    expect(heard(MX, 'RCPT TO:<p').length).toBe(3)
    expect(await ask('jane@firm.org', MX)).toMatchObject({ mailbox: 'accepted' })
    expect(new Set(reports.map(({ ending }) => ending))).toEqual(new Set(['well']))
  })

  it('by three of them, or by its own domain, is one of all', async () => {
    for (const domains of [['a.org', 'b.org', 'c.org'], Array(3).fill('hosting.net') as string[]]) {
      const { ask, reports } = await startMailHosts({ [MX]: { EHLO: PIPELINING, RCPT: BLOCKED } })
      await Promise.all(domains.map((domain, index) => ask(`p${index}@${domain}`, MX)))
      expect(reports.map(({ ending }) => ending)).toEqual(['blocked'])
    }
  })

  it.each([
    '550 5.7.1 Relaying denied', '554 5.7.1 <p0@evil0.org>: Relay access denied',
    '550 relay not permitted', '550 5.7.64 TenantAttribution; Relay Access Denied',
    '553 sorry, that domain isnt in my list of allowed rcpthosts (#5.7.1)',
  ])('is not what a server says of domains that name it as theirs: %s', async reply => {
    const { ask, reports } = await startMailHosts({
      [MX]: { EHLO: PIPELINING, RCPT: line => /evil\d/.test(line) ? reply : '250 fine' },
    })
    const evil = await Promise.all(['evil0.org', 'evil1.org', 'evil2.org', 'evil3.org']
      .flatMap(domain => people(3, domain)).map(address => ask(address, MX)))
    expect(new Set(evil.map(({ mailbox }) => mailbox))).toEqual(new Set(['blocked']))
    expect(await ask('jane@firm.org', MX)).toMatchObject({ mailbox: 'accepted' })
    expect(new Set(reports.map(({ ending }) => ending))).toEqual(new Set(['well']))
  })

  it('by a machine of a hosting company is none by its mail servers', async () => {
    const parties: string[] = []
    const open = createOpenMemory()
    const { ask } = await startMailHosts({
      'vps-1.hosting.net': { GREETING: '554 5.7.1 You are blocked' }, [MX]: {},
    }, {
      memory: {
        begin: async (party, wanted) => {
          parties.push(party.policy.owner)
          return await open.begin(party, wanted)
        },
      },
    })
    expect(await ask('jane@evil.org', 'vps-1.hosting.net')).toMatchObject({ mailbox: 'blocked' })
    expect(await ask('jane@firm.org', MX)).toMatchObject({ mailbox: 'accepted' })
    expect(new Set(parties).size).toBe(2)
  })
})

describe('connections of a process', () => {
  const silent = Object.fromEntries(Array.from({ length: 24 }, (_, index) =>
    [`mx.tarpit${index}.org`, { GREETING: 'silent' }]))

  it('are left to others by a tenant whose hosts hold them', async () => {
    let open = 0
    const { ask, hosts } = await startMailHosts({ ...silent, 'mx.b.org': {}, 'mx.c.org': {} }, {
      connections: 8,
      memory: {
        begin: async (_party, wanted) => {
          open += 1
          return { session: 'session', recipients: wanted }
        },
      },
    })
    const controller = new AbortController()
    const tarpits = Object.keys(silent).map(exchange => ask(`jane@${exchange.slice(3)}`, exchange, {
      tenant: 'a:live', signal: controller.signal,
    }))
    await vi.waitUntil(() => open === 6)
    for (const tenant of ['b', 'c']) {
      expect(await ask(`jane@${tenant}.org`, `mx.${tenant}.org`, { tenant: `${tenant}:live` }))
        .toMatchObject({ mailbox: 'accepted' })
    }
    expect(open).toBe(8)
    controller.abort()
    await Promise.all(tarpits)
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    const stopped = hosts.stop()
    await vi.advanceTimersByTimeAsync(10_000)
    await stopped
  })

  it('go to the tenant with the fewest once there are some', async () => {
    const turn = Promise.withResolvers<void>()
    const begun: string[] = []
    const { ask } = await startMailHosts({}, {
      connections: 4,
      memory: {
        begin: async ({ policy: { owner } }) => {
          begun.push(owner)
          if (owner !== 'mx.a0.org') return await new Promise(() => {})
          await turn.promise
          return NO_TURN
        },
      },
    })
    const controller = new AbortController()
    const { signal } = controller
    const answers: Promise<unknown>[] = []
    for (const name of ['a0', 'a1', 'a2', 'b0', 'a3', 'b1']) {
      answers.push(ask(`jane@${name}.org`, `mx.${name}.org`, { tenant: `${name[0]}:live`, signal }))
      await new Promise(setImmediate)
    }
    expect(begun).toEqual(['mx.a0.org', 'mx.a1.org', 'mx.a2.org', 'mx.b0.org'])
    turn.resolve()
    await vi.waitUntil(() => begun.length === 5)
    expect(begun.at(-1)).toBe('mx.b1.org')
    controller.abort()
    await Promise.all(answers)
  })
})

describe('a row that is withdrawn', () => {
  it('after a session gave it back leaves the others their turn', async () => {
    let begun = 0
    const again = Promise.withResolvers<void>()
    const controller = new AbortController()
    const { ask } = await startMailHosts({ 'mx.firm.org': { RCPT: NO_MAILBOX } }, {
      connections: 1,
      memory: {
        begin: async () => {
          begun += 1
          if (begun === 1) return { session: 'session', recipients: 0 }
          again.resolve()
          return controller.signal.aborted ? { session: 'session', recipients: 10 } : NO_TURN
        },
        more: async () => begun === 1 ? undefined : { recipients: 10, waitMs: 0 },
      },
    })
    const first = ask('p0@firm.org', undefined, { signal: controller.signal })
    await again.promise
    controller.abort()
    expect(await first).toMatchObject({ mailbox: 'late' })
    expect(await ask('p1@firm.org')).toEqual({ mailbox: 'no_mailbox' })
  })

  it('leaves its connection to the next exchange', async () => {
    const isTaken = Promise.withResolvers<void>()
    const turn = Promise.withResolvers<void>()
    const { ask, server } = await startMailHosts({
      'mx.busy.org': {}, 'mx.left.org': {}, 'mx.firm.org': { RCPT: NO_MAILBOX },
    }, {
      connections: 1,
      memory: {
        begin: async ({ policy: { owner } }, wanted) => {
          if (owner !== server('mx.busy.org').id) return { session: 'session', recipients: wanted }
          isTaken.resolve()
          await turn.promise
          return NO_TURN
        },
      },
    })
    const controller = new AbortController()
    const busy = ask('jane@busy.org', undefined, { signal: controller.signal })
    await isTaken.promise
    const left = ask('jane@left.org', undefined, { signal: controller.signal })
    const answer = ask('jane@firm.org')
    await new Promise(setImmediate)
    controller.abort()
    await Promise.all([busy, left])
    turn.resolve()
    expect(await answer).toEqual({ mailbox: 'no_mailbox' })
  })
})

describe('sessions with an owner that has an exchange for each customer', () => {
  const exchangeOf = (name: string) => `${name}-org.mail.protection.outlook.com`
  const names = (tenant: string, count: number) =>
    Array.from({ length: count }, (_, index) => `${tenant}${index}`)

  it('go to tenants in turn, however many exchanges one of them waits for', async () => {
    const all = [...names('a', 12), ...names('b', 2)]
    let open = 0
    const begun: string[] = []
    const { ask } = await startMailHosts(
      Object.fromEntries(all.map(name => [exchangeOf(name), {
        GREETING: () => {
          begun.push(name)
          return '220 hello'
        },
      }])), {
        memory: {
          begin: async (_party, wanted) => {
            if (open > 0) return { why: 'sessions', waitMs: 20 }
            open += 1
            return { session: 'session', recipients: wanted }
          },
          end: async () => {
            open -= 1
            return 0
          },
        },
      })
    const answers = all.map(name =>
      ask(`jane@${name}.org`, exchangeOf(name), { tenant: `${name[0]}:live` }))
    await Promise.all(answers.slice(-2))
    expect(begun.length).toBeLessThanOrEqual(5)
    const mailboxes = (await Promise.all(answers)).map(({ mailbox }) => mailbox)
    expect(mailboxes).toEqual(all.map(() => 'accepted'))
  })
})

describe('an exchange that an egress cannot reach', () => {
  const unreached: string[] = []
  const cannot = (name: string) => () => async () => {
    unreached.push(name)
    throw new SmtpFault('unreachable')
  }
  afterEach(() => { unreached.length = 0 })

  it('is asked from another, and later from that one at once', async () => {
    const { ask } = await startMailHosts({ [MX]: {} }, {
      egresses: { one: cannot('one'), two: usual => usual },
    })
    for (const address of people(10)) {
      expect(await ask(address, MX)).toMatchObject({ mailbox: 'accepted' })
    }
    expect(unreached).toEqual(['one'])
  })

  it('cannot be reached if a second one cannot either, whose number is not tried', async () => {
    const egresses = Object.fromEntries(['one', 'two', 'three', 'four'].map(name =>
      [name, cannot(name)]))
    const { ask } = await startMailHosts({ [MX]: {} }, { egresses })
    expect(await ask('jane@firm.org', MX)).toEqual({ mailbox: 'unreachable', retry: true })
    expect(unreached).toHaveLength(2)
  })
})

it('an exchange whose TLS fails is used without it for minutes, not for a day', async () => {
  const { ask, heard, hosts } = await startMailHosts({
    [MX]: { EHLO: '250-hello\r\n250 STARTTLS', STARTTLS: '220 go on' },
  }, { startTls: true })
  expect(await ask('jane@firm.org', MX)).toMatchObject({ mailbox: 'accepted' })
  const leftMs = hosts.conversation.unencrypted.getRemainingTTL(MX)
  expect([leftMs > 0, leftMs <= 600_000]).toEqual([true, true])
  await ask('john@firm.org', MX)
  expect(heard(MX, 'STARTTLS')).toHaveLength(1)
})

describe('a process that stops', () => {
  it('ends its sessions by QUIT and in the memory, and gives rows back', async () => {
    let begun = 0
    const servers = { [MX]: { RCPT: NO_MAILBOX }, 'mx.b.org': {} }
    const { ask, heard, hosts, reports, server } = await startMailHosts(servers, {
      idleMs: 600_000,
      memory: {
        begin: async ({ policy: { owner } }, wanted) => {
          if (owner === server('mx.b.org').id) return NO_TURN
          begun += 1
          return { session: 'session', recipients: wanted }
        },
      },
    })
    expect(await ask('jane@firm.org', MX)).toEqual({ mailbox: 'no_mailbox' })
    const waiting = ask('jane@b.org', 'mx.b.org')
    await hosts.stop()
    expect([begun, reports.length, heard(MX, 'QUIT').length]).toEqual([1, 1, 1])
    expect(await waiting).toEqual({ mailbox: 'late', retry: true })
    expect(await ask('john@firm.org', MX)).toEqual({ mailbox: 'late', retry: true })
    expect(begun).toBe(1)
  })

  it('does not wait for a server without an answer, nor remember it for that', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const { ask, hosts, reports, memory, heard, server } = await startMailHosts(
      { [MX]: { RCPT: 'silent' }, 'mx.b.org': { GREETING: 'silent' } })
    const answers = [ask('jane@firm.org', MX), ask('jane@b.org', 'mx.b.org')]
    await vi.waitUntil(() => heard(MX, 'RCPT').length === 1)
    const stopped = hosts.stop()
    await vi.advanceTimersByTimeAsync(6_000)
    await stopped
    expect(reports).toHaveLength(2)
    expect((await memory.exchange(server('mx.b.org'), 'probe'))?.why).toBeUndefined()
    await Promise.all(answers)
  })
})
