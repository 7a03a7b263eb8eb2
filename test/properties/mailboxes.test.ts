import { describe, expect, it } from 'vitest'
import type { ProviderAnswer } from '../../services/verify/provider.ts'
import { startDnsServer, type Zone } from '../support/mail/dns-server.ts'
import { eventually } from '../support/eventually.ts'
import { startMailServers, type MailServer } from '../support/mail/mail-servers.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { request, smtpProviderOf } from '../support/mail/smtp-probe.ts'

/**
 * One reply of each meaning, by the local part, of a real server with ordinary mailboxes: what
 * others mean is in `test/unit/verify/mailboxes/replies.test.ts` and `test/accuracy`.
 */
const REFUSALS: Readonly<Record<string, string>> = {
  nobody: '550 5.1.1 No such user here',
  plain: '550 Requested action not taken: mailbox unavailable',
  full: '552 5.2.2 Mailbox full',
  'full-words': '552 Requested mail action aborted: exceeded storage allocation',
  grey: '451 4.7.1 Greylisting in action, please come back later',
  busy: '421 4.3.2 Service shutting down',
  room: '452 4.3.1 Insufficient system storage',
  blocked: '550 5.7.1 Message rejected due to local policy',
  nullmx: '550 5.1.10 Recipient address has null MX',
  'nomail-words': '550 the domain of the recipient was vacated',
  odd550: '550 Something odd',
}

/** Real people of the servers that refuse all names they don't have. */
const MAILBOXES: ReadonlySet<string> = new Set([
  'jane', 'jane+news', 'o\'brien', 'info', 'x', 'JANE', '!#$%&*/=?^_`{|}~-', 'jane.doe', 'sales',
  'a'.repeat(64), 'j\u00fcrgen',
])

function ordinary (address: string): string | undefined {
  const local = address.slice(0, address.lastIndexOf('@'))
  return MAILBOXES.has(local) ? undefined : REFUSALS[local] ?? '550 5.1.1 Unknown user'
}

const anyone = () => undefined
const offersTls = { EHLO: '250-odd\r\n250 STARTTLS', STARTTLS: '220 go ahead' }
const refuses = (reply: string): MailServer => ({ script: { RCPT: reply } })
const jane = (line: string) => line.startsWith('RCPT TO:<jane@') ? '250 ok' : '550 5.1.1 unknown'

