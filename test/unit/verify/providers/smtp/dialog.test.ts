import { describe, expect, it } from 'vitest'
import type { SmtpChannel } from '../../../../../services/verify/providers/smtp/channel.ts'
import { askServer } from '../../../../../services/verify/providers/smtp/dialog.ts'
import {
  createReplyReader, SmtpFault,
} from '../../../../../services/verify/providers/smtp/reply.ts'

const caller = { helo: 'probe.verify.org', sender: 'probe@verify.org' }

/** A channel that gives these replies in turn; after the last one it is cut off. */
function channelOf (...replies: readonly string[]) {
  const heard: string[] = []
  const left = [...replies]
  const channel: SmtpChannel = {
    ask: async (command) => {
      if (command !== undefined) heard.push(command)
      const text = left.shift()
      if (text === undefined) throw new SmtpFault('dropped')
      return createReplyReader().push(Buffer.from(`${text}\r\n`))[0]!
    },
    secure: async (name) => { heard.push(`(TLS ${name})`) },
    close: async () => {},
  }
  return { channel, heard }
}

const ask = (channel: SmtpChannel, recipients: readonly string[], secureAs?: string) =>
  askServer(channel, caller, { recipients, secureAs })

describe('a conversation with a mail server', () => {
  it('asks for the address first, then for the made-up one', async () => {
    const { channel, heard } = channelOf('220 hi', '250 hi', '250 ok', '250 ok', '550 5.1.1 no')
    expect(await ask(channel, ['jane@x.org', 'nobody@x.org']))
      .toEqual({ step: 'recipient', meaning: 'accepted', second: 'no_mailbox' })
    expect(heard).toEqual([
      'EHLO probe.verify.org', 'MAIL FROM:<probe@verify.org>', 'RCPT TO:<jane@x.org>',
      'RCPT TO:<nobody@x.org>',
    ])
  })

  it('says who we are again after encryption, and trusts only what is offered then', async () => {
    const { channel, heard } = channelOf('220 hi', '250-hi\r\n250-STARTTLS\r\n250 SMTPUTF8',
      '220 go', '250 hi', '250 ok')
    expect(await ask(channel, ['j\u00fcrgen@x.org'], 'mx.x.org'))
      .toEqual({ step: 'sender', meaning: 'unclear' })
    expect(heard).toEqual([
      'EHLO probe.verify.org', 'STARTTLS', '(TLS mx.x.org)', 'EHLO probe.verify.org',
    ])
  })

  it('declares an address that is not ASCII, where that is known', async () => {
    const { channel, heard } =
      channelOf('220 hi', '250-hi\r\n250 smtputf8', '250 ok', '250 ok')
    await ask(channel, ['j\u00fcrgen@x.org'])
    expect(heard.slice(1)).toEqual([
      'MAIL FROM:<probe@verify.org> SMTPUTF8', 'RCPT TO:<j\u00fcrgen@x.org>',
    ])
  })

  it('asks no second recipient when the first one is refused', async () => {
    const { channel, heard } = channelOf('220 hi', '250 hi', '250 ok', '550 5.1.1 no')
    expect(await ask(channel, ['jane@x.org', 'nobody@x.org']))
      .toEqual({ step: 'recipient', meaning: 'no_mailbox' })
    expect(heard).toHaveLength(3)
  })

  it('keeps the first answer when it is cut off at the second', async () => {
    const { channel } = channelOf('220 hi', '250 hi', '250 ok', '250 ok')
    expect(await ask(channel, ['jane@x.org', 'nobody@x.org']))
      .toEqual({ step: 'recipient', meaning: 'accepted', second: undefined })
  })

  it.each([
    [['554 no'], { step: 'greeting', meaning: 'blocked' }],
    [['220 hi', '502 no', '502 no'], { step: 'hello', meaning: 'blocked' }],
    [['220 hi', '421 later'], { step: 'hello', meaning: 'greylisted' }],
    [['220 hi', '250 hi', '550 no'], { step: 'sender', meaning: 'blocked' }],
  ])('ends where the server ends it: %s', async (replies, expected) => {
    expect(await ask(channelOf(...replies).channel, ['jane@x.org'])).toEqual(expected)
  })

  it('tells when the server is ready, and not before', async () => {
    let ready = 0
    const onReady = () => { ready++ }
    const question = { recipients: ['jane@x.org'], secureAs: undefined, onReady }
    await askServer(channelOf('220 hi', '250 hi', '450 no').channel, caller, question)
    expect(ready).toBe(0)
    await askServer(channelOf('220 hi', '250 hi', '250 ok', '250 ok').channel, caller, question)
    expect(ready).toBe(1)
  })
})
