import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { HostMemory } from '../../../../services/verify/mailboxes/memory.ts'
import {
  knowing, NO_MAILBOX, people, PIPELINING, SESSION_MS, startMailHosts,
} from '../../../support/mail/mail-hosts.ts'

const MX = 'mx.firm.org'

/** The reply to a recipient by its place in its session, or accepted. */
type Recipient = (address: string, place: number) => string | undefined

/** Mail hosts that ask one server, which offers PIPELINING and talks in one session at a time. */
async function start (
  recipient: Recipient, memory: Partial<HostMemory> = {}, script: object = {}
) {
  let place = 0
  const { ask, heard, ...more } = await startMailHosts({
    [MX]: {
      EHLO: () => {
        place = 0
        return PIPELINING
      },
      RCPT: line => recipient(/<(.*)>/.exec(line)?.[1] ?? '', ++place) ?? '250 fine',
      ...script,
    },
  }, { connections: 1, memory })
  return {
    ...more,
    ask: (...addresses: string[]) => Promise.all(addresses.map(address => ask(address, MX))),
    heard: (verb: string) => heard(MX, verb),
  }
}

describe('the rows of an exchange', () => {
  it('share a session, a MAIL and a test of their domain', async () => {
    const { ask, heard } = await start(address => /^p\d+@/.test(address) ? undefined : NO_MAILBOX)
    const answers = await ask(...people(20))
    expect(new Set(answers.map(answer => JSON.stringify(answer))).size).toBe(1)
    expect(answers[0]).toEqual({ mailbox: 'accepted', catchAll: false })
    expect([heard('EHLO').length, heard('MAIL').length, heard('RCPT').length]).toEqual([1, 1, 21])
  })

  it('go on in a further MAIL where a server takes no more recipients', async () => {
    let sinceMail = 0
    const { ask, heard } = await start(
      () => ++sinceMail > 4 ? '452 4.5.3 Too many recipients' : NO_MAILBOX, {}, {
        MAIL: () => {
          sinceMail = 0
          return '250 fine'
        },
      })
    const answers = await ask(...people(10))
    expect(answers).toEqual(people(10).map(() => ({ mailbox: 'no_mailbox' })))
    expect(heard('EHLO')).toHaveLength(1)
  })
})

describe('a domain that accepts any name', () => {
  it('is not valid when the session ends in between', async () => {
    const { ask, memory } =
      await start((_, place) => place === 4 ? '421 4.3.2 Closing' : undefined)
    await memory.rememberCatchAll(MX, 'firm.org', true)
    expect((await ask(...people(4))).slice(0, 3))
      .toEqual(people(3).map(() => ({ mailbox: 'accepted', catchAll: true })))
  })

  it('is asked again when it could not be tested, and tested first then', async () => {
    const { ask, heard } = await start((_, place) => place > 1 ? '452 4.5.3 One only' : undefined)
    expect(await ask('jane@firm.org'))
      .toEqual([{ mailbox: 'accepted', catchAll: undefined, retry: { afterMs: 0 } }])
    expect(await ask('jane@firm.org')).toEqual([{ mailbox: 'accepted', catchAll: true }])
    expect(heard('RCPT').at(-1)).toBe('RCPT TO:<jane@firm.org>')
  })
})

describe('a server that refuses', () => {
  it.each(['555 5.5.4 Unsupported parameter', '451 4.3.0 Not now'])(
    'SMTPUTF8 is asked for the addresses that do not need it: %s', async (reply) => {
      const { ask } = await start(() => NO_MAILBOX, {}, {
        EHLO: '250-hello\r\n250-SMTPUTF8\r\n250 PIPELINING',
        MAIL: (line: string) => line.endsWith('SMTPUTF8') ? reply : '250 fine',
      })
      const [beyond, ...others] = await ask('jörg@firm.org', ...people(3))
      expect(['unclear', 'greylisted']).toContain(beyond?.mailbox)
      expect(others).toEqual(people(3).map(() => ({ mailbox: 'no_mailbox' })))
    })

  it('a second MAIL gets another session', async () => {
    let recipients = 0
    let mails = 0
    const { ask } = await start(() => ++recipients > 4 ? '452 4.5.3 Too many' : NO_MAILBOX,
      knowing({ hasAccepted: true }), {
        EHLO: () => {
          recipients = mails = 0
          return PIPELINING
        },
        MAIL: () => ++mails > 1 ? '503 5.5.1 One message a session' : '250 fine',
      })
    expect(await ask(...people(10))).toEqual(people(10).map(() => ({ mailbox: 'no_mailbox' })))
  })
})

