import { Duplex } from 'node:stream'
import type { Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { loadConfig } from '../../../../services/runtime/platform/config.ts'
import { verifyConfig } from '../../../../services/verify/config.ts'
import { SmtpChannel } from '../../../../services/verify/mailboxes/session.ts'
import { STAGE_ENVIRONMENT } from '../../../support/stacks/stage-environment.ts'

beforeEach(() => { vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }) })
afterEach(() => { vi.useRealTimers() })

/** A channel with the timeouts of the configuration, and the end of the server. */
function createSession () {
  const config = loadConfig(verifyConfig, { ...STAGE_ENVIRONMENT })
  const socket = new Duplex({ read: () => {}, write: (_bytes, _encoding, done) => done() })
  const channel = new SmtpChannel(socket as unknown as Socket, {
    greetingTimeoutMs: config.SMTP_GREETING_TIMEOUT_MS,
    replyTimeoutMs: config.SMTP_REPLY_TIMEOUT_MS,
    signal: new AbortController().signal,
  })
  return { channel, say: (text: string) => socket.push(`${text}\r\n`) }
}

describe('a session with the configured timeouts', () => {
  it.each([6_000, 30_000, 60_000])('waits %i ms for a greeting and for a reply', async (ms) => {
    const { channel, say } = createSession()
    const greeting = channel.send()
    await vi.advanceTimersByTimeAsync(ms)
    say('220-wait')
    say('220 ready')
    expect((await greeting).code).toBe(220)
    const reply = channel.send('RCPT TO:<jane@x.org>')
    await vi.advanceTimersByTimeAsync(ms)
    say('250 ok')
    expect((await reply).code).toBe(250)
  })

  it('does not wait forever', async () => {
    const { channel } = createSession()
    const greeting = expect(channel.send()).rejects.toMatchObject({ kind: 'timeout' })
    await vi.advanceTimersByTimeAsync(300_000)
    await greeting
  })
})

it('the configured timeouts of steps and sessions contain each other', () => {
  const config = loadConfig(verifyConfig, { ...STAGE_ENVIRONMENT })
  const {
    SMTP_FIRST_TIMEOUT_MS: first, SMTP_LATER_TIMEOUT_MS: later,
    SMTP_GREETING_TIMEOUT_MS: greeting, SMTP_REPLY_TIMEOUT_MS: reply,
    SMTP_SESSION_TIMEOUT_MS: session,
  } = config
  expect([first, later, greeting, reply, session])
    .toEqual([8_000, 20_000, 75_000, 75_000, 600_000])
})