const SERVERS: Readonly<Record<string, MailServer>> = {
  'mx.mail.org': { recipients: ordinary },
  'mx.plain.org': { recipients: ordinary, options: { hideSTARTTLS: true, hideSMTPUTF8: true } },
  'mx.anyone.org': { recipients: anyone },
  'mx.one.org': {
    recipients: (address) => address.startsWith('jane@') ? undefined : '452 4.5.3 Too many',
  },
  'mx.closed.org': 'closed',
  'mx.closed-too.org': 'closed',
  ...Object.fromEntries(['a', 'b', 'c'].map((name) => [`${name}.closed.org`, 'closed'] as const)),
  'mx.any-yahoo.org': {
    recipients: (address) => address.startsWith('gone@')
      ? '554 delivery error: dd This user doesn\'t have an account'
      : undefined,
  },
  'mx.grey-made-up.org': { script: { RCPT: (line) => jane(line).replace(/^550.*/, '451 later') } },
  'mx.silent.org': { script: { GREETING: 'silent' } },
  'mx.slow-rcpt.org': { script: { RCPT: 'silent' } },
  'mx.drops.org': { script: { GREETING: 'drop' } },
  'mx.drops-rcpt.org': { script: { RCPT: 'drop' } },
  'mx.drops-nobody.org': { script: { RCPT: (line) => jane(line).replace(/^550.*/, 'drop') } },
  'mx.blocks.org': { script: { GREETING: '554 No SMTP service here' } },
  'mx.listed.org': { script: { GREETING: '421 4.7.0 Your IP is on a block list' } },
  'mx.busy.org': { script: { GREETING: '421 Too many connections' } },
  'mx.retired.org': { script: { GREETING: '521 Server does not accept mail' } },
  'mx.sender.org': { script: { MAIL: '550 5.7.1 Sender rejected' } },
  'mx.sender-later.org': { script: { MAIL: '451 4.7.1 Try again later' } },
  'mx.old.org': { script: { EHLO: '502 not implemented', RCPT: jane } },
  'mx.unfriendly.org': { script: { EHLO: '550 denied', HELO: '550 denied' } },
  'mx.tls-broken.org': { script: { ...offersTls, RCPT: jane } },
  'mx.tls-gone.org': { script: { ...offersTls, STARTTLS: '454 not now', RCPT: jane } },
  'mx.garbage.org': { script: { GREETING: '\u0000\u0001\u0002 what?' } },
  'mx.http.org': { script: { GREETING: 'HTTP/1.1 400 Bad Request' } },
  'mx.long-line.org': { script: { GREETING: `220 ${'x'.repeat(5_000)}` } },
  'mx.many-lines.org': { script: { EHLO: '250-x\r\n'.repeat(500) + '250 x' } },
  'mx.two-codes.org': { script: { RCPT: '250-fine\r\n550 or not' } },
  'mx.chatty.org': { script: { MAIL: '250 ok\r\n250 ok' } },
  'mx.quoted.org': {
    script: { RCPT: (line) => /^RCPT TO:<"a[@ ]b"@/.test(line) ? '250 ok' : '550 5.1.1 unknown' },
  },
  'mx.three.org': refuses('354 go ahead'),
  'mx.forwards.org': { script: { RCPT: (line) => jane(line).replace('250 ok', '251 forwards') } },
  'mx.lines.org': {
    script: { RCPT: (line) => jane(line).replace(/^550 /, '550-5.1.1 no\r\n550 ') },
  },
}

const mx = (...hosts: string[]): Zone =>
  ({ mx: hosts.map((name, index) => [(index + 1) * 10, name] as const) })
/** Most domains are named like the one host they have. */
const own = Object.fromEntries(Object.keys(SERVERS).map((host) => [host.slice(3), mx(host)]))

/** Six exchanges, each with four addresses at which no server listens. */
const DEAD: Readonly<Record<string, Zone>> = Object.fromEntries(
  [1, 2, 3, 4, 5, 6].map((host) => [`mx${host}.dead.org`, {
    a: [1, 2, 3, 4].map((address) => `93.184.210.${10 * host + address}`),
  }]))

/** Mail domains; the addresses of the hosts come with the servers. */
const MAIL_ZONES: Readonly<Record<string, Zone>> = {
  ...own,
  ...DEAD,
  'dead.org': mx(...Object.keys(DEAD)),
  'second.org': mx('mx.closed.org', 'mx.mail.org'),
  'second-busy.org': mx('mx.busy.org', 'mx.mail.org'),
  'second-never.org': mx('mx.blocks.org', 'mx.anyone.org'),
  'third.org': mx('mx.closed.org', 'mx.closed-too.org', 'mx.mail.org'),
  'gmail.com': mx('gmail-smtp-in.l.google.com'),
  'under_score.org': mx('mx.lines.org'),
  'outlook.de': mx('outlook-com.olc.protection.outlook.com'),
  'gmali.com': mx('mx.mail.org'),
  'gmil.com': mx('mx.anyone.org'),
  'mail.ru': mx('mx.anyone.org'),
  'yahoo.com': mx('mx.any-yahoo.org'),
  'web.de': mx('mx.anyone.org'),
  'sixth.org': mx('mx.closed.org', 'mx.closed-too.org', 'a.closed.org', 'b.closed.org',
    'c.closed.org', 'mx.mail.org'),
  'mailinator.com': mx('mx.anyone.org'),
  'xn--bcher-kva.org': mx('mx.mail.org'),
  'null.org': { mx: [[0, '']] },
  'servfail.org': { fault: 'SERVFAIL' },
  'unanswered.org': { fault: 'silent' },
  'private.org': { a: ['10.0.0.1'] },
}

