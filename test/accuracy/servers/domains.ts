import { PEOPLE } from './real.ts'
import type { Zone } from '../../support/mail/dns-server.ts'
import type { Script } from './scripted.ts'

/** `status reason`, and further columns that differ from those of the domain. */
export type Want = string | readonly [string, Readonly<Record<string, string>>]

/** A mail domain with addresses whose truth is known. */
export type TruthDomain = {
  /** The server as the table names it. */
  readonly part: string
  readonly domain: string
  /** Names of its mail exchanges; the last number of a real server, or how it answers. */
  readonly exchanges: Readonly<Record<string, number | Script | 'closed'>>
  /** Records of the domain, if they are not those exchanges; `null`: it does not exist. */
  readonly zone?: Zone | null
  /** Local parts with what their rows must get. */
  readonly want: Readonly<Record<string, Want>>
  /** Columns that all of these rows must have. */
  readonly columns?: Readonly<Record<string, string>>
  /** Further statuses that are true, by local part; `peers.ts` says when. */
  readonly alsoTrue?: Readonly<Record<string, string>>
}

const VALID = 'valid deliverable'
const NOT_FOUND = 'invalid mailbox_not_found'
const FULL = 'risky mailbox_full'
const ROLE = 'risky role_address'
const CATCH_ALL = 'risky catch_all'
const BLOCKED = 'unknown blocked'
const GREYLISTED = 'unknown greylisted'
const UNCLEAR = 'unknown unclear_answer'
const UNTRUTHFUL = 'unknown not_answered_truthfully'
const UNREACHABLE = 'unknown mail_server_unreachable'

const STRANGERS = ['nobody.here', 'j.doe1987', 'adalovelace', 'grace', 'x7']
/** All people of a server, and names that it does not have. */
const HONEST: TruthDomain['want'] = {
  'ada.lovelace': VALID,
  'grace.hopper': VALID,
  'alan.turing': VALID,
  info: [ROLE, { role: 'true' }],
  ...Object.fromEntries(STRANGERS.map(name => [name, NOT_FOUND])),
}
const REFUSED = { catch_all: 'false' }

/** Everybody of a server gets the same. */
const all = (want: Want, { info = ROLE }: { info?: Want } = {}): TruthDomain['want'] => ({
  'ada.lovelace': want,
  'alan.turing': want,
  'nobody.here': want,
  info: typeof info === 'string' ? [info, { role: 'true' }] : info,
})

const real = (part: string, domain: string, last: number): Omit<TruthDomain, 'want'> =>
  ({ part, domain, exchanges: { [`mx.${domain}`]: last } })

