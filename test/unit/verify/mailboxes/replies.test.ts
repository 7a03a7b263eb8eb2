import { describe, expect, it } from 'vitest'
import { readReply, ReplyReader } from '../../../../services/verify/mailboxes/replies.ts'

const receive = (text: string, encoding: 'utf8' | 'latin1' = 'utf8') =>
  new ReplyReader().push(Buffer.from(`${text}\r\n`, encoding))[0]!
const read = (text: string, host?: string) => {
  const { meaning, by } = readReply(receive(text), { step: 'recipient', host })
  return `${meaning} ${by}`
}

/** Postfix says this of a recipient that it verified at another server. */
const UNDELIVERABLE = '550 5.1.1 <user@example.org>: Recipient address rejected: undeliverable ' +
  'address:'

/**
 * What the suites of `test/accuracy` and the servers of `test/properties/mailboxes.test.ts` do not
 * show: a reply to a recipient, its meaning and evidence, and the host that sends it.
 */
const TO_A_RECIPIENT: readonly (readonly [string, string, string?])[] = [
  ['250 2.1.5 Ok', 'accepted code'],
  ['252 cannot verify, will try', 'accepted code'],
  ['251 User not local; will forward', 'accepted code'],
  ['354 go on', 'unclear code'],
  ['221 2.0.0 Bye', 'unclear code'],
  ['220 ready', 'unclear code'],
  ['235 2.7.0 welcome', 'unclear code'],
  // The code and the words agree, or only one of them speaks.
  ['550 5.1.6 gone', 'no_mailbox code'],
  ['501 5.1.3 Bad destination mailbox address syntax', 'no_mailbox code'],
  ['550 5.2.1 Mailbox disabled, not accepting messages', 'no_mailbox code'],
  ['550 5.4.1 Recipient address rejected: Access denied. [AM6EUR05.prod.mail.example]',
    'no_mailbox code'],
  ['551 User not local', 'no_mailbox words'],
  ['553 Requested action not taken: mailbox name not allowed here', 'no_mailbox words'],
  ['550 5.5.0 Requested action not taken: mailbox unavailable', 'no_mailbox words'],
  ['550 5.1.1 blocked by policy, no such user', 'no_mailbox code'],
  ['550 5.1.2 unknown', 'no_mail code'],
  ['556 Domain does not accept mail', 'no_mail code'],
  ['550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found by lookup', 'no_mailbox code'],
  ['521 5.3.2 system not accepting network messages', 'no_mail code'],
  ['552 5.2.2 no', 'full code'],
  ['452 4.2.2 Mailbox full', 'full code'],
  ['552 sorry, mailbox is over quota temporarily (#5.1.1)', 'full words'],
  ['552 5.2.2 message size exceeds the limit', 'blocked words'],
  ['550 Requested mail action aborted: exceeded storage allocation', 'unclear words'],
  ['550 not sufficient disk space', 'full words'],
  // QQ and Foxmail name two causes, of which one is us.
  ['550 Mailbox unavailable or access denied [MXj0Xq.1718]. https://service.mail.qq.com/detail/122',
    'blocked words'],
  // Words outrank a code that contradicts them.
  ['550 5.7.1 No such user!', 'no_mailbox words'],
  ['550 5.1.1 Sender address rejected: user unknown', 'blocked words'],
  ['550 5.1.1 <user@example.org> IB607 too many bad recipients', 'blocked words'],
  ['550 5.2.1 The user is receiving mail at a rate that prevents more', 'unclear words'],
  ['550 5.4.5 Daily user sending limit exceeded', 'blocked words'],
  // The classes of the codes contradict each other: the words alone say something.
  ['550 4.1.1 odd', 'unclear words'],
  ['550 4.2.1 Mailbox unavailable', 'no_mailbox words'],
  // RFC 7504.
  ['521 this host does not accept mail from your network', 'blocked words'],
  // The subject decides: what is missing must be the mailbox.
  ['550 the account was vacated', 'no_mailbox words'],
  ['550 the account has an owner who vacated', 'unclear words'],
  ['550 mailbox backend not found', 'unclear words'],
  ['550 user closed the connection', 'unclear words'],
  ['550 recipient list is closed to others', 'unclear words'],
  ['552 account has used all its storage', 'full words'],
  ['552 message size exceeds what the account may use of its storage', 'unclear words'],
  ['550 the domain of the recipient was vacated', 'no_mail words'],
  ['550 the domain was vacated', 'unclear words'],
  // In other languages, also those without spaces between words.
  ['550 Lähettäjää ei löydy', 'blocked words'],
  ['550 发件人不存在', 'blocked words'],
  ['550 사용자 계정이 시스템에 없습니다', 'no_mailbox words'],
  // A server that asked another one: the reply of that one counts, not the code around it.
  [`${UNDELIVERABLE} host mx.b.org[192.0.2.1] said: 552 5.2.2 <user@example.org> Quota exceeded ` +
    '(mailbox for user is full) (in reply to RCPT TO command)', 'full words'],
  [`${UNDELIVERABLE} host mx.b.org[192.0.2.1] said: 550 relay not permitted (in reply to RCPT TO ` +
    'command)', 'blocked words'],
  [`${UNDELIVERABLE} host mx.b.org[private/lmtp] said: 550 5.1.1 <user@example.org> User doesn't ` +
    'exist: user@example.org (in reply to RCPT TO command)', 'no_mailbox code'],
  [`${UNDELIVERABLE} mail for b.org loops back to myself`, 'unclear words'],
  ['550 permanent failure for one or more recipients (user@example.org:blocked)', 'blocked words'],
  ['550 Domain frequency limited. http://service.mail.qq.com/', 'blocked words'],
  // Hosts.
  ['550 5.5.0 Requested action not taken: mailbox unavailable (S2017062302)', 'no_mailbox code',
    'outlook-com.olc.protection.outlook.com'],
  ['550 5.7.1 Policy rejection on the target address', 'no_mailbox code', 'mx.yandex.ru'],
  // About us.
  ['550 5.1.7 odd', 'blocked words'],
  ['550 5.1.8 Sender address has a bad domain', 'blocked words'],
  ['550 5.1.0 Address rejected by policy', 'blocked words'],
  ['550 Relaying denied', 'blocked words'],
  ['550 Service unavailable; client host blocked using zen.spamhaus.org', 'blocked words'],
  ['530 5.7.0 Must issue a STARTTLS command first', 'blocked words'],
  ['550 5.7.9 odd', 'blocked words'],
  ['550 user does not accept mail from you', 'blocked words'],
  ['550 5.3.0 administrative matters', 'blocked words'],
  ['550-Requested action not taken: mailbox unavailable\r\n550 invalid DNS MX or A/AAAA resource ' +
    'record', 'blocked words'],
  // Nothing is understood.
  ['550 no', 'unclear words'],
  ['555 Parameters not recognized', 'unclear words'],
  ['550 5.4.4 Unable to route', 'unclear words'],
  ['550 Mailbox unavailable due to high load', 'unclear words'],
  ['550 5.2.1 The mailbox is being migrated', 'unclear words'],
  // Not now.
  ['452 Requested action not taken', 'limited words'],
  ['550 5.5.3 too many recipients', 'limited words'],
  ['450 4.1.1 user unknown', 'greylisted words'],
  ['450 Requested mail action not taken: mailbox unavailable', 'greylisted words'],
  ['450 4.7.1 Client host listed at bl.spamcop.net', 'blocked words'],
  ['451 4.7.1 your ip is on a blacklist', 'blocked words'],
]

