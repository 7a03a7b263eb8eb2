import { readFileSync } from 'node:fs'
import { PEOPLE } from './real.ts'
import type { Zone } from '../../support/mail/dns-server.ts'
import type { ProviderScript } from './scripted.ts'

/** `status reason`, and further columns that differ from those of the domain. */
export type Want = string | readonly [string, Readonly<Record<string, string>>]

/** A mail domain with addresses whose truth is known. */
export type TruthDomain = {
  /** The server as the table names it. */
  readonly part: string
  readonly domain: string
  /** Names of its mail exchanges; the last number of a real server, or how it answers. */
  readonly exchanges: Readonly<Record<string, number | ProviderScript | 'closed'>>
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

const real = (
  ...[part, domain, last, want = HONEST, columns = REFUSED]: readonly [
    part: string, domain: string, last: number, want?: TruthDomain['want'],
    columns?: TruthDomain['columns']
  ]
): TruthDomain => ({ part, domain, exchanges: { [`mx.${domain}`]: last }, want, columns })

/** A server that accepts every name. */
const realAny = (part: string, domain: string, last: number): TruthDomain =>
  real(part, domain, last, all(CATCH_ALL), { catch_all: 'true' })

/** Servers that Debian has, each as its package or its documents configure it. */
const REAL_DOMAINS: readonly TruthDomain[] = [
  real('Postfix', 'postfix-plain.org', 10),
  real('Postfix with postscreen', 'postfix-screen.org', 9),
  real('Postfix with postgrey', 'postfix-grey.org', 12, HONEST, {}),
  real('Postfix with quotas', 'postfix-quota.org', 13,
    { ...HONEST, full: FULL, 'nearly.full': FULL, 'big.full': FULL }),
  realAny('Postfix, catch-all', 'postfix-any.org', 14),
  real('Postfix, one recipient a session', 'postfix-alone.org', 15),
  real('Postfix with SMTPUTF8', 'postfix-utf8.org', 10,
    { ...HONEST, пётр: VALID, dörte: VALID, jürgen: NOT_FOUND, иван: NOT_FOUND }),
  {
    ...real('Postfix without SMTPUTF8', 'postfix-ascii.org', 16, {
      'ada.lovelace': VALID, 'nobody.here': NOT_FOUND, пётр: UNCLEAR, jürgen: UNCLEAR,
    }, {}),
    // No mail for them gets there (RFC 6531, 3.2).
    alsoTrue: { пётр: 'invalid', jürgen: 'invalid' },
  },
  real('Postfix that blocks us', 'postfix-listed.org', 17, all(BLOCKED), {}),
  real('Postfix that blocks us', 'postfix-refuses.org', 18, all(BLOCKED), {}),
  {
    ...real('Postfix with temporary refusals', 'postfix-soft.org', 19, {
      'ada.lovelace': VALID, 'alan.turing': VALID, 'nobody.here': GREYLISTED,
    }, {}),
    // Its table does not have the mailbox; a later table may.
    alsoTrue: { 'nobody.here': 'invalid' },
  },
  real('Postfix that requires TLS', 'postfix-tls.org', 20),
  {
    ...real('Postfix without null senders', 'postfix-callout.org', 21, all(BLOCKED), {}),
    // Of other senders it accepts mail.
    alsoTrue: { 'ada.lovelace': 'valid', 'alan.turing': 'valid', 'nobody.here': 'invalid' },
  },
  real('Postfix before Dovecot', 'postfix-dovecot.org', 22, { ...HONEST, 'full.box': FULL }),
  // The refusal of the server behind it is about Postfix, not about the mailbox.
  real('Postfix before a server that blocks it', 'postfix-relay.org', 22, all(BLOCKED), {}),
  real('Postfix, slow', 'postfix-slow.org', 23),
  real('Postfix, closed mailboxes', 'postfix-closed.org', 24,
    { ...HONEST, 'former.employee': NOT_FOUND, 'suspended.user': NOT_FOUND }),
  real('Postfix with temporary refusals', 'postfix-defers.org', 25, all(GREYLISTED), {}),
  real('Postfix, not its domain', 'elsewhere-hosted.org', 10, all(GREYLISTED), {}),
  real('Exim', 'exim-plain.org', 30),
  real('Exim', 'exim-words.org', 30),
  realAny('Exim, catch-all', 'exim-any.org', 30),
  real('Exim with quotas', 'exim-quota.org', 30, { ...HONEST, 'full.box': FULL }),
  real('Exim, closed mailboxes', 'exim-closed.org', 30,
    { ...HONEST, 'former.employee': NOT_FOUND, 'suspended.user': NOT_FOUND }),
  real('Exim that defers', 'exim-defers.org', 30, all(GREYLISTED), {}),
  real('Exim, slow', 'exim-slow.org', 31),
  real('Exim that blocks us', 'exim-listed.org', 32, all(BLOCKED), {}),
  real('Exim, not its domain', 'elsewhere-exim.org', 30, all(BLOCKED), {}),
  real('OpenSMTPD', 'opensmtpd.org', 40),
  realAny('OpenSMTPD, catch-all', 'opensmtpd-any.org', 41),
  real('Haraka', 'haraka.org', 50,
    { ...HONEST, 'full.box': FULL, 'nearly.full': FULL, 'former.employee': NOT_FOUND }),
  real('Haraka that greylists', 'haraka-grey.org', 50, HONEST, {}),
  realAny('Haraka, catch-all', 'haraka-any.org', 50),
  real('Haraka, not its domain', 'elsewhere-haraka.org', 50, all(UNCLEAR), {}),
]

/** A provider by its public documents: what its rows must get, and its replies to these names. */
type Provider = {
  readonly greeting: string
  /** The reply to other names than those of people; null accepts them. */
  readonly unknown: string | null
  readonly replies: Readonly<Record<string, readonly [want: string, reply: string]>>
}

const PROVIDERS = JSON.parse(readFileSync(
  new URL('../data/mail-providers.json', import.meta.url), 'utf8')) as Record<string, Provider>

const providerOf = (name: string): Provider => PROVIDERS[name]!

function repliesOf ({ greeting, unknown, replies }: Provider): ProviderScript {
  return {
    greeting,
    recipient: address => {
      const name = address.slice(0, address.lastIndexOf('@'))
      const isPerson = (PEOPLE as readonly string[]).includes(name)
      const reply = replies[name]?.[1] ?? (isPerson ? undefined : unknown ?? undefined)
      return reply?.replaceAll('{address}', address)
    },
  }
}

/** What the names get that a provider answers in a special way. */
const casesOf = (name: string): TruthDomain['want'] =>
  Object.fromEntries(Object.entries(providerOf(name).replies).map(([local, [want]]) =>
    [local, want]))

/** Who gets too much mail is there; an account that is full and inactive is as good as closed. */
const ALSO_GMAIL = {
  'popular.person': 'valid', 'busy.person': 'valid', 'over.quota': 'invalid',
}

/** Replies to all of them that block us at one step. */
const refuses = (greeting: string): ProviderScript => ({ greeting })
const acceptsAny = (name: string): ProviderScript =>
  ({ ...repliesOf(providerOf(name)), recipient: () => undefined })

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
  part: string, domain: string, host: string, script: string | ProviderScript
): Omit<TruthDomain, 'want'> => ({
  part,
  domain,
  exchanges: { [host]: typeof script === 'string' ? repliesOf(providerOf(script)) : script },
})