/** Servers that Debian has, each as its package or its documents configure it. */
const REAL_DOMAINS: readonly TruthDomain[] = [
  { ...real('Postfix', 'postfix-plain.org', 10), want: HONEST, columns: REFUSED },
  { ...real('Postfix with postscreen', 'postfix-screen.org', 9), want: HONEST, columns: REFUSED },
  { ...real('Postfix with postgrey', 'postfix-grey.org', 12), want: HONEST, columns: {} },
  {
    ...real('Postfix with quotas', 'postfix-quota.org', 13),
    want: { ...HONEST, full: FULL, 'nearly.full': FULL, 'big.full': FULL },
    columns: REFUSED,
  },
  {
    ...real('Postfix, catch-all', 'postfix-any.org', 14),
    want: all(CATCH_ALL),
    columns: { catch_all: 'true' },
  },
  {
    ...real('Postfix, one recipient a session', 'postfix-alone.org', 15),
    want: HONEST,
    columns: REFUSED,
  },
  {
    ...real('Postfix with SMTPUTF8', 'postfix-utf8.org', 10),
    want: { ...HONEST, пётр: VALID, dörte: VALID, jürgen: NOT_FOUND, иван: NOT_FOUND },
    columns: REFUSED,
  },
  {
    ...real('Postfix without SMTPUTF8', 'postfix-ascii.org', 16),
    want: { 'ada.lovelace': VALID, 'nobody.here': NOT_FOUND, пётр: UNCLEAR, jürgen: UNCLEAR },
    // No mail for them gets there (RFC 6531, 3.2).
    alsoTrue: { пётр: 'invalid', jürgen: 'invalid' },
  },
  { ...real('Postfix that blocks us', 'postfix-listed.org', 17), want: all(BLOCKED) },
  { ...real('Postfix that blocks us', 'postfix-refuses.org', 18), want: all(BLOCKED) },
  {
    ...real('Postfix with temporary refusals', 'postfix-soft.org', 19),
    want: { 'ada.lovelace': VALID, 'alan.turing': VALID, 'nobody.here': GREYLISTED },
    // Its table does not have the mailbox; a later table may.
    alsoTrue: { 'nobody.here': 'invalid' },
  },
  { ...real('Postfix that requires TLS', 'postfix-tls.org', 20), want: HONEST, columns: REFUSED },
  {
    ...real('Postfix without null senders', 'postfix-callout.org', 21),
    want: all(BLOCKED),
    // Of other senders it accepts mail.
    alsoTrue: { 'ada.lovelace': 'valid', 'alan.turing': 'valid', 'nobody.here': 'invalid' },
  },
  {
    ...real('Postfix before Dovecot', 'postfix-dovecot.org', 22),
    want: { ...HONEST, 'full.box': FULL },
    columns: REFUSED,
  },
  // The refusal of the server behind it is about Postfix, not about the mailbox.
  {
    ...real('Postfix before a server that blocks it', 'postfix-relay.org', 22),
    want: all(BLOCKED),
  },
  { ...real('Postfix, slow', 'postfix-slow.org', 23), want: HONEST, columns: REFUSED },
  {
    ...real('Postfix, closed mailboxes', 'postfix-closed.org', 24),
    want: { ...HONEST, 'former.employee': NOT_FOUND, 'suspended.user': NOT_FOUND },
    columns: REFUSED,
  },
  { ...real('Postfix with temporary refusals', 'postfix-defers.org', 25), want: all(GREYLISTED) },
  { ...real('Postfix, not its domain', 'elsewhere-hosted.org', 10), want: all(GREYLISTED) },
  { ...real('Exim', 'exim-plain.org', 30), want: HONEST, columns: REFUSED },
  { ...real('Exim', 'exim-words.org', 30), want: HONEST, columns: REFUSED },
  {
    ...real('Exim, catch-all', 'exim-any.org', 30),
    want: all(CATCH_ALL),
    columns: { catch_all: 'true' },
  },
  {
    ...real('Exim with quotas', 'exim-quota.org', 30),
    want: { ...HONEST, 'full.box': FULL },
    columns: REFUSED,
  },
  {
    ...real('Exim, closed mailboxes', 'exim-closed.org', 30),
    want: { ...HONEST, 'former.employee': NOT_FOUND, 'suspended.user': NOT_FOUND },
    columns: REFUSED,
  },
  { ...real('Exim that defers', 'exim-defers.org', 30), want: all(GREYLISTED) },
  { ...real('Exim, slow', 'exim-slow.org', 31), want: HONEST, columns: REFUSED },
  { ...real('Exim that blocks us', 'exim-listed.org', 32), want: all(BLOCKED) },
  { ...real('Exim, not its domain', 'elsewhere-exim.org', 30), want: all(BLOCKED) },
  { ...real('OpenSMTPD', 'opensmtpd.org', 40), want: HONEST, columns: REFUSED },
  {
    ...real('OpenSMTPD, catch-all', 'opensmtpd-any.org', 41),
    want: all(CATCH_ALL),
    columns: { catch_all: 'true' },
  },
  {
    ...real('Haraka', 'haraka.org', 50),
    want: { ...HONEST, 'full.box': FULL, 'nearly.full': FULL, 'former.employee': NOT_FOUND },
    columns: REFUSED,
  },
  { ...real('Haraka that greylists', 'haraka-grey.org', 50), want: HONEST },
  {
    ...real('Haraka, catch-all', 'haraka-any.org', 50),
    want: all(CATCH_ALL),
    columns: { catch_all: 'true' },
  },
  { ...real('Haraka, not its domain', 'elsewhere-haraka.org', 50), want: all(UNCLEAR) },
]

