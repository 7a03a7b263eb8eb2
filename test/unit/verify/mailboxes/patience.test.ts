import { Duplex } from 'node:stream'
import type { Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { loadConfig } from '../../../../services/runtime/platform/config.ts'
import { verifyConfig } from '../../../../services/verify/config.ts'
import { SmtpChannel } from '../../../../services/verify/mailboxes/session.ts'
import { request, smtpProviderOf } from '../../../support/mail/smtp-probe.ts'
import { startDnsServer } from '../../../support/mail/dns-server.ts'
import { startMailServers } from '../../../support/mail/mail-servers.ts'
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

it('a row whose domain has no answer of the DNS waits a minute, three times', async () => {
  vi.useRealTimers()
  const mail = await startMailServers({ 'mx.plain.org': { recipients: () => undefined } })
  onTestFinished(mail.stop)
  const dns = await startDnsServer({ ...mail.zones, 'plain.org': { fault: 'SERVFAIL' } })
  onTestFinished(dns.stop)
  const provider = smtpProviderOf({ dns, mail })
  const answerTo = async (tries: number) => {
    const [[row], options] = request(['jane@plain.org'])
    const [answer] = await provider.check([{ row: 0, canonical: '', ...row, tries }], options)
    return answer
  }
  for (const tries of [0, 1, 2]) {
    expect(await answerTo(tries))
      .toMatchObject({ verdict: { reason: 'dns_error' }, retry: { afterMs: 60_000 } })
  }
  expect(await answerTo(3)).not.toHaveProperty('retry')
  dns.zones.set('plain.org', { mx: [[10, 'mx.plain.org']] })
  expect(await answerTo(1)).toMatchObject({ verdict: { status: 'risky', reason: 'catch_all' } })
})