describe('the reading of a reply to a recipient', () => {
  it.each(TO_A_RECIPIENT.map(([text, expected, host = '']) => ({ text, expected, host })))(
    '$text is $expected', ({ text, expected, host }) => {
      expect(read(text, host)).toBe(expected)
    })

  it.each([
    '550 5.1.1 x', '550 #5.1.1 x', '550 5-1-1 x', '550-5.1.1 x\r\n550 5.1.1 y', '550 550 5.1.1 x',
    '550 x (#5.1.1)', '550 x [5.1.1]', '550 <user@example.org>: 5.1.1 x', '550 (5.1.1) x',
    '550-x\r\n550 #5.1.1', '550 #5-1-1 x', '550 x: 5.1.1: y',
  ])('finds the enhanced code in %j', (text) => {
    expect(read(text)).toBe('no_mailbox code')
  })

  it.each([
    '550 see 5.1.1.2', '550 x 10.5.1.1', '550 version v5.1.1', '550 5.1.1111', '550 mx-5.1.1-x',
  ])('finds no enhanced code of a mailbox in %j', (text) => {
    expect(read(text)).not.toBe('no_mailbox code')
  })

  it.each([
    ['550 <us@verify.org>: user unknown', 'blocked words'],
    ['550 5.1.1 <US@verify.org>: user unknown', 'blocked words'],
    ['550 <user@example.org>: user unknown, from <us@verify.org>', 'no_mailbox words'],
    ['550 user unknown', 'no_mailbox words'],
    ['550 <>: user unknown', 'no_mailbox words'],
    ['550 the domain example.org was closed', 'no_mail words'],
    ['550 the domain verify.org was closed', 'blocked words'],
    ['550 5.1.1 Domain verify.org does not exist', 'blocked words'],
    ['550 the domain other.org was closed', 'unclear words'],
  ])('knows whose address or domain it reads: %s is %s', (text, expected) => {
    const { meaning, by } = readReply(receive(text), {
      step: 'recipient', sender: 'us@verify.org', recipient: 'user@example.org',
    })
    expect(`${meaning} ${by}`).toBe(expected)
  })

  it.each([
    ['550 <>: user unknown', 'blocked words'],
    ['550 5.5.0 mailbox <> unavailable', 'blocked words'],
    ['550 <user@example.org>: user unknown, from <>', 'no_mailbox words'],
  ])('knows the null sender as ours: %s is %s', (text, expected) => {
    const { meaning, by } = readReply(receive(text), {
      step: 'recipient', sender: '', recipient: 'user@example.org',
    })
    expect(`${meaning} ${by}`).toBe(expected)
  })

  it('ignores local parts and paths of URLs', () => {
    expect(read('550 <spam@mail.org>: no such user')).toBe('no_mailbox words')
    expect(read('550 no.such.user@mail.org refused')).toBe('blocked words')
    expect(read('550 <"no such user x"@mail.org> refused')).toBe('blocked words')
    expect(read('550 see https://mail.org/no-such-user')).toBe('unclear words')
    expect(read('550 see https://www.spamhaus.org/x, no such user')).toBe('blocked words')
  })

  it('decodes UTF-8, and Latin-1 where a reply is none', () => {
    const reading = (encoding: 'utf8' | 'latin1') =>
      readReply(receive('550 Empfänger unbekannt', encoding), { step: 'recipient' }).meaning
    expect([reading('utf8'), reading('latin1')]).toEqual(['no_mailbox', 'no_mailbox'])
    // The end of what is read may be half of a character.
    expect(read(`550 no such user ${'ä'.repeat(991)}`)).toBe('no_mailbox words')
  })

  it('reads the beginning of a long reply only', () => {
    expect(read(`550 ${'x '.repeat(1_000)}no such user`)).toBe('unclear words')
    const lines = Array.from({ length: 50 }, () => `550-${'user@'.repeat(400)}`)
    expect(read([...lines, '550 user'].join('\r\n'))).toBe('unclear words')
  })
})

