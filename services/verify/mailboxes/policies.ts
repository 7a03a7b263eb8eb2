import { isAnyOf, MAIL_OWNERS, type MailOwner, ownerOfExchange } from '../../mail/owners.ts'
import type { MailHost } from '../providers/mail-domains.ts'

/**
 * How a mail server is asked, and what its answers are worth. The exchanges of an owner share its
 * limits, because it counts the sessions of an address at all of them. Limits are for one of our
 * addresses. Owners rarely publish theirs: where they do not, the values are those that senders
 * report to pass, halved.
 */
export type OwnerPolicy = MailOwner & {
  /** Sessions at a time. */
  readonly sessions: number
  readonly sessionsAMinute: number
  /** The rate starts at `first`, grows while all is well, and falls when the owner says so. */
  readonly recipientsAMinute: {
    readonly first: number, readonly least: number, readonly most: number,
  }
  readonly recipientsASession: number
  /**
   * What acceptance means at the owner's own domains, and by `exchanges` at those of customers.
   * `truthful`: unknown names are refused, and clients that try made-up ones may be blocked, so
   * none is tried. `accepts_any`: every name is accepted and bounced later, so only a refusal is an
   * answer. Other domains are tested with a made-up name.
   */
  readonly acceptance?: 'truthful' | 'accepts_any'
  /** Whether customers' domains at the exchanges are answered like its own. */
  readonly sameForCustomers?: true
}

/** Limits that several owners share: their sessions, and recipients of a minute. */
const USUAL = {
  sessions: 2, sessionsAMinute: 20, recipientsAMinute: { first: 60, least: 5, most: 200 },
} as const
/** Gateways of companies. */
const GATEWAY = {
  sessions: 2,
  sessionsAMinute: 30,
  recipientsAMinute: { first: 60, least: 5, most: 240 },
  recipientsASession: 50,
} as const
const CHINESE = {
  sessions: 1,
  sessionsAMinute: 10,
  recipientsAMinute: { first: 20, least: 2, most: 60 },
  recipientsASession: 20,
} as const

/** An owner moves to `truthful` when tests of real and of unknown names have shown that it is. */
const LIMITS_BY_OWNER: Readonly<Record<string, Omit<OwnerPolicy, keyof MailOwner>>> = {
  // 100 recipients a message; 421 4.7.28 for an "unusual rate" of an address without reputation.
  google: {
    sessions: 4,
    sessionsAMinute: 30,
    recipientsAMinute: { first: 200, least: 10, most: 600 },
    recipientsASession: 100,
    acceptance: 'truthful',
  },
  // 500 connections and 10 recipients a message of new senders are reported; 451 4.7.500 beyond.
  'microsoft-consumer': {
    sessions: 3,
    sessionsAMinute: 20,
    recipientsAMinute: { first: 100, least: 5, most: 300 },
    recipientsASession: 30,
    acceptance: 'truthful',
  },
  // Exchange Online Protection: 451 4.7.500 "server busy" for a rate that it does not expect.
  'microsoft-365': {
    sessions: 4,
    sessionsAMinute: 60,
    recipientsAMinute: { first: 150, least: 10, most: 500 },
    recipientsASession: 50,
  },
  // Documented: 20 messages a session; 421 4.7.0 [TSS04] for an address that it mistrusts.
  yahoo: {
    ...USUAL,
    sessions: 3,
    recipientsASession: 20,
    acceptance: 'accepts_any',
    sameForCustomers: true,
  },
  apple: { ...USUAL, recipientsASession: 20 },
  // GMX, WEB.DE and mail.com answer 421 to more than a few sessions of an address.
  'united-internet': { ...GATEWAY, sessionsAMinute: 20 },
  // Wants a sender whose domain has a web page with a contact, else 554.
  't-online': {
    sessions: 2,
    sessionsAMinute: 10,
    recipientsAMinute: { first: 30, least: 5, most: 100 },
    recipientsASession: 20,
  },
  'mail.ru': { ...USUAL, recipientsASession: 30, acceptance: 'accepts_any' },
  yandex: { ...USUAL, recipientsASession: 35 },
  zoho: { ...USUAL, recipientsASession: 50 },
  // Slows down addresses that it does not know (452, 421).
  proofpoint: GATEWAY,
  // Greylists addresses that it does not know, and accepts any name of many customers.
  mimecast: GATEWAY,
  barracuda: GATEWAY,
  cisco: GATEWAY,
  messagelabs: GATEWAY,
  // Documented: limits by address and minute that they do not name; 550 "frequency limited".
  tencent: CHINESE,
  netease: CHINESE,
  // Documented: 25 sessions at a time; fewer for addresses without reputation (421 PH01).
  comcast: { ...USUAL, recipientsASession: 30 },
  // Documented: 3 sessions at a time, 421 "too many connections" beyond (OFR004_104).
  orange: {
    sessions: 2,
    sessionsAMinute: 20,
    recipientsAMinute: { first: 30, least: 5, most: 100 },
    recipientsASession: 20,
  },
  'free.fr': {
    sessions: 1,
    sessionsAMinute: 10,
    recipientsAMinute: { first: 30, least: 5, most: 100 },
    recipientsASession: 20,
  },
}