type Refusals = Readonly<Record<string, string>>

/** Knows these names and answers some others in a special way; the rest is unknown. */
function mailboxes (unknown: string, special: Refusals = {}): Script['recipient'] {
  return address => {
    const name = address.slice(0, address.lastIndexOf('@'))
    if (special[name] !== undefined) return special[name].replaceAll('{address}', address)
    return (PEOPLE as readonly string[]).includes(name)
      ? undefined
      : unknown.replaceAll('{address}', address)
  }
}

const GMAIL_HELP = 'https://support.google.com/mail/?p='
const gmail = (...lines: readonly string[]) => lines.map((line, index) =>
  `${line.slice(0, 3)}${index < lines.length - 1 ? '-' : ' '}${line.slice(4)}`).join('\n')
const GMAIL: Script = {
  greeting: '220 mx.google.com ESMTP d9443c01a7336-2a1 - gsmtp',
  recipient: mailboxes(gmail(
    '550 5.1.1 The email account that you tried to reach does not exist. Please try',
    '550 5.1.1 double-checking the recipient\'s email address for typos or',
    '550 5.1.1 unnecessary spaces. For more information, go to',
    `550 5.1.1  ${GMAIL_HELP}NoSuchUser d9443c01a7336-2a1 - gsmtp`), {
    'disabled.account': gmail(
      '550 5.2.1 The email account that you tried to reach is disabled. For more',
      `550 5.2.1 information, go to ${GMAIL_HELP}DisabledUser d9443c01a7336 - gsmtp`),
    'inactive.account': gmail(
      '550 5.2.1 The email account that you tried to reach is inactive. For more',
      `550 5.2.1 information, go to ${GMAIL_HELP}InactiveUser d9443c01a7336 - gsmtp`),
    'full.account': gmail(
      '452 4.2.2 The recipient\'s inbox is out of storage space. Please direct the',
      `452 4.2.2 recipient to ${GMAIL_HELP}OverQuotaTemp d9443c01a7336 - gsmtp`),
    'over.quota': gmail(
      '552 5.2.2 The recipient\'s inbox is out of storage space and inactive. Please',
      '552 5.2.2 direct the recipient to',
      `552 5.2.2 ${GMAIL_HELP}OverQuotaPerm d9443c01a7336 - gsmtp`),
    'popular.person': gmail(
      '550 5.2.1 The user you are trying to contact is receiving mail at a rate that',
      '550 5.2.1 prevents additional messages from being delivered. For more information,',
      `550 5.2.1 please visit ${GMAIL_HELP}ReceivingRatePerm d9443c01a7336 - gsmtp`),
    'busy.person': gmail(
      '450 4.2.1 The user you are trying to contact is receiving mail too quickly.',
      `450 4.2.1 Please resend later: ${GMAIL_HELP}ReceivingRate d9443c01a7336 - gsmtp`),
    'our.limit': `550 5.4.5 Daily user sending limit exceeded. ${GMAIL_HELP}DailyLimit - gsmtp`,
  }),
}
const GMAIL_CASES: TruthDomain['want'] = {
  'disabled.account': NOT_FOUND,
  'inactive.account': NOT_FOUND,
  'full.account': FULL,
  'over.quota': FULL,
  'popular.person': UNCLEAR,
  'busy.person': GREYLISTED,
  'our.limit': BLOCKED,
}