it.each([
  ['greeting', '220 ready', 'accepted'],
  ['greeting', '250 ready', 'unclear'],
  ['greeting', '554 no', 'blocked'],
  ['greeting', '421 too busy', 'greylisted'],
  ['greeting', '421 4.7.0 blocked using zen.spamhaus.org', 'blocked'],
  ['hello', '550 5.1.1 what', 'blocked'],
  ['sender', '550 5.1.1 unknown sender', 'blocked'],
  ['sender', '450 later', 'greylisted'],
  ['sender', '452 4.2.2 mailbox full', 'greylisted'],
] as const)('the reading of a reply to an earlier step %s: %s is %s', (step, text, meaning) => {
  expect(readReply(receive(text), { step }).meaning).toBe(meaning)
})

describe('the reader of replies', () => {
  const readAll = (...pieces: readonly string[]) => {
    const reader = new ReplyReader()
    return pieces.flatMap((piece) => reader.push(Buffer.from(piece)))
  }

  it('splits replies independently of the size of received chunks', () => {
    const text = '220 ready\r\n250-one\r\n250 two\r\n550 5.1.1 No such user\r\n250\n354 \n'
    const whole = readAll(text)
    expect(whole).toEqual([
      { code: 220, enhanced: undefined, lines: ['ready'] },
      { code: 250, enhanced: undefined, lines: ['one', 'two'] },
      { code: 550, enhanced: '5.1.1', lines: ['5.1.1 No such user'] },
      { code: 250, enhanced: undefined, lines: [''] },
      { code: 354, enhanced: undefined, lines: [''] },
    ])
    expect(readAll(...text)).toEqual(whole)
  })

  it.each([
    ['text without a code', 'hello\r\n'],
    ['a code of another protocol', '150 ok\r\n'],
    ['two codes in one reply', '250-a\r\n550 b\r\n'],
    ['a line without end', '2'.repeat(2_049)],
    ['a line that is too long', `250 ${'x'.repeat(2_100)}\r\n`],
    ['lines without end', '250-x\r\n'.repeat(101)],
    ['an empty line', '\r\n'],
  ])('rejects %s', (_, text) => {
    expect(() => readAll(text)).toThrow(RangeError)
  })
})
