/** Which forms of an address reach one mailbox, by the words of the owner. */
type MailboxRule = {
  /** What follows it in a local part is a tag that the sender may choose. */
  readonly tag: '+' | '-'
  /** Characters of a local part that do not count at the owner's own domains. */
  readonly ignored?: string
  /** Every mailbox of the own domains has this domain, too. */
  readonly oneDomain?: string
  /** The own domains with the rule; all of them if left out. */
  readonly only?: readonly string[]
  /** `tag@name.domain` is `name+tag@domain`, at the own domains. */
  readonly subdomains?: true
  /** Whether tags work in the same way at the domains of customers. */
  readonly forCustomers?: true
}

/** Of the name of a domain, without the dot of the root (RFC 1035, 2.3.4). */
export const MAX_DOMAIN_LENGTH = 253

/** The domain of a canonical address, or of a bare one. */
export function readDomain (address: string): string {
  return address.slice(address.lastIndexOf('@') + 1)
}

/** Who runs mail exchanges. */
export type MailOwner = {
  readonly owner: string
  /** The value of the column `mail_provider`, if that is not the owner. */
  readonly provider?: string
  /**
   * Domains of mail exchanges; `{country}` is any of `com`, `de`, `co.uk`, `com.br`. With `*.` only
   * hosts directly below it: the lines of an access provider's customers have deeper names.
   */
  readonly exchanges: readonly string[]
  /** Mail domains of the owner itself, with `{country}` too. */
  readonly domains: readonly string[]
  readonly mailbox?: MailboxRule
}

const owner = (name: string, ...exchanges: readonly string[]): MailOwner =>
  ({ owner: name, exchanges, domains: [] })

const AWS_REGIONS = [
  'us-east-1', 'us-east-2', 'us-west-1', 'us-west-2', 'ca-central-1', 'eu-central-1', 'eu-west-1',
  'eu-west-2', 'eu-west-3', 'eu-north-1', 'eu-south-1', 'ap-northeast-1', 'ap-northeast-2',
  'ap-south-1', 'ap-southeast-1', 'ap-southeast-2', 'sa-east-1', 'me-south-1', 'il-central-1',
]

/**
 * The owners of mail exchanges. Those with limits of their own (`mailboxes/policies.ts` of
 * `verify`) come first. Only rules that an owner documents, or follows in its own programs, are
 * here: a rule too many would take two people for one.
 */