it('a server that takes no recipient at all ends each session at once', async () => {
  const { ask, heard } = await start(() => '452 4.5.3 Too many recipients')
  const [answer] = await ask('jane@firm.org')
  expect(answer).toEqual({ mailbox: 'greylisted', retry: true })
  expect(heard('RCPT')).toHaveLength(1)
})

describe('a server that ends a session after its refusals, as Postfix does', () => {
  const TOO_MANY = '421 4.7.0 mx.firm.org Error: too many errors'

  it('is asked for the other rows in further sessions', async () => {
    const { ask, heard } = await start((_, place) =>
      place > 4 ? TOO_MANY : '450 4.2.0 Greylisted, try again in 20 seconds')
    for (const answer of await ask(...people(40))) {
      expect(answer).toEqual({ mailbox: 'greylisted', retry: { afterMs: 20_000 } })
    }
    expect(heard('EHLO')).toHaveLength(10)
  })

  it('is asked for its postmaster in the next session', async () => {
    const LATER = '450 4.2.0 Greylisted, try again in 20 seconds'
    const { ask, heard } = await start((address, place) => address.startsWith('postmaster')
      ? undefined
      : place > 4 ? TOO_MANY : address.startsWith('p') ? NO_MAILBOX : LATER)
    const rows = ['a', 'b', 'c', 'p', 'd'].map(name => `${name}@firm.org`)
    expect((await ask(...rows))[3]).toEqual({ mailbox: 'no_mailbox' })
    expect(heard('EHLO')).toHaveLength(2)
  })

  it('is asked later if it does so at the first recipient', async () => {
    const { ask, heard } = await start(() => TOO_MANY)
    expect(await ask('jane@firm.org')).toEqual([{ mailbox: 'greylisted', retry: true }])
    expect(heard('RCPT')).toHaveLength(1)
  })
})

describe('an owner that says we ask too fast', () => {
  it.each([
    '421 4.7.28 Our system has detected an unusual rate of unsolicited mail from your IP',
    '451 4.7.500 Server busy. Please try again later',
    '450 4.7.1 Error: too much mail from 192.0.2.1',
  ])('at a recipient is asked for no other: %s', async (reply) => {
    const { ask, reports } = await start(() => reply)
    const forTurn = { afterMs: expect.any(Number), isForTurn: true }
    expect(await ask(...people(30)))
      .toEqual(people(30).map(() => ({ mailbox: 'greylisted', retry: forTurn })))
    expect(reports.map(({ ending }) => ending)).toEqual(['limited'])
  })

  it.each([
    ['421 4.7.0 [TSS04] Messages deferred due to unexpected volume', 'limited'],
    ['421 4.7.0 Error: too many connections from 192.0.2.1', 'failed'],
    ['421 4.3.2 Service not available', 'failed'],
  ])('at the greeting rests, or only that server: %s', async (reply, ending) => {
    const { ask, reports } = await start(() => undefined, {}, { GREETING: reply })
    expect(await ask('jane@firm.org')).toMatchObject([{ mailbox: 'greylisted' }])
    expect(reports).toMatchObject([{ ending }])
  })

  it('at the greeting for a time is not asked in it', async () => {
    const { ask, memory, server } = await start(() => undefined, {}, {
      GREETING: '421 4.3.2 Too many connections, try again in 20 minutes',
    })
    await ask('jane@firm.org')
    const { why, restMs = 0 } = await memory.exchange(server(MX), 'probe') ?? {}
    expect([why, restMs > 600_000, restMs <= 1_200_000]).toEqual(['greylisted', true, true])
  })

  it.each([
    '450 4.2.1 The user you are trying to contact is receiving mail at a rate too often',
    '450 4.2.0 Greylisted, you came back too fast',
  ])('of the recipient, or by greylisting, limits no other: %s', async (reply) => {
    const { ask } = await start(address => address.startsWith('p0@') ? reply : NO_MAILBOX)
    expect((await ask(...people(3))).map(({ mailbox }) => mailbox))
      .toEqual(['greylisted', 'no_mailbox', 'no_mailbox'])
  })
})