/**
 * An address and `status reason confidence`, `later` when it is to be retried; then the columns
 * that say true by their name, those that say false with a minus (`catch_all` and `mx_found` are
 * blank otherwise, `disposable`, `role` and `free` false), and a suggestion.
 */
type Situation = readonly [address: string, expected: string, columns?: string]

const deliverable = 'valid deliverable 95'
const exact = '-catch_all mx_found'

const MAILBOXES_TABLE: readonly Situation[] = [
  // The replies of a server that has mailboxes.
  ['jane@mail.org', deliverable, exact],
  ['jane@under_score.org', deliverable, exact],
  ['jane@[93.184.200.1]', deliverable, '-catch_all -mx_found'],
  ['mallory@[93.184.200.1]', 'invalid mailbox_not_found 95', '-mx_found'],
  ['JANE@mail.org', deliverable, exact],
  ['jane+news@mail.org', deliverable, exact],
  ['jane.doe@mail.org', deliverable, exact],
  ['o\'brien@mail.org', deliverable, exact],
  ['!#$%&*/=?^_`{|}~-@mail.org', deliverable, exact],
  [`${'a'.repeat(64)}@mail.org`, deliverable, exact],
  ['jane@xn--bcher-kva.org', deliverable, exact],
  ['j\u00fcrgen@mail.org', deliverable, exact],
  ['j\u00fcrgen@plain.org', 'unknown unclear_answer 0', 'mx_found'],
  ['"a@b"@quoted.org', deliverable, exact],
  ['"a b"@quoted.org', deliverable, exact],
  ['"<a>"@quoted.org', 'invalid mailbox_not_found 95', 'mx_found'],
  ['"a@b"@anyone.org', 'unknown unclear_answer 0', 'mx_found'],
  ['jane@plain.org', deliverable, exact],
  ['jane@mx.mail.org', deliverable, '-catch_all -mx_found'],
  ['nobody@mail.org', 'invalid mailbox_not_found 95', 'role mx_found'],
  // By the words of the reply alone.
  ['plain@mail.org', 'invalid mailbox_not_found 60', 'mx_found'],
  ['odd550@mail.org', 'unknown unclear_answer 0', 'mx_found'],
  ['nullmx@mail.org', 'invalid no_mail_service 95', 'mx_found'],
  ['nomail-words@mail.org', 'invalid no_mail_service 60', 'mx_found'],
  ['full@mail.org', 'risky mailbox_full 80', 'mx_found'],
  ['full-words@mail.org', 'risky mailbox_full 60', 'mx_found'],
  ['grey@mail.org', 'unknown greylisted 0 later', 'mx_found'],
  ['busy@mail.org', 'unknown greylisted 0 later', 'mx_found'],
  ['room@mail.org', 'unknown greylisted 0 later', 'mx_found'],
  ['blocked@mail.org', 'unknown blocked 0 later', 'mx_found'],
  // Lists.
  ['sales@mail.org', 'risky role_address 79', 'role -catch_all mx_found'],
  ['info+x@mail.org', 'invalid mailbox_not_found 95', 'role mx_found'],
  ['sales@closed.org', 'risky role_address 70 later', 'role mx_found'],
  ['jane@gmail.com', 'valid deliverable 90', 'free mx_found'],
  ['nobody@gmail.com', 'invalid mailbox_not_found 95', 'role free mx_found'],
  ['jane@outlook.de', 'valid deliverable 90', 'free mx_found'],
  // Hosts that accept every name. A refusal is still an answer.
  ['jane@mail.ru', 'unknown not_answered_truthfully 0', 'free catch_all mx_found'],
  ['jane@yahoo.com', 'unknown not_answered_truthfully 0', 'free catch_all mx_found'],
  ['gone@yahoo.com', 'invalid mailbox_not_found 60', 'free mx_found'],
  ['jane@web.de', 'unknown not_answered_truthfully 0', 'free catch_all mx_found'],
  ['jane@mailinator.com', 'risky disposable_domain 90', 'disposable mx_found'],
  // A server that refuses made-up names alone shows that the domain is meant.
  ['jane@gmali.com', deliverable, exact],
  ['jane@gmil.com', 'risky possible_typo 60', 'catch_all mx_found suggestion=gmail.com'],
  ['nobody@gmali.com', 'invalid mailbox_not_found 95', 'role mx_found suggestion=gmail.com'],
  ['jane@hotmial.com', 'invalid domain_not_found 95',
    'disposable -mx_found suggestion=hotmail.com'],
  ['jane@mail.test', 'invalid reserved_domain 100'],
  // Domains.
  ['jane@gone.org', 'invalid domain_not_found 95', '-mx_found'],
  ['jane@null.org', 'invalid no_mail_service 95', '-mx_found'],
  ['jane@private.org', 'invalid no_mail_service 95', '-mx_found'],
  ['jane@servfail.org', 'unknown dns_error 0 later'],
  ['jane@unanswered.org', 'unknown dns_error 0 later'],
  // Servers that take any name, and others that are hard to ask.
  ['jane@anyone.org', 'risky catch_all 70', 'catch_all mx_found'],
  ['sales@anyone.org', 'risky role_address 79', 'role catch_all mx_found'],
  ['jane@one.org', 'valid deliverable 70 later', 'mx_found'],
  ['jane@drops-nobody.org', 'valid deliverable 70', 'mx_found'],
  ['jane@old.org', deliverable, exact],
  ['jane@tls-broken.org', deliverable, exact],
  ['jane@tls-gone.org', deliverable, exact],
  ['jane@forwards.org', deliverable, exact],
  ['jane@lines.org', deliverable, exact],
  ['joe@lines.org', 'invalid mailbox_not_found 95', 'mx_found'],
  ['jane@second.org', deliverable, exact],
  ['jane@second-busy.org', deliverable, exact],
  ['jane@second-never.org', 'unknown blocked 0 later', 'mx_found'],
  // All mail exchanges are asked.
  ['jane@third.org', deliverable, exact],
  ['jane@sixth.org', deliverable, exact],
  // The test with a made-up name is repeated, and counts as inconclusive in the end.
  ['jane@grey-made-up.org', 'valid deliverable 70 later', 'mx_found'],
  ['jane@closed.org', 'unknown mail_server_unreachable 0 later', 'mx_found'],
  ['jane@dead.org', 'unknown mail_server_unreachable 0 later', 'mx_found'],
  ['jane@mx.closed.org', 'risky no_mx_record 60 later', '-mx_found'],
  ['jane@silent.org', 'unknown no_answer 0 later', 'mx_found'],
  ['jane@slow-rcpt.org', 'unknown no_answer 0 later', 'mx_found'],
  ['jane@drops.org', 'unknown mail_server_unreachable 0 later', 'mx_found'],
  ['jane@drops-rcpt.org', 'unknown mail_server_unreachable 0 later', 'mx_found'],
  ['jane@blocks.org', 'unknown blocked 0 later', 'mx_found'],
  ['jane@listed.org', 'unknown greylisted 0 later', 'mx_found'],
  ['jane@retired.org', 'unknown blocked 0 later', 'mx_found'],
  ['jane@sender.org', 'unknown blocked 0 later', 'mx_found'],
  ['jane@unfriendly.org', 'unknown blocked 0 later', 'mx_found'],
  ['jane@busy.org', 'unknown greylisted 0 later', 'mx_found'],
  ['jane@sender-later.org', 'unknown greylisted 0 later', 'mx_found'],
  ['jane@garbage.org', 'unknown unclear_answer 0', 'mx_found'],
  ['jane@http.org', 'unknown unclear_answer 0', 'mx_found'],
  ['jane@long-line.org', 'unknown unclear_answer 0', 'mx_found'],
  ['jane@many-lines.org', 'unknown unclear_answer 0', 'mx_found'],
  ['jane@two-codes.org', 'unknown unclear_answer 0', 'mx_found'],
  ['jane@chatty.org', 'unknown unclear_answer 0', 'mx_found'],
  ['jane@three.org', 'unknown unclear_answer 0', 'mx_found'],
]