/** Who gets too much mail is there; an account that is full and inactive is as good as closed. */
const ALSO_GMAIL = {
  'popular.person': 'valid', 'busy.person': 'valid', 'over.quota': 'invalid',
}

const OUTLOOK_HOST = '[AM7EUR06FT012.eop-eur06.prod.protection.outlook.com]'
const OUTLOOK: Script = {
  greeting: '220 AM7EUR06FT012.mail.protection.outlook.com Microsoft ESMTP MAIL Service ready',
  recipient: mailboxes(
    `550 5.5.0 Requested action not taken: mailbox unavailable (S2017062302). ${OUTLOOK_HOST}`, {
      'busy.server': `451 4.7.500 Server busy. Please try again later. (S77714) ${OUTLOOK_HOST}`,
      'blocked.person': '550 5.7.1 Unfortunately, messages from [127.0.0.1] weren\'t sent. ' +
        'Please contact your Internet service provider since part of their network is on our ' +
        `block list (S3150). ${OUTLOOK_HOST}`,
      'full.box': `552 5.2.2 Mailbox full ${OUTLOOK_HOST}`,
    }),
}
const EXCHANGE: Script = {
  ...OUTLOOK,
  recipient: mailboxes('550 5.4.1 Recipient address rejected: Access denied. For more ' +
    `information see https://aka.ms/EXOSmtpErrors [AS(201806281)] ${OUTLOOK_HOST}`, {
    'on.premises': '550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient {address} not found by ' +
      'SMTP address lookup',
    'disabled.mailbox': '550 5.2.1 Mailbox cannot be accessed; mailbox disabled',
    'wrong.region': '451 4.4.62 Mail sent to the wrong Office 365 region. ATTR35. For more ' +
      'information please go to https://go.microsoft.com/fwlink/?linkid=865268',
    'banned.ip': '550 5.7.606 Access denied, banned sending IP [127.0.0.1]. To request removal ' +
      `from this list please visit https://sender.office.com/ (AS16012609) ${OUTLOOK_HOST}`,
    'restricted.group': '550 5.7.133 RESOLVER.RST.SenderNotAuthenticatedForGroup; ' +
      'authentication required',
  }),
}

const MICROSOFT_CASES: TruthDomain['want'] = {
  'busy.server': GREYLISTED, 'blocked.person': BLOCKED, 'full.box': FULL,
}

/** Replies to all of them that block us at one step. */
const refuses = (greeting: string): Script => ({ greeting })
const WEB_DE = (host: string): Script => ({
  greeting: `220 ${host} Nemesis ESMTP Service ready`,
  recipient: mailboxes('550-Requested action not taken: mailbox unavailable\n550 For explanation ' +
    'visit https://postmaster.web.de/en/case?c=r0601&i=ip&v=127.0.0.1', {
    'busy.person': '450-Requested mail action not taken: mailbox unavailable\n450 For ' +
      'explanation visit https://postmaster.web.de/en/case?c=r0103',
    'full.box': '552-Requested mail action aborted: exceeded storage allocation\n552 For ' +
      'explanation visit https://postmaster.web.de/en/case?c=r0602',
  }),
})
const PROOFPOINT: Script = {
  greeting: '220 mx0a-00112233.pphosted.com ESMTP mfa-m0112233',
  recipient: mailboxes('550 5.1.1 User Unknown', {
    'old.employee': '550 5.1.1 <{address}>... User unknown',
    'blocked.person': '550 5.7.0 Local Policy Violation',
    'listed.client': '554 5.7.1 Blocked - see https://ipcheck.proofpoint.com/?ip=127.0.0.1',
  }),
}
const MIMECAST: Script = {
  greeting: '220 eu-smtp-inbound-1.mimecast.com ESMTP; Fri, 27 Nov 2026 10:00:00 +0000',
  recipient: mailboxes('550 Invalid Recipient - https://community.mimecast.com/docs/DOC-1369#550', {
    'blocked.person': '550 Administrative prohibition - envelope blocked - ' +
      'https://community.mimecast.com/docs/DOC-1369#550',
    'grey.person': '451 Internal resources are temporarily unavailable - ' +
      'https://community.mimecast.com/docs/DOC-1369#451',
    'rejected.person': '550 Rejected by header based Anti-Spoofing policy: {address} - ' +
      'https://community.mimecast.com/docs/DOC-1369#550',
  }),
}
const BARRACUDA: Script = {
  greeting: '220 mail.ess.barracuda.com ESMTP (d1a2b3)',
  recipient: mailboxes('550 permanent failure for one or more recipients ({address}:550 5.1.1 ' +
    'RESOLVER.ADR.RecipNotFound; not found)', {
    'blocked.person': '550 permanent failure for one or more recipients ({address}:blocked)',
    'listed.client': '554 Service unavailable; Client host [127.0.0.1] blocked using Barracuda ' +
      'Reputation; https://www.barracudanetworks.com/reputation/?r=1&ip=127.0.0.1',
  }),
}
const CISCO: Script = {
  greeting: '220 esa1.hc1234-56.iphmx.com ESMTP',
  recipient: mailboxes('550 #5.1.0 Address rejected.', {
    'blocked.person': '554 #5.7.1 Your access to submit messages to this e-mail system has been ' +
      'rejected.',
    'limited.person': '452 #4.5.3 Too many recipients received from the sender',
    'rate.person': '452 Too many recipients received this hour',
  }),
}

