import { describe, expect, it } from 'vitest'
import {
  createReplyReader, SmtpFault, type SmtpChannel,
} from '../../../../../services/verify/providers/smtp/channel.ts'
import { askServer } from '../../../../../services/verify/providers/smtp/dialog.ts'

const caller = { helo: 'probe.verify.org', sender: 'probe@verify.org' }

/** A channel with these replies, in order; after the last one the connection is dropped. */
function channelOf (...replies: readonly string[]) {
  const sent: string[] = []
  const left = [...replies]
  const channel: SmtpChannel = {
    send: async (command) => {
      if (command !== undefined) sent.push(command)
      const text = left.shift()
      if (text === undefined) throw new SmtpFault('dropped')
      return createReplyReader().push(Buffer.from(`${text}\r\n`))[0]!
    },
    startTls: async (name) => { sent.push(`(TLS ${name})`) },
    close: async () => {},
  }
  return { channel, sent }
}

const ask = (channel: SmtpChannel, recipients: readonly string[], tlsName?: string) =>
  askServer(channel, caller, { recipients, tlsName, host: 'mx.x.org' })

describe('an SMTP session', () => {
  it('sends the address first, then the made-up one', async () => {
    const { channel, sent } = channelOf('220 hi', '250 hi', '250 ok', '250 ok', '550 5.1.1 no')
    expect(await ask(channel, ['jane@x.org', 'nobody@x.org']))
      .toMatchObject({ step: 'recipient', meaning: 'accepted', second: 'no_mailbox' })
    expect(sent).toEqual([
      'EHLO probe.verify.org', 'MAIL FROM:<probe@verify.org>', 'RCPT TO:<jane@x.org>',
      'RCPT TO:<nobody@x.org>',
    ])
  })

  it('sends EHLO again after STARTTLS and uses only the extensions of that reply', async () => {
    const { channel, sent } = channelOf('220 hi', '250-hi\r\n250-STARTTLS\r\n250 SMTPUTF8',
      '220 go', '250 hi', '250 ok')
    expect(await ask(channel, ['j\u00fcrgen@x.org'], 'mx.x.org'))
      .toMatchObject({ step: 'sender', meaning: 'unclear' })
    expect(sent).toEqual([
      'EHLO probe.verify.org', 'STARTTLS', '(TLS mx.x.org)', 'EHLO probe.verify.org',
    ])
  })

  it('declares SMTPUTF8 for an address that is not ASCII', async () => {
    const { channel, sent } =
      channelOf('220 hi', '250-hi\r\n250 smtputf8', '250 ok', '250 ok')
    await ask(channel, ['j\u00fcrgen@x.org'])
    expect(sent.slice(1)).toEqual([
      'MAIL FROM:<probe@verify.org> SMTPUTF8', 'RCPT TO:<j\u00fcrgen@x.org>',
    ])
  })

  it('sends no second recipient after a refusal of the first one', async () => {
    const { channel, sent } = channelOf('220 hi', '250 hi', '250 ok', '550 5.1.1 no')
    expect(await ask(channel, ['jane@x.org', 'nobody@x.org']))
      .toMatchObject({ step: 'recipient', meaning: 'no_mailbox' })
    expect(sent).toHaveLength(3)
  })

  it('asks for the made-up name too if the first one is greylisted, so that both wait once',
    async () => {
      const { channel, sent } = channelOf('220 hi', '250 hi', '250 ok', '451 later', '451 later')
      expect(await ask(channel, ['jane@x.org', 'nobody@x.org']))
        .toMatchObject({ meaning: 'greylisted', second: 'greylisted' })
      expect(sent).toHaveLength(4)
    })

  it('asks nothing more after a 421, which ends the session', async () => {
    const { channel, sent } = channelOf('220 hi', '250 hi', '250 ok', '421 closing')
    expect(await ask(channel, ['jane@x.org', 'nobody@x.org'])).toMatchObject({
      meaning: 'greylisted',
    })
    expect(sent).toHaveLength(3)
  })

  it('keeps the first answer if the connection drops at the second recipient', async () => {
    const { channel } = channelOf('220 hi', '250 hi', '250 ok', '250 ok')
    expect(await ask(channel, ['jane@x.org', 'nobody@x.org']))
      .toMatchObject({ step: 'recipient', meaning: 'accepted', second: undefined })
  })

  it.each([
    [['554 no'], { step: 'greeting', meaning: 'blocked' }],
    [['220 hi', '502 no', '502 no'], { step: 'hello', meaning: 'blocked' }],
    [['220 hi', '421 later'], { step: 'hello', meaning: 'greylisted' }],
    [['220 hi', '250 hi', '550 no'], { step: 'sender', meaning: 'blocked' }],
  ])('ends at the step that the server rejects: %s', async (replies, expected) => {
    expect(await ask(channelOf(...replies).channel, ['jane@x.org'])).toMatchObject(expected)
  })

  it('calls onReady when the server accepts recipients', async () => {
    let ready = 0
    const onReady = () => { ready++ }
    const question = {
      recipients: ['jane@x.org'], tlsName: undefined, host: 'mx.x.org', onReady,
    }
    await askServer(channelOf('220 hi', '250 hi', '450 no').channel, caller, question)
    expect(ready).toBe(0)
    await askServer(channelOf('220 hi', '250 hi', '250 ok', '250 ok').channel, caller, question)
    expect(ready).toBe(1)
  })
})