export const MAIL_OWNERS: readonly MailOwner[] = [
  {
    owner: 'google',
    exchanges: ['google.com', 'googlemail.com', 'psmtp.com'],
    domains: ['gmail.com', 'googlemail.com'],
    // Dots count at the domains of customers: https://support.google.com/mail/answer/7436150.
    // Tags: https://support.google.com/mail/answer/22370, and for customers
    // https://support.google.com/a/users/answer/9308648. One domain:
    // https://support.google.com/mail/answer/10313.
    mailbox: { tag: '+', ignored: '.', oneDomain: 'gmail.com', forCustomers: true },
  },
  {
    owner: 'microsoft-consumer',
    provider: 'microsoft',
    exchanges: ['olc.protection.outlook.com', 'hotmail.com'],
    domains: ['hotmail.{country}', 'outlook.{country}', 'live.{country}', 'windowslive.com',
      'msn.com'],
    // Since 2013: https://www.zdnet.com/article/
    // microsoft-adds-support-for-custom-email-addresses-in-office-365/.
    mailbox: { tag: '+' },
  },
  {
    owner: 'microsoft-365',
    provider: 'microsoft',
    exchanges: ['mail.protection.outlook.com', 'mx.microsoft'],
    domains: [],
    // On for all organizations that do not turn it off: https://learn.microsoft.com/exchange/
    // recipients-in-exchange-online/plus-addressing-in-exchange-online.
    mailbox: { tag: '+', forCustomers: true },
  },
  {
    owner: 'yahoo',
    exchanges: ['yahoodns.net', 'yahoo.co.jp'],
    domains: ['yahoo.{country}', 'ymail.com', 'rocketmail.com', 'myyahoo.com', 'aol.{country}',
      'aim.com', 'netscape.net', 'verizon.net'],
    // Names have no hyphen, so it begins the keyword of a temporary address:
    // https://help.yahoo.com/kb/SLN28338.html.
    mailbox: {
      tag: '-', only: ['yahoo.{country}', 'ymail.com', 'rocketmail.com', 'myyahoo.com'],
    },
  },
  {
    owner: 'apple',
    exchanges: ['icloud.com'],
    domains: ['icloud.com', 'me.com', 'mac.com'],
    // Older addresses work at icloud.com, too: https://support.apple.com/118230. The tag is that of
    // RFC 5233, as https://github.com/gmr/email-normalize has it.
    mailbox: { tag: '+', oneDomain: 'icloud.com' },
  },
  owner('united-internet', 'gmx.net', 'web.de', 'mail.com', 'kundenserver.de', '1and1.{country}',
    'ionos.{country}'),
  { owner: 't-online', exchanges: ['t-online.de'], domains: ['t-online.de', 'magenta.de'] },
  {
    owner: 'mail.ru',
    exchanges: ['mail.ru'],
    domains: ['mail.ru', 'bk.ru', 'inbox.ru', 'internet.ru', 'list.ru'],
  },
  {
    owner: 'yandex',
    exchanges: ['yandex.ru', 'yandex.net'],
    domains: ['yandex.ru', 'yandex.com', 'yandex.by', 'yandex.kz', 'ya.ru'],
    // Every mailbox has an address at each: https://yandex.com/support/domain/additional/
    // mailbox-alias.xml. The tag as https://github.com/gmr/email-normalize has it.
    mailbox: { tag: '+', oneDomain: 'yandex.ru' },
  },
  owner('zoho', 'zoho.{country}', 'zohomail.com'),
  owner('proofpoint', 'pphosted.com', 'ppe-hosted.com'),
  owner('mimecast', 'mimecast.com', 'mimecast.co.za', 'mimecast-offshore.com'),
  owner('barracuda', 'barracudanetworks.com', 'cudaops.com'),
  owner('cisco', 'iphmx.com'),
  owner('messagelabs', 'messagelabs.com'),
  { owner: 'tencent', exchanges: ['qq.com'], domains: ['qq.com', 'foxmail.com'] },
  { owner: 'netease', exchanges: ['netease.com'], domains: ['163.com', '126.com', 'yeah.net'] },
  { owner: 'comcast', exchanges: ['*.comcast.net'], domains: ['comcast.net'] },
  owner('orange', '*.orange.fr', '*.wanadoo.fr'),
  owner('free.fr', '*.free.fr', '*.proxad.net'),
  {
    owner: 'proton',
    exchanges: ['protonmail.ch'],
    domains: ['proton.me', 'protonmail.com', 'pm.me', 'protonmail.ch'],
    // As its own programs do it (`removeEmailAlias` of https://github.com/ProtonMail/WebClients),
    // and https://proton.me/support/addresses-and-aliases.
    mailbox: { tag: '+', ignored: '.-_', oneDomain: 'proton.me', forCustomers: true },
  },
  {
    owner: 'fastmail',
    exchanges: ['messagingengine.com'],
    domains: ['fastmail.{country}', 'fastmail.net', 'fastmail.org', 'sent.com'],
    // https://www.fastmail.help/hc/en-us/articles/360060591053
    mailbox: { tag: '+', subdomains: true, forCustomers: true },
  },
  // Security gateways, which answer for the servers of companies.
  owner('cloudflare', 'mx.cloudflare.net'),
  owner('cyren', 'ctmail.com', 'expurgate.net'),
  owner('forcepoint', 'mailcontrol.com'),
  owner('fortinet', 'fortimailcloud.com', 'fortimail.com'),
  owner('hornetsecurity', 'hornetsecurity.com', 'antispameurope.com'),
  owner('mailroute', 'mailroute.net'),
  owner('retarus', 'retarus.com'),
  owner('sophos', 'hydra.sophos.com', 'reflexion.net'),
  owner('spamexperts', 'spamexperts.com', 'spamexperts.eu', 'spamexperts.net', 'antispamcloud.com'),
  owner('trend-micro', 'trendmicro.com', 'trendmicro.eu'),
  owner('vade', 'vadesecure.com'),
  // Hosts of the mail of other domains. Machines of customers must not count as the host's own.
  owner('alibaba', 'qiye.aliyun.com', 'mxhichina.com'),
  owner('amazon', ...AWS_REGIONS.map(region => `inbound-smtp.${region}.amazonaws.com`)),
  owner('dreamhost', 'mail.dreamhost.com'),
  owner('forward-email', 'forwardemail.net'),
  owner('gandi', 'mail.gandi.net'),
  owner('godaddy', ...['', 'europe.', 'asia.'].flatMap(region =>
    [`smtp.${region}secureserver.net`, `mailstore1.${region}secureserver.net`])),
  owner('hostinger', 'hostinger.com', 'hostinger.in'),
  owner('improvmx', 'improvmx.com'),
  owner('infomaniak', 'infomaniak.ch'),
  owner('intermedia', 'intermedia.net', 'serverdata.net'),
  owner('mailbox.org', 'mailbox.org'),
  owner('mailchimp', 'mandrillapp.com'),
  owner('mailgun', 'mailgun.org'),
  owner('migadu', 'migadu.com'),
  owner('mxroute', 'mxrouting.net', 'mxlogin.com', 'mxroute.com'),
  owner('namecheap', 'privateemail.com', 'registrar-servers.com'),
  owner('one.com', 'one.com'),
  owner('ovh', 'mail.ovh.net', ...[0, 1, 2, 3, 4].map(number => `mx${number}.ovh.net`)),
  owner('posteo', 'posteo.de'),
  owner('postmark', 'inbound.postmarkapp.com'),
  owner('rackspace', 'emailsrvr.com'),
  owner('sendgrid', 'mx.sendgrid.net'),
  owner('siteground', 'mailspamprotection.com'),
  owner('strato', 'rzone.de'),
  owner('titan', 'titan.email'),
  owner('tuta', 'tutanota.de'),
  // Providers of mailboxes in one country.
  owner('att', '*.prodigy.net'),
  owner('freenet', 'freenet.de'),
  owner('kakao', 'hanmail.net', 'daum.net'),
  owner('laposte', 'laposte.net'),
  owner('libero', 'libero.it'),
  owner('naver', 'naver.com'),
  owner('onet', 'onet.pl'),
  owner('rediff', 'rediffmail.rediff.akadns.net', 'rediffmailpro.com'),
  owner('seznam', 'seznam.cz'),
  owner('sfr', '*.sfr.fr'),
  owner('telstra', '*.bigpond.com'),
  owner('uol', 'uol.com.br'),
  owner('wp', 'wp.pl'),
]