const QQ: Script = {
  greeting: '220 newxmmxsza20.qq.com MX QQ Mail Server.',
  recipient: mailboxes('550 Mailbox not found. http://service.mail.qq.com/cgi-bin/help?subtype=1&' +
    '&id=20022&&no=1000728', {
    'rate.domain': '550 Domain frequency limited. http://service.mail.qq.com/cgi-bin/help?' +
      'subtype=1&&id=20022&&no=1000725',
    'rate.ip': '550 Ip frequency limited. http://service.mail.qq.com/cgi-bin/help?subtype=1&&id=' +
      '20022&&no=1000725',
    'bounce.attack': '550 Suspected bounce attacks. http://service.mail.qq.com/cgi-bin/help?' +
      'subtype=1&&id=20022&&no=1000725',
    'full.box': '552 Mailbox space not enough or user over quota. http://service.mail.qq.com/' +
      'cgi-bin/help?subtype=1&&id=20022',
  }),
}
const YANDEX: Script = {
  greeting: '220 mxfront12.mail.yandex.net (Want to use Yandex.Mail for your domain?)',
  recipient: mailboxes('550 5.7.1 No such user!', {
    'disabled.box': '550 5.7.1 Policy rejection on the target address',
    'full.box': '552 5.2.2 Mailbox size limit exceeded',
    'busy.box': '451 4.7.1 Sorry, the service is currently unavailable. Please come back later.',
    'spam.box': '554 5.7.1 [2] Message rejected under suspicion of SPAM; https://ya.cc/1IrBc',
  }),
}
const MAIL_RU: Script = {
  greeting: '220 Mail.Ru ESMTP',
  recipient: address => {
    const message = `550 Message was not accepted -- invalid mailbox. Local mailbox ${address} is`
    if (address.startsWith('gone.')) return `${message} unavailable: user not found`
    if (address.startsWith('off.')) return `${message} unavailable: account is disabled`
    if (address.startsWith('spam.')) {
      return '550 spam message rejected. Please visit http://help.mail.ru/notspam-support/id?c=x'
    }
    return undefined
  },
}
const ICLOUD: Script = {
  greeting: '220 iCloud iSCREAM SMTP proxy - p00-iscream-smtp-6f',
  recipient: mailboxes('550 5.1.1 <{address}>: user does not exist', {
    'full.box': '552 5.2.2 <{address}>: user is over quota',
    'inactive.box': '550 5.1.6 <{address}>: recipient no longer on server',
    'listed.client': '554 5.7.1 Service unavailable; blocked using Proofpoint; see ' +
      'https://ipcheck.proofpoint.com/?ip=127.0.0.1',
  }),
}
const YAHOO: Script = {
  greeting: '220 mtaproxy501.free.mail.bf1.yahoo.com ESMTP ready',
  recipient: address => {
    if (address.startsWith('gone.')) {
      return `554 delivery error: dd This user doesn't have a yahoo.com account (${address}) ` +
        '[0] - mta4218.mail.bf1.yahoo.com'
    }
    if (address.startsWith('off.')) {
      return `554 delivery error: dd Sorry your message to ${address} cannot be delivered. ` +
        'This mailbox is disabled (554.30). - mta4218.mail.yahoo.com'
    }
    if (address.startsWith('full.')) return '552 5.2.2 mailbox is full'
    return undefined
  },
}