describe('a made-up name', () => {
  const madeUp = async (domain: string, helo = 'probe.verify.org') => {
    const exchange = `mx.${domain}`
    const { ask, heard } = await startMailHosts({ [exchange]: {} }, { helo })
    await ask(`jane@${domain}`)
    return heard(exchange, 'RCPT')[1]?.replace(domain, '')
  }
  afterEach(() => { vi.useRealTimers() })

  it('differs by domain and by client, and changes once a week', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 0 })
    const names = [await madeUp('a.org'), await madeUp('b.org'), await madeUp('a.org', 'b.org')]
    expect(new Set(names).size).toBe(3)
    const changes: number[][] = []
    for (const domain of ['a.org', 'b.org', 'c.org', 'd.org']) {
      const days: (string | undefined)[] = []
      for (let day = 0; day <= 7; day++) {
        vi.setSystemTime(day * 86_400_000)
        days.push(await madeUp(domain))
      }
      changes.push(days.flatMap((name, day) => day > 0 && name !== days[day - 1] ? [day] : []))
    }
    expect(changes.map(({ length }) => length)).toEqual([1, 1, 1, 1])
    // At another time for each domain.
    expect(new Set(changes.flat()).size).toBeGreaterThan(1)
  })
})

it('a made-up name that is answered by a goodbye says nothing about its domain', async () => {
  const { ask } = await start(address => address.startsWith('jane@') ? '250 ok' : '221 2.0.0 Bye')
  expect((await ask('jane@firm.org'))[0]?.catchAll).toBeUndefined()
  expect((await ask('john@firm.org'))[0]?.mailbox).not.toBe('accepted')
})

describe('the limit of an exchange', () => {
  it('is not learnt from one dropped connection', async () => {
    let count = 0
    const { ask, memory, server } = await start(() => ++count === 5 ? 'drop' : NO_MAILBOX)
    await ask(...people(30))
    expect((await memory.exchange(server(MX), 'probe'))?.limit).toBeUndefined()
  })

  it.each([
    ['where two sessions end at the same recipient', 'drop'],
    ['where none is taken after a further MAIL', '452 4.5.3 Too many recipients'],
  ])('is learnt %s', async (_, reply) => {
    const { ask, memory, server } = await start((_address, place) => place > 5 ? reply : NO_MAILBOX)
    await ask(...people(30))
    expect((await memory.exchange(server(MX), 'probe'))?.limit).toBe(5)
  })
})

it('a session waits for its turn instead of ending', async () => {
  let turns = 0
  const { ask, heard } = await start(() => NO_MAILBOX, {
    begin: async () => ({ session: 'session', recipients: 1 }),
    more: async () => ++turns % 2 === 0
      ? { recipients: 1, waitMs: 0 }
      : { recipients: 0, waitMs: 10 },
  })
  await ask(...people(10))
  expect(heard('EHLO')).toHaveLength(1)
})

it('a row that has no reply when the time of its session is over is asked in another', async () => {
  const over = new AbortController()
  const signals = [over.signal]
  const { timeout } = AbortSignal
  vi.spyOn(AbortSignal, 'timeout').mockImplementation(ms =>
    (ms === SESSION_MS ? signals.shift() : undefined) ?? timeout(ms))
  onTestFinished(() => { vi.restoreAllMocks() })
  // Without PIPELINING, so that the answers to the first two have come.
  const { ask, heard } = await start((_, place) => {
    if (place !== 3) return NO_MAILBOX
    over.abort()
    return 'silent'
  }, {}, { EHLO: () => '250 hello' })
  expect(await ask(...people(3))).toEqual(people(3).map(() => ({ mailbox: 'no_mailbox' })))
  expect(heard('EHLO')).toHaveLength(2)
})

it('an address with a command in it is refused before any session', async () => {
  const { ask, heard } = await start(() => undefined)
  await expect(ask('a>\r\nDATA@firm.org')).rejects.toThrow('control character')
  expect(heard('')).toEqual([])
})
