import { describe, expect, it } from 'vitest'
import { createReplyReader } from '../../../../../services/verify/providers/smtp/channel.ts'
import { meaningOf } from '../../../../../services/verify/providers/smtp/dialog.ts'

const reply = (text: string) => createReplyReader().push(Buffer.from(`${text}\r\n`))[0]!

describe('the meaning of an SMTP reply', () => {
  it.each([
    ['250 2.1.5 Ok', 'accepted'],
    ['252 cannot verify, will try', 'accepted'],
    ['550 5.1.1 blocked by policy, no such user', 'no_mailbox'],
    ['550 5.7.1 no such user', 'blocked'],
    ['554 5.7.606 Access denied, banned sending IP', 'blocked'],
    ['550 5.1.7 Invalid sender', 'blocked'],
    ['452 4.5.3 too many recipients', 'limited'],
    ['452 Requested action not taken', 'limited'],
    ['550 5.5.3 too many recipients', 'limited'],
    ['552 5.3.4 message too big', 'unclear'],
    ['550 mailbox is over quota', 'full'],
    ['451 temporary failure', 'greylisted'],
    ['451 4.7.1 your ip is on a blacklist', 'blocked'],
    ['550 helo@x.org spam@x.org', 'refused'],
    ['550 5.3.0 administrative matters', 'unclear'],
    ['354 go on', 'unclear'],
  ])('to a recipient: %s is %s', (text, meaning) => {
    expect(meaningOf('recipient', reply(text))).toBe(meaning)
  })

  it.each([
    ['greeting', '220 ready', 'accepted'],
    ['greeting', '250 ready', 'unclear'],
    ['greeting', '554 no', 'blocked'],
    ['greeting', '421 too busy', 'greylisted'],
    ['hello', '550 5.1.1 what', 'blocked'],
    ['sender', '550 5.1.1 unknown sender', 'blocked'],
    ['sender', '450 later', 'greylisted'],
  ] as const)('at the %s: %s is %s', (step, text, meaning) => {
    expect(meaningOf(step, reply(text))).toBe(meaning)
  })
})