const ACCEPTED_BY_ALL: TruthDomain['want'] = {
  'ada.lovelace': UNTRUTHFUL,
  'alan.turing': UNTRUTHFUL,
  'nobody.here': UNTRUTHFUL,
  j7qkzzv1: UNTRUTHFUL,
  'gone.person': NOT_FOUND,
  'off.person': NOT_FOUND,
}
const FREE = { free: 'true' }
const free = (want: TruthDomain['want'], columns: TruthDomain['columns'] = {}) =>
  ({ want, columns: { ...FREE, ...columns } })

const scripted = (
  part: string, domain: string, host: string, script: Script
): Omit<TruthDomain, 'want'> => ({ part, domain, exchanges: { [host]: script } })

/** Providers by their public documents, at their own names of hosts and domains. */
const PROVIDER_DOMAINS: readonly TruthDomain[] = [
  {
    ...scripted('Google', 'gmail.com', 'gmail-smtp-in.l.google.com', GMAIL),
    ...free({ ...HONEST, ...GMAIL_CASES }),
    alsoTrue: ALSO_GMAIL,
  },
  {
    ...scripted('Google', 'workspace-customer.org', 'aspmx.l.google.com', GMAIL),
    want: { ...HONEST, ...GMAIL_CASES },
    columns: REFUSED,
    alsoTrue: ALSO_GMAIL,
  },
  {
    ...scripted('Google', 'workspace-any.org', 'alt1.aspmx.l.google.com',
      { ...GMAIL, recipient: () => undefined }),
    want: all(CATCH_ALL),
    columns: { catch_all: 'true' },
  },
  {
    ...scripted('Outlook.com', 'outlook.com', 'outlook-com.olc.protection.outlook.com', OUTLOOK),
    ...free({ ...HONEST, ...MICROSOFT_CASES }),
  },
  {
    ...scripted('Outlook.com', 'hotmail.fr', 'hotmail-fr.olc.protection.outlook.com', OUTLOOK),
    ...free(HONEST),
  },
  {
    ...scripted('Exchange Online', 'exchange-customer.org',
      'exchange-customer-org.mail.protection.outlook.com', EXCHANGE),
    want: {
      ...HONEST,
      'on.premises': NOT_FOUND,
      'disabled.mailbox': NOT_FOUND,
      'wrong.region': GREYLISTED,
      'banned.ip': BLOCKED,
      'restricted.group': BLOCKED,
    },
    columns: REFUSED,
  },
  {
    ...scripted('Exchange Online', 'exchange-any.org',
      'exchange-any-org.mail.protection.outlook.com', { ...OUTLOOK, recipient: () => undefined }),
    want: all(CATCH_ALL),
    columns: { catch_all: 'true' },
  },
  {
    ...scripted('Yahoo', 'yahoo.com', 'mta5.am0.yahoodns.net', YAHOO),
    ...free({ ...ACCEPTED_BY_ALL, 'full.box': FULL }),
  },
  {
    ...scripted('Yahoo', 'aol.com', 'mx-aol.mail.gm0.yahoodns.net', YAHOO),
    ...free(ACCEPTED_BY_ALL),
  },
  {
    ...scripted('Yahoo', 'ymail.com', 'mta6.am0.yahoodns.net', refuses('421 4.7.0 [TSS04] ' +
      'Messages from 127.0.0.1 temporarily deferred due to unexpected volume or user complaints ' +
      '- 127.0.0.1; see https://postmaster.yahooinc.com/error-codes')),
    ...free(all(GREYLISTED)),
  },
  {
    ...scripted('Yahoo', 'yahoo.de', 'mx-eu.mail.am0.yahoodns.net', refuses('553 5.7.1 [BL21] ' +
      'Connections will not be accepted from 127.0.0.1, because the ip is in Spamhaus\'s list')),
    ...free(all(BLOCKED)),
  },
  {
    ...scripted('iCloud', 'icloud.com', 'mx01.mail.icloud.com', ICLOUD),
    ...free({
      ...HONEST, 'full.box': FULL, 'inactive.box': NOT_FOUND, 'listed.client': BLOCKED,
    }, REFUSED),
  },
  {
    ...scripted('Yandex', 'yandex.ru', 'mx.yandex.ru', YANDEX),
    ...free({
      ...HONEST,
      'disabled.box': NOT_FOUND,
      'full.box': FULL,
      'busy.box': GREYLISTED,
      'spam.box': BLOCKED,
    }, REFUSED),
  },
  {
    ...scripted('Mail.ru', 'mail.ru', 'mxs.mail.ru', MAIL_RU),
    ...free({ ...ACCEPTED_BY_ALL, 'spam.person': BLOCKED }),
  },
  { ...scripted('Mail.ru', 'bk.ru', 'emx.mail.ru', MAIL_RU), ...free(ACCEPTED_BY_ALL) },
  {
    ...scripted('QQ', 'qq.com', 'mx3.qq.com', QQ),
    ...free({
      ...HONEST,
      'rate.domain': BLOCKED,
      'rate.ip': BLOCKED,
      'bounce.attack': BLOCKED,
      'full.box': FULL,
    }, REFUSED),
  },
  {
    ...scripted('web.de and GMX', 'web.de', 'mx-ha02.web.de', WEB_DE('web.de (mxweb010)')),
    ...free({ ...HONEST, 'busy.person': GREYLISTED, 'full.box': FULL }, REFUSED),
  },
  {
    ...scripted('web.de and GMX', 'gmx.net', 'mx00.gmx.net', WEB_DE('gmx.net (mxgmx104)')),
    ...free({ ...HONEST, 'busy.person': GREYLISTED, 'full.box': FULL }, REFUSED),
  },
  {
    ...scripted('web.de and GMX', 'gmx.at', 'mx01.gmx.at', refuses('554-gmx.net (mxgmx104) ' +
      'Nemesis ESMTP Service not available\n554-No SMTP service\n554 IP address is block listed.')),
    ...free(all(BLOCKED)),
  },
  {
    ...scripted(
      'Proofpoint', 'proofpoint-customer.org', 'mxa-00112233.gslb.pphosted.com', PROOFPOINT),
    want: {
      ...HONEST, 'old.employee': NOT_FOUND, 'blocked.person': BLOCKED, 'listed.client': BLOCKED,
    },
    columns: REFUSED,
  },
  {
    ...scripted('Mimecast', 'mimecast-customer.org', 'eu-smtp-inbound-1.mimecast.com', MIMECAST),
    want: {
      ...HONEST, 'blocked.person': BLOCKED, 'grey.person': GREYLISTED, 'rejected.person': BLOCKED,
    },
    columns: REFUSED,
  },
  {
    ...scripted('Barracuda', 'barracuda-customer.org', 'd1.ess.barracudanetworks.com', BARRACUDA),
    want: { ...HONEST, 'blocked.person': BLOCKED, 'listed.client': BLOCKED },
    columns: REFUSED,
  },
  {
    ...scripted('Cisco', 'cisco-customer.org', 'mx1.hc1234-56.iphmx.com', CISCO),
    want: {
      ...HONEST,
      'blocked.person': BLOCKED,
      'limited.person': GREYLISTED,
      'rate.person': GREYLISTED,
    },
    columns: REFUSED,
  },
]