const mail = closeAfterAll(await startMailServers(SERVERS))
const ownHost = mail.zones['mx.mail.org'] ?? {}
const dns = closeAfterAll(await startDnsServer({
  ...mail.zones,
  ...MAIL_ZONES,
  'gmail-smtp-in.l.google.com': ownHost,
  'outlook-com.olc.protection.outlook.com': ownHost,
}))

function seen ({ verdict, retry }: ProviderAnswer): readonly [string, string] {
  const { status, reason, confidence, fields } = verdict
  const { suggestion, ...flags } = fields
  const blank = ['disposable', 'role', 'free']
  const facts = ['mx_record', 'spf', 'dmarc']
  const columns = Object.entries(flags).filter(([name]) => !facts.includes(name))
    .filter(([name, value]) => value === 'true' || !blank.includes(name))
    .map(([name, value]) => value === 'true' ? name : `-${name}`)
  if (suggestion !== undefined) columns.push(`suggestion=${suggestion}`)
  return [`${status} ${reason} ${confidence}${retry ? ' later' : ''}`, columns.join(' ')]
}

/** Whose servers never reply: a short timeout suffices for them. */
const isSilent = (address: string) => /@(silent|slow-rcpt)\.org$/.test(address)

/** The socket of a resolver loses what more would ask at once, and each question waits a minute. */
const AT_A_TIME = 16