const COUNTRY = '{country}'
const ANY_COUNTRY = /^(?:com|[a-z]{2}|com?\.[a-z]{2})$/

/** Whether a mail domain is one of those of an owner, or of the given ones. */
export function isAnyOf (domain: string, domains: readonly string[]): boolean {
  return domains.some(pattern => {
    if (!pattern.endsWith(COUNTRY)) return pattern === domain
    const name = pattern.slice(0, -COUNTRY.length)
    return domain.startsWith(name) && ANY_COUNTRY.test(domain.slice(name.length))
  })
}

/** Finds owners by the patterns of the table, at the same cost however many there are. */
class OwnerIndex {
  readonly #exact = new Map<string, MailOwner>()
  /** By the first label of patterns for all countries. */
  readonly #anyCountry = new Map<string, MailOwner>()

  constructor (patternsOf: (owner: MailOwner) => readonly string[]) {
    for (const owner of MAIL_OWNERS) {
      for (const pattern of patternsOf(owner)) {
        const [label = '', rest] = pattern.split(/\.(.*)/)
        if (rest === COUNTRY) this.#anyCountry.set(label, owner)
        else this.#exact.set(pattern, owner)
      }
    }
  }

  find (domain: string): MailOwner | undefined {
    const exact = this.#exact.get(domain)
    if (exact !== undefined) return exact
    const dot = domain.indexOf('.')
    const owner = this.#anyCountry.get(domain.slice(0, dot))
    return owner !== undefined && ANY_COUNTRY.test(domain.slice(dot + 1)) ? owner : undefined
  }
}

const byExchange = new OwnerIndex(({ exchanges }) => exchanges)
const byDomain = new OwnerIndex(({ domains }) => domains)