const POLICIES: ReadonlyMap<string, OwnerPolicy> = new Map(MAIL_OWNERS.flatMap(owner => {
  const limits = LIMITS_BY_OWNER[owner.owner]
  return limits === undefined ? [] : [[owner.owner, { ...owner, ...limits }] as const]
}))

export type PolicyLimits = {
  /** Of owners that have no policy of their own. */
  readonly sessions: number
  readonly sessionsAMinute: number
  /** The share of all rates that is used: less while addresses are new to their owners. */
  readonly ratePercent: number
}

/** What most servers take from an address that they do not know. */
const RECIPIENTS_A_MINUTE = { first: 120, least: 6, most: 300 }
const RECIPIENTS_A_SESSION = 50

/**
 * The policy of the owner that serves a mail domain by the given exchange. An owner that is not
 * listed has `limits` and is named by the domain of the exchange.
 */
function findPolicy (
  domain: string, exchange: string, limits: PolicyLimits
): OwnerPolicy {
  const policy = listedPolicy(domain, exchange) ?? {
    owner: findOwner(exchange.toLowerCase()),
    // None: each of its servers counts our sessions, see `listPlaces`.
    exchanges: [],
    domains: [],
    sessions: limits.sessions,
    sessionsAMinute: limits.sessionsAMinute,
    recipientsAMinute: RECIPIENTS_A_MINUTE,
    recipientsASession: RECIPIENTS_A_SESSION,
  }
  const share = limits.ratePercent / 100
  const { sessionsAMinute, recipientsAMinute: { first, least, most } } = policy
  return {
    ...policy,
    sessionsAMinute: sessionsAMinute * share,
    recipientsAMinute: { first: first * share, least: least * share, most: most * share },
  }
}

function listedPolicy (domain: string, exchange: string): OwnerPolicy | undefined {
  const policy = POLICIES.get(ownerOfExchange(exchange)?.owner ?? '')
  if (policy === undefined) return undefined
  // Its own domain at another exchange would let any server speak for the owner.
  const isOwn = isAnyOf(domain, policy.domains)
  const { acceptance: _, ...withoutAcceptance } = policy
  return isOwn || policy.sameForCustomers === true ? policy : withoutAcceptance
}

/** Further addresses of an exchange are not tried. */
const MAX_ADDRESSES = 4

/** A mail server: an exchange of an owner that is listed, or an address of another exchange. */
export type MailServer = MailHost & {
  /** What rests while it cannot be reached: the exchange or the address. */
  readonly id: string
}

/** Where a mailbox may be asked for, and who counts our sessions there. */
export type Place = {
  readonly host: MailServer
  readonly policy: OwnerPolicy
  /** The owner if it is listed, else the address. */
  readonly party: string
}

/**
 * The places of an exchange, in the order of its addresses. Anybody may give any name to any
 * address: to a machine at a hosting company, whose replies must not slow down the company's own
 * mail servers, or to the mail server of somebody else, whose limits must hold for all its names.
 */
export function listPlaces (
  domain: string, { name, addresses: all }: MailHost, limits: PolicyLimits
): readonly Place[] {
  const policy = findPolicy(domain, name, limits)
  const addresses = all.slice(0, MAX_ADDRESSES)
  return policy.exchanges.length > 0
    ? [{ host: { name, id: name, addresses }, policy, party: policy.owner }]
    : addresses.map(address =>
      ({ host: { name, id: address, addresses: [address] }, policy, party: address }))
}

/** Whether a mail domain is of the owner of its exchange, and not of one of his customers. */
export function isOwnDomain (domain: string, exchange: string, policy: OwnerPolicy): boolean {
  return isAnyOf(domain, policy.domains) ||
    findOwner(domain) === findOwner(exchange)
}

/** The owners without a policy, as metrics name them. */
export const OTHER_OWNERS = 'other'

/** The owner as metrics name it, which have a bounded number of names. */
export function ownerLabel (owner: string): string {
  return POLICIES.has(owner) ? owner : OTHER_OWNERS
}

/**
 * The probable owner of a mail server: the last two labels of its name, or three if the second last
 * is as short as in `co.uk`. Different owners that count as one only share a limit.
 */
function findOwner (host: string): string {
  const labels = host.replace(/\.$/, '').split('.')
  const [country = '', second = ''] = labels.toReversed()
  return labels.slice(country.length === 2 && second.length <= 3 ? -3 : -2).join('.')
}
