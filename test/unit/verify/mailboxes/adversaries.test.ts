import { describe, expect, it } from 'vitest'
import type { HostMemory } from '../../../../services/verify/mailboxes/memory.ts'
import {
  knowing, NO_MAILBOX, people, PIPELINING, startMailHosts,
} from '../../../support/mail/mail-hosts.ts'

const NO_TURN = { why: 'rate', waitMs: 600_000 } as const
/** Mail hosts with one connection. */
const start = (
  scripts: Parameters<typeof startMailHosts>[0], memory: Partial<HostMemory> = {}
) => startMailHosts(scripts, { connections: 1, memory })

describe('a row that is withdrawn', () => {
  it('after a session gave it back leaves the others their turn', async () => {
    let begun = 0
    const again = Promise.withResolvers<void>()
    const controller = new AbortController()
    const { ask } = await start({ 'mx.firm.org': { RCPT: NO_MAILBOX } }, {
      begin: async () => {
        begun += 1
        if (begun === 1) return { session: 'session', recipients: 0 }
        again.resolve()
        return controller.signal.aborted ? { session: 'session', recipients: 10 } : NO_TURN
      },
      more: async () => begun === 1 ? undefined : { recipients: 10, waitMs: 0 },
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
    const { ask } = await start({
      'mx.busy.org': {}, 'mx.left.org': {}, 'mx.firm.org': { RCPT: NO_MAILBOX },
    }, {
      begin: async ({ policy: { owner } }, wanted) => {
        if (!owner.startsWith('busy.org')) return { session: 'session', recipients: wanted }
        isTaken.resolve()
        await turn.promise
        return NO_TURN
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

describe('a server that refuses', () => {
  it.each(['555 5.5.4 Unsupported parameter', '451 4.3.0 Not now'])(
    'SMTPUTF8 is asked for the addresses that do not need it: %s', async (reply) => {
      const { ask } = await start({
        'mx.firm.org': {
          EHLO: '250-hello\r\n250-SMTPUTF8\r\n250 PIPELINING',
          MAIL: line => line.endsWith('SMTPUTF8') ? reply : '250 fine',
          RCPT: NO_MAILBOX,
        },
      })
      const [beyond, ...others] = await Promise.all(['jörg@firm.org', ...people(3)]
        .map(address => ask(address)))
      expect(['unclear', 'greylisted']).toContain(beyond?.mailbox)
      expect(others).toEqual(people(3).map(() => ({ mailbox: 'no_mailbox' })))
    })

  it('a second MAIL gets another session', async () => {
    let recipients = 0
    let mails = 0
    const { ask } = await start({
      'mx.firm.org': {
        EHLO: () => {
          recipients = 0
          mails = 0
          return PIPELINING
        },
        MAIL: () => ++mails > 1 ? '503 5.5.1 One message a session' : '250 fine',
        RCPT: () => ++recipients > 4 ? '452 4.5.3 Too many recipients' : NO_MAILBOX,
      },
    }, knowing({ hasAccepted: true }))
    expect(await Promise.all(people(10).map(address => ask(address))))
      .toEqual(people(10).map(() => ({ mailbox: 'no_mailbox' })))
  })
})