/** The owner of a mail exchange, with or without the dot of the root; undefined if not listed. */
export function ownerOfExchange (exchange: string): MailOwner | undefined {
  let name = exchange.toLowerCase().replace(/\.$/, '')
  const direct = byExchange.find(name.replace(/^[^.]*/, '*'))
  if (direct !== undefined) return direct
  for (;;) {
    const owner = byExchange.find(name)
    const dot = name.indexOf('.')
    if (owner !== undefined || dot < 0) return owner
    name = name.slice(dot + 1)
  }
}

/** The value of `mail_provider` for a mail exchange. */
export function findMailProvider (exchange: string): string {
  const owner = ownerOfExchange(exchange)
  return owner === undefined ? 'other' : owner.provider ?? owner.owner
}

/** Names of hosts; what a name server answers may have any bytes. */
const HOST_NAME = /^[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})+$/
/** Further labels of a domain are not masked; a digit names a label. */
const MAX_LABELS = 9

/** The name of a mail exchange as results show it; undefined for what is no name of a host. */
export function exchangeName (host: string): string | undefined {
  const name = host.toLowerCase().replace(/\.$/, '')
  return name.length <= MAX_DOMAIN_LENGTH && HOST_NAME.test(name) ? name : undefined
}

/**
 * The name of a mail exchange of a domain without the labels of that domain, as it may be stored in
 * clear: `mail.*1.org` for `mail.firm.org` of `firm.org`. `unmaskExchange` restores it.
 */
export function maskExchange (exchange: string, domain: string): string {
  const labels = maskedLabels(domain)
  const words = labels.toSorted((a, b) => b.length - a.length)
  if (words.length === 0) return exchange
  return exchange.replaceAll(new RegExp(words.join('|'), 'g'), label =>
    `*${labels.indexOf(label) + 1}`)
}

/** The name of a mail exchange that was masked for the same domain. */
export function unmaskExchange (masked: string, domain: string): string {
  if (!masked.includes('*')) return masked
  const labels = maskedLabels(domain)
  return masked.replaceAll(/\*(\d)/g, (_, place: string) => labels[Number(place) - 1] ?? '')
}

/** The labels before the top-level domain, from right to left. */
function maskedLabels (domain: string): readonly string[] {
  return domain.split('.').toReversed().slice(1, MAX_LABELS + 1)
}

/**
 * One form for all forms of an address that reach the same mailbox, by the rules of its owner: in
 * lower case, without tag, and for some owners without dots and at one domain. `exchange` is the
 * mail exchange of the domain, blank if it is not known: then only the own domains of owners have
 * rules. A form maps to itself.
 */
export function normalizedMailbox (address: string, exchange = ''): string {
  const lower = address.toLowerCase()
  const at = lower.lastIndexOf('@')
  const local = lower.slice(0, at)
  // A quoted name may contain anything.
  if (local.startsWith('"')) return lower
  const domain = lower.slice(at + 1)
  const serving = exchange === '' ? undefined : ownerOfExchange(exchange)
  // Another server does not follow the rules of the owner of the domain.
  const findOwner = (name: string) => {
    const owner = byDomain.find(name)
    return exchange === '' || owner === serving ? owner : undefined
  }
  const parent = domain.slice(domain.indexOf('.') + 1)
  if (findOwner(parent)?.mailbox?.subdomains === true) {
    return `${domain.slice(0, -parent.length - 1)}@${parent}`
  }
  const owner = findOwner(domain)
  if (owner !== undefined) return atOwnDomain(local, domain, owner)
  const rule = serving?.mailbox
  return rule?.forCustomers === true ? `${withoutTag(local, rule.tag)}@${domain}` : lower
}

function atOwnDomain (local: string, domain: string, { mailbox }: MailOwner): string {
  const hasRule = mailbox !== undefined &&
    (mailbox.only === undefined || isAnyOf(domain, mailbox.only))
  if (!hasRule) return `${local}@${domain}`
  const { tag, ignored = '', oneDomain = domain } = mailbox
  const base = withoutTag(local, tag)
  let counted = base
  for (const sign of ignored) counted = counted.replaceAll(sign, '')
  return `${counted === '' ? base : counted}@${oneDomain}`
}

/** A name that begins with the sign has no tag. */
function withoutTag (local: string, tag: string): string {
  const at = local.indexOf(tag)
  return at > 0 ? local.slice(0, at) : local
}