/** What the DNS, the network and slow servers do, at servers that follow the standard. */
const SECOND_MX: Script = { recipient: mailboxes('550 5.1.1 no such user') }
const NETWORK_DOMAINS: readonly TruthDomain[] = [
  {
    part: 'several exchanges',
    domain: 'backup-customer.org',
    exchanges: { 'mx1.backup-customer.org': 'closed', 'mx2.backup-customer.org': SECOND_MX },
    want: HONEST,
    columns: REFUSED,
  },
  {
    part: 'several exchanges',
    domain: 'full-house.org',
    exchanges: {
      'mx1.full-house.org': refuses('421 4.3.2 too many connections'),
      'mx2.full-house.org': SECOND_MX,
    },
    want: HONEST,
    columns: REFUSED,
  },
  {
    part: 'no server',
    domain: 'closed-port.org',
    exchanges: { 'mx.closed-port.org': 'closed' },
    want: all(UNREACHABLE),
  },
  {
    part: 'slow greeting and replies',
    domain: 'patient-customer.org',
    exchanges: {
      'mx.patient-customer.org': { ...SECOND_MX, greetingDelayMs: 9_000, recipientDelayMs: 6_000 },
    },
    want: HONEST,
    columns: REFUSED,
  },
  {
    part: 'ended connections',
    domain: 'dropping-customer.org',
    exchanges: {
      'mx.dropping-customer.org': {
        recipient: mailboxes('drop', { 'nobody.here': '550 5.1.1 no such user' }),
      },
    },
    want: { 'ada.lovelace': VALID, 'nobody.here': NOT_FOUND, 'other.person': UNREACHABLE },
  },
]