/** A customer of a provider whose mailboxes all get what the provider's cases say. */
const customer = (
  ...[part, domain, host, name]: readonly [string, string, string, string]
): TruthDomain => ({
  ...scripted(part, domain, host, name), want: { ...HONEST, ...casesOf(name) }, columns: REFUSED,
})

const anyName = (
  ...[part, domain, host, name]: readonly [string, string, string, string]
): TruthDomain => ({
  ...scripted(part, domain, host, acceptsAny(name)),
  want: all(CATCH_ALL),
  columns: { catch_all: 'true' },
})

const GMX = {
  ...providerOf('WEB_DE'), greeting: '220 gmx.net (mxgmx104) Nemesis ESMTP Service ready',
}
const EXCHANGE_HOST = 'mail.protection.outlook.com'

/** Providers by their public documents, at their own names of hosts and domains. */
const PROVIDER_DOMAINS: readonly TruthDomain[] = [
  {
    ...scripted('Google', 'gmail.com', 'gmail-smtp-in.l.google.com', 'GMAIL'),
    ...free({ ...HONEST, ...casesOf('GMAIL') }),
    alsoTrue: ALSO_GMAIL,
  },
  {
    ...customer('Google', 'workspace-customer.org', 'aspmx.l.google.com', 'GMAIL'),
    alsoTrue: ALSO_GMAIL,
  },
  anyName('Google', 'workspace-any.org', 'alt1.aspmx.l.google.com', 'GMAIL'),
  {
    ...scripted('Outlook.com', 'outlook.com', 'outlook-com.olc.protection.outlook.com', 'OUTLOOK'),
    ...free({ ...HONEST, ...casesOf('OUTLOOK') }),
  },
  {
    ...scripted('Outlook.com', 'hotmail.fr', 'hotmail-fr.olc.protection.outlook.com', 'OUTLOOK'),
    ...free(HONEST),
  },
  customer('Exchange Online', 'exchange-customer.org', `exchange-customer-org.${EXCHANGE_HOST}`,
    'EXCHANGE'),
  anyName('Exchange Online', 'exchange-any.org', `exchange-any-org.${EXCHANGE_HOST}`, 'OUTLOOK'),
  {
    ...scripted('Yahoo', 'yahoo.com', 'mta5.am0.yahoodns.net', 'YAHOO'),
    ...free({ ...ACCEPTED_BY_ALL, 'full.box': FULL }),
  },
  {
    ...scripted('Yahoo', 'aol.com', 'mx-aol.mail.gm0.yahoodns.net', 'YAHOO'),
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
    ...scripted('iCloud', 'icloud.com', 'mx01.mail.icloud.com', 'ICLOUD'),
    ...free({ ...HONEST, ...casesOf('ICLOUD') }, REFUSED),
  },
  {
    ...scripted('Yandex', 'yandex.ru', 'mx.yandex.ru', 'YANDEX'),
    ...free({ ...HONEST, ...casesOf('YANDEX') }, REFUSED),
  },
  {
    ...scripted('Mail.ru', 'mail.ru', 'mxs.mail.ru', 'MAIL_RU'),
    ...free({ ...ACCEPTED_BY_ALL, 'spam.person': BLOCKED }),
  },
  { ...scripted('Mail.ru', 'bk.ru', 'emx.mail.ru', 'MAIL_RU'), ...free(ACCEPTED_BY_ALL) },
  {
    ...scripted('QQ', 'qq.com', 'mx3.qq.com', 'QQ'),
    ...free({ ...HONEST, ...casesOf('QQ') }, REFUSED),
  },
  {
    ...scripted('web.de and GMX', 'web.de', 'mx-ha02.web.de', 'WEB_DE'),
    ...free({ ...HONEST, ...casesOf('WEB_DE') }, REFUSED),
  },
  {
    ...scripted('web.de and GMX', 'gmx.net', 'mx00.gmx.net', repliesOf(GMX)),
    ...free({ ...HONEST, ...casesOf('WEB_DE') }, REFUSED),
  },
  {
    ...scripted('web.de and GMX', 'gmx.at', 'mx01.gmx.at', refuses('554-gmx.net (mxgmx104) ' +
      'Nemesis ESMTP Service not available\n554-No SMTP service\n554 IP address is block listed.')),
    ...free(all(BLOCKED)),
  },
  customer('Proofpoint', 'proofpoint-customer.org', 'mxa-00112233.gslb.pphosted.com',
    'PROOFPOINT'),
  customer('Mimecast', 'mimecast-customer.org', 'eu-smtp-inbound-1.mimecast.com', 'MIMECAST'),
  customer('Barracuda', 'barracuda-customer.org', 'd1.ess.barracudanetworks.com', 'BARRACUDA'),
  customer('Cisco', 'cisco-customer.org', 'mx1.hc1234-56.iphmx.com', 'CISCO'),
]

/** What the DNS, the network and slow servers do, at servers that follow the standard. */
const SECOND_MX: ProviderScript =
  repliesOf({ greeting: '220 mx ESMTP', unknown: '550 5.1.1 no such user', replies: {} })
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
      'mx.dropping-customer.org': repliesOf({
        greeting: '220 mx ESMTP',
        unknown: 'drop',
        replies: { 'nobody.here': [NOT_FOUND, '550 5.1.1 no such user'] },
      }),
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