async function verdicts (addresses: readonly string[]) {
  const answers: ReturnType<typeof seen>[] = []
  for (let from = 0; from < addresses.length; from += AT_A_TIME) {
    // Each by a provider of its own: what a server says of us in one session counts in others.
    answers.push(...await Promise.all(addresses.slice(from, from + AT_A_TIME).map(async address => {
      const setting = isSilent(address) ? { replyTimeoutMs: 200 } : {}
      const [answer] = await smtpProviderOf({ dns, mail }, setting).check(...request([address]))
      return seen(answer!)
    })))
  }
  return answers
}

describe('an e-mail address', () => {
  it('has the expected verdict in every situation, with real servers', async () => {
    const answers = await verdicts(MAILBOXES_TABLE.map(([address]) => address))
    expect(MAILBOXES_TABLE.map(([address], row) => [address, ...answers[row]!]))
      .toEqual(MAILBOXES_TABLE.map(([address, expected, columns = '']) =>
        [address, expected, columns]))
  })

  it('gets no mail: servers receive few verbs, the null sender and the service name', async () => {
    const all = [...mail.heard.values()].flat()
    const verbs = new Set(all.map((line) => line.split(/[ :]/)[0]))
    expect([...verbs].toSorted()).toEqual(['EHLO', 'HELO', 'MAIL', 'QUIT', 'RCPT', 'STARTTLS'])
    expect(new Set(mail.heard.get('mx.mail.org')?.filter((it) => it.startsWith('MAIL'))))
      .toEqual(new Set(['MAIL  TLS probe.verify.org']))
    await eventually(() => expect(mail.heard.get('mx.old.org')).toEqual([
      'EHLO probe.verify.org', 'HELO probe.verify.org', 'MAIL FROM:<>', 'RCPT TO:<jane@old.org>',
      expect.stringMatching(/^RCPT TO:<[a-z]{6}\.[a-z]{8}\d{3}@old\.org>$/), 'QUIT',
    ]))
  })
})