const domain = (name: string, zone: Zone | null): Omit<TruthDomain, 'want'> =>
  ({ part: 'DNS', domain: name, exchanges: {}, zone, columns: { mx_found: 'false' } })

/** Domains whose records are the answer. */
const DNS_DOMAINS: readonly TruthDomain[] = [
  {
    ...domain('missing-customer.org', null),
    want: all('invalid domain_not_found', { info: 'invalid domain_not_found' }),
  },
  {
    ...domain('null-mx-customer.org', { mx: [[0, '']] }),
    want: all('invalid no_mail_service', { info: 'invalid no_mail_service' }),
  },
  {
    ...domain('dangling-customer.org', { mx: [[10, 'mx.gone-customer.org']] }),
    want: all('invalid no_mail_service', { info: 'invalid no_mail_service' }),
  },
  {
    ...domain('broken-customer.org', { fault: 'SERVFAIL' }),
    want: all('unknown dns_error', { info: 'unknown dns_error' }),
    columns: {},
  },
  {
    ...domain('mailinator.com', { mx: [[10, 'mx.gone-customer.org']] }),
    want: { 'ada.lovelace': 'invalid no_mail_service' },
    columns: { mx_found: 'false', disposable: 'true' },
  },
  {
    part: 'disposable domains',
    domain: 'guerrillamail.com',
    exchanges: { 'mail.guerrillamail.com': { recipient: () => undefined } },
    want: { 'ada.lovelace': 'risky disposable_domain', 'alan.turing': 'risky disposable_domain' },
    columns: { disposable: 'true' },
  },
]

/** Every domain of the suite. */
export const TRUTH_DOMAINS: readonly TruthDomain[] =
  [...REAL_DOMAINS, ...PROVIDER_DOMAINS, ...NETWORK_DOMAINS, ...DNS_DOMAINS]
