import type {
  ProviderRequest, Provider, ProviderAnswer, ProviderRow, ProviderVerdict,
} from '../provider.ts'
import type { CurrentLists, EmailLists } from './email-lists.ts'
import { literalAddress, type MailDomain, type MailDomains } from './mail-domains.ts'
import type { MailHosts } from '../mailboxes/hosts.ts'
import type { Probed } from '../mailboxes/conversation.ts'
import type { Mailbox } from '../mailboxes/replies.ts'
import type { CheckOutcome } from '../../../schemas/api/services.ts'
import { type Claim, rateConfidence, type MadeChecks, packChecks } from '../../cache/evidence.ts'
import type { Reason, RowStatus } from '../../../schemas/api/verdicts.ts'
import { readDomain } from '../../mail/owners.ts'
import { isPublicAddress } from '../../runtime/platform/networks.ts'
import { unlessAborted, withTimeout } from '../../runtime/platform/retry.ts'
import { suggestDomain } from './domain-typos.ts'

/** Time that is reserved for the answer at the end of a call. */
const RESERVE_MS = 250

/** More concurrent calls would wait for the same DNS queries until their deadlines. */
const MAX_DNS_CALLS = 4

type EmailDomainOptions = {
  readonly domains: MailDomains | undefined
  readonly lists: CurrentLists
}

/**
 * Checks mail addresses by lists and, with `domains`, by DNS. `catch_all` stays blank, without DNS
 * `mx_found` and all about the domain too. A domain without an answer of DNS before the deadline
 * has the kind `fault`; a late answer is cached for the next check. `suggestion` has only the
 * probable domain, which `derive` completes to an address.
 */
export function createEmailDomainProvider ({ domains, lists }: EmailDomainOptions): Provider {
  return {
    id: 2,
    services: ['email-validation'],
    ...(domains === undefined ? {} : { limits: { concurrency: MAX_DNS_CALLS } }),
    check: async (rows, request) => {
      const version = lists()
      const domainsByName = domains && await findAll(domains, rows, request)
      return rows.map(({ row, canonical }) => {
        const domain = readDomain(canonical)
        const answer = domainsByName?.get(domain)
        const mail = answer && unlessAllowed(answer, domain, version)
        const facts = mail === undefined ? undefined : domains?.facts(domain)
        return { row, verdict: createVerdict(canonical, { mail, facts }, version) }
      })
    },
  }
}

/** An allowed domain may have its mail at the servers of a disposable one. */
function unlessAllowed (mail: MailDomain, domain: string, lists: EmailLists): MailDomain {
  return mail === 'disposable' && lists.lookUp(domain).allowed ? 'accepts' : mail
}

/** Queries each domain once. Reserved domains must not appear in queries. */
async function findAll (
  domains: MailDomains,
  rows: readonly ProviderRow[],
  { deadlineMs, signal, tenant = '' }: ProviderRequest
): Promise<ReadonlyMap<string, MailDomain>> {
  const domainsByName = new Map<string, MailDomain>()
  const queries: Promise<void>[] = []
  const names = [...new Set(rows.map(({ canonical }) => readDomain(canonical)))]
    .filter(domain => !isReserved(domain))
  const policies = domains.findPolicies(names, tenant)
  for (const domain of names) {
    const kind = domains.known(domain)
    domainsByName.set(domain, kind ?? 'fault')
    if (kind !== undefined) continue
    queries.push(domains.find(domain, tenant).then((mail) => { domainsByName.set(domain, mail) }))
  }
  const work = Promise.all([...queries, policies])
  await unlessAborted(withTimeout(work, deadlineMs - RESERVE_MS - Date.now()), signal)
  // A late answer must not change the map that the caller reads.
  return new Map(domainsByName)
}

type SmtpProbeOptions = {
  readonly domains: MailDomains
  readonly hosts: Pick<MailHosts, 'ask'>
  readonly lists: CurrentLists
  /** How long the first check of a batch waits for mail servers, and how long later ones do. */
  readonly firstTimeoutMs: number
  readonly laterTimeoutMs: number
}

/** Resolvers may fail for a while; a domain whose name servers are broken stays broken. */
const DNS_TRIES = 3
const DNS_RETRY_MS = 60_000
/** Calls wait for mail servers, whose number the limits of sessions bound. */
const MAX_SMTP_CALLS = 256

/**
 * Checks like `email-domain`, then asks the domain's mail servers for the mailbox, except for
 * reserved, disposable and dead domains, whose verdict cannot change. A row is retried that has no
 * answer yet: a slow server does not delay the other rows of its batch.
 */
export function createSmtpProbeProvider (
  { domains, hosts, lists, firstTimeoutMs, laterTimeoutMs }: SmtpProbeOptions
): Provider {
  const timeoutMs = Math.max(firstTimeoutMs, laterTimeoutMs) + 4 * RESERVE_MS
  return {
    id: 4,
    services: ['email-validation'],
    limits: { concurrency: MAX_SMTP_CALLS, timeoutMs, attemptTimeoutMs: timeoutMs },
    check: async (rows, { signal, deadlineMs, isFirst = false, tenant = '' }) => {
      const windowMs = isFirst ? firstTimeoutMs : laterTimeoutMs
      const endsInMs = Math.min(deadlineMs - RESERVE_MS - Date.now(), windowMs)
      const within = AbortSignal.any([signal, AbortSignal.timeout(Math.max(0, endsInMs))])
      const search = { domains, hosts, lists: lists(), signal: within, tenant }
      return await Promise.all(rows.map(async ({ row, canonical, tries = 0 }) => {
        const evidence = await findEvidence(canonical, search)
        const verdict = createVerdict(canonical, evidence, search.lists)
        const retry = verdict.reason === 'dns_error'
          ? tries < DNS_TRIES && { afterMs: DNS_RETRY_MS }
          : evidence.probed && decideRetry(evidence.probed, tries)
        return { row, verdict, ...(retry && { retry }) }
      }))
    },
  }
}

/** Minutes until a mailbox is asked again, by the number of questions before. */
const RETRY_MINUTES = [5, 15, 30, 60, 120]
const JITTER = 0.2
/** How often a server is believed that says when to ask again. */
const TRUSTED_WORDS = 5
/**
 * How often a row is asked again that has this answer. What servers promise to answer later is
 * asked for until the deadline.
 */
const MAX_TRIES: Readonly<Partial<Record<Mailbox, number>>> = {
  blocked: 4, unreachable: 2, no_answer: 2, accepted: 3, unclear: 0,
}

/** When a row is asked again: as its server says, or by RETRY_MINUTES; a row in a queue at once. */
function decideRetry ({ mailbox, retry }: Probed, tries: number): ProviderAnswer['retry'] {
  if (retry === undefined || tries >= (MAX_TRIES[mailbox] ?? Infinity)) return undefined
  if (mailbox === 'late') return retry === true ? { afterMs: 0 } : retry
  if (retry !== true && retry.isForTurn) return retry
  const steps = retry === true ? tries : tries - TRUSTED_WORDS
  const minutes = steps < 0 ? 0 : RETRY_MINUTES[Math.min(steps, RETRY_MINUTES.length - 1)] ?? 0
  const afterMs = Math.round(minutes * 60_000 * (1 + JITTER * (2 * Math.random() - 1)))
  return { afterMs: Math.max(afterMs, retry === true ? 0 : retry.afterMs) }
}

type Search = Pick<SmtpProbeOptions, 'domains' | 'hosts'> & {
  readonly lists: EmailLists
  readonly signal: AbortSignal
  readonly tenant: string
}

async function findEvidence (
  address: string, { domains, hosts: mailHosts, lists, signal, tenant }: Search
): Promise<EmailEvidence> {
  const domain = readDomain(address)
  if (isReserved(domain)) return {}
  const policies = domains.findPolicies([domain], tenant)
  // After an abort the DNS query continues, and its answer is cached.
  const answer =
    domains.known(domain) ?? await unlessAborted(domains.find(domain, tenant), signal) ?? 'fault'
  const mail = unlessAllowed(answer, domain, lists)
  let probed: Probed | undefined
  if (!lists.lookUp(domain).disposable && (mail === 'accepts' || mail === 'implicit')) {
    const hosts = await unlessAborted(domains.hosts(domain, tenant), signal)
    probed = hosts === undefined
      ? { mailbox: 'late', retry: true }
      : await mailHosts.ask(address, { hosts, signal, tenant })
  }
  await unlessAborted(policies, signal)
  return { mail, probed, facts: domains.facts(domain) }
}

type Outcome = {
  readonly status: RowStatus
  readonly reason: Reason
  /** What its confidence depends on, if that is not the reason. */
  readonly claim?: Claim
}

/**
 * Every outcome. A domain that accepts mail says nothing about a single mailbox: unless its servers
 * are probed, the address stays `unknown`, which is free.
 */
const OUTCOMES = {
  reserved: { status: 'invalid', reason: 'reserved_domain' },
  missing: { status: 'invalid', reason: 'domain_not_found' },
  refuses: { status: 'invalid', reason: 'no_mail_service' },
  no_mailbox: { status: 'invalid', reason: 'mailbox_not_found' },
  no_mailbox_by_words: {
    status: 'invalid', reason: 'mailbox_not_found', claim: 'mailbox_not_found_by_words',
  },
  refuses_by_words: {
    status: 'invalid', reason: 'no_mail_service', claim: 'no_mail_service_by_words',
  },
  disposable: { status: 'risky', reason: 'disposable_domain' },
  full: { status: 'risky', reason: 'mailbox_full' },
  full_by_words: { status: 'risky', reason: 'mailbox_full', claim: 'mailbox_full_by_words' },
  role: { status: 'risky', reason: 'role_address' },
  typo: { status: 'risky', reason: 'possible_typo' },
  catch_all: { status: 'risky', reason: 'catch_all' },
  deliverable: { status: 'valid', reason: 'deliverable' },
  trusted: { status: 'valid', reason: 'deliverable', claim: 'accepted_by_host' },
  implicit: { status: 'risky', reason: 'no_mx_record' },
  untruthful: { status: 'unknown', reason: 'not_answered_truthfully' },
  greylisted: { status: 'unknown', reason: 'greylisted' },
  blocked: { status: 'unknown', reason: 'blocked' },
  unreachable: { status: 'unknown', reason: 'mail_server_unreachable' },
  no_answer: { status: 'unknown', reason: 'no_answer' },
  unclear: { status: 'unknown', reason: 'unclear_answer' },
  late: { status: 'unknown', reason: 'timeout' },
  accepts: { status: 'unknown', reason: 'domain_accepts_mail' },
  fault: { status: 'unknown', reason: 'dns_error' },
  unchecked: { status: 'unknown', reason: 'domain_not_checked' },
} as const satisfies Record<string, Outcome>

/** Column and check of each result of DNS; a fault leaves the column blank. */
const BY_DOMAIN: Readonly<Record<MailDomain, {
  readonly mxFound?: 'true' | 'false', readonly check: CheckOutcome,
}>> = {
  accepts: { mxFound: 'true', check: 'passed' },
  disposable: { mxFound: 'true', check: 'passed' },
  implicit: { mxFound: 'false', check: 'caution' },
  refuses: { mxFound: 'false', check: 'failed' },
  missing: { mxFound: 'false', check: 'failed' },
  fault: { check: 'inconclusive' },
}

/** What is known beyond the address itself. */
type EmailEvidence = {
  /** The result of DNS, if it was queried. */
  readonly mail?: MailDomain | undefined
  /** The result of the SMTP probe, if there was one. */
  readonly probed?: Probed | undefined
  /** What else is known of the domain. */
  readonly facts?: ReturnType<MailDomains['facts']> | undefined
}

/** The verdict for one canonical address. */
function createVerdict (
  address: string, checked: EmailEvidence, lists: EmailLists
): ProviderVerdict {
  const local = address.slice(0, address.lastIndexOf('@'))
  const domain = readDomain(address)
  const listing = lists.lookUp(domain)
  const flags = {
    disposable: checked.mail === 'disposable' || listing.disposable,
    role: lists.isRole(local, domain),
    free: listing.free,
  }
  const suggestion = hasRealMailboxes(checked.probed) ? undefined : suggestDomain(domain)
  const mxFound = checked.mail && BY_DOMAIN[checked.mail].mxFound
  const catchAll = checked.probed?.catchAll
  const { exchange = '', spf, dmarc } = checked.facts ?? {}
  const signals = { ...flags, reserved: isReserved(domain), typo: suggestion !== undefined }
  const { status, reason, claim = reason } = decideOutcome(signals, checked)
  const evidence = packChecks(listChecks(signals, checked))
  return {
    status,
    reason,
    confidence: status === 'unknown' ? 0 : rateConfidence(claim, evidence),
    evidence,
    fields: {
      disposable: String(flags.disposable),
      role: String(flags.role),
      free: String(flags.free),
      ...(catchAll === undefined ? {} : { catch_all: String(catchAll) }),
      ...(mxFound === undefined ? {} : { mx_found: mxFound }),
      ...(suggestion === undefined ? {} : { suggestion }),
      // It stays masked, as it is cached: `toRowOutcome` restores it.
      ...(exchange === '' ? {} : { mx_record: exchange }),
      ...(spf === undefined ? {} : { spf }),
      ...(dmarc === undefined ? {} : { dmarc }),
    },
  }
}

/** The domain is in use: one registered for its typos accepts every name, or none. */
const hasRealMailboxes = (probed: Probed | undefined): boolean =>
  probed?.mailbox === 'accepted' && probed.catchAll === false

type Signals = Readonly<Record<'reserved' | 'disposable' | 'role' | 'free' | 'typo', boolean>>

function listChecks (signals: Signals, { mail, probed }: EmailEvidence): MadeChecks {
  const isRisky = signals.disposable || signals.role || signals.typo
  const { catchAll } = probed ?? {}
  return {
    lists: signals.reserved ? 'failed' : isRisky ? 'caution' : 'passed',
    ...(mail === undefined ? {} : { domain: BY_DOMAIN[mail].check }),
    ...(probed === undefined
      ? {}
      : {
          mailbox: (isUntruthful(signals, probed) ? undefined : MAILBOX_CHECK[probed.mailbox]) ??
            'inconclusive',
        }),
    ...(catchAll === undefined ? {} : { catch_all: catchAll ? 'caution' : 'passed' }),
  }
}

/** The other answers are inconclusive. */
const MAILBOX_CHECK: Readonly<Partial<Record<Mailbox, CheckOutcome>>> = {
  accepted: 'passed', no_mailbox: 'failed', no_mail: 'failed', full: 'caution',
}

/**
 * Reasons for undeliverable mail come first, then risks. Without an answer of DNS only a reserved
 * or disposable domain is a verdict: a list of names says nothing about the address itself.
 */
function decideOutcome (signals: Signals, { mail, probed }: EmailEvidence): Outcome {
  const mailbox = probed &&
    (isUntruthful(signals, probed) ? OUTCOMES.untruthful : mailboxOutcome(probed))
  if (signals.reserved) return OUTCOMES.reserved
  if (mail === 'missing' || mail === 'refuses') return OUTCOMES[mail]
  if (mailbox?.status === 'invalid') return mailbox
  // A typo that somebody registered to receive the mail of others is a typo first.
  if (signals.disposable) return signals.typo ? OUTCOMES.typo : OUTCOMES.disposable
  if (mail === undefined || mail === 'fault') return OUTCOMES[mail ?? 'unchecked']
  if (mailbox?.reason === 'mailbox_full') return mailbox
  if (signals.role) return OUTCOMES.role
  if (signals.typo) return OUTCOMES.typo
  if (mailbox !== undefined && (mailbox.status !== 'unknown' || mail !== 'implicit')) return mailbox
  return OUTCOMES[mail]
}

/**
 * A free mail service has no catch-all mailbox: where it accepts a made-up name, it accepts names
 * that do not exist, as known hosts do.
 */
function isUntruthful ({ free }: Signals, probed: Probed): boolean {
  if (probed.mailbox !== 'accepted') return false
  return probed.acceptance === 'accepts_any' || (free && probed.catchAll === true)
}

/** The outcome of an answer about a mailbox; `accepted` depends on what else is known. */
function mailboxOutcome ({ mailbox, acceptance, catchAll, byWords }: Probed): Outcome {
  if (mailbox === 'accepted') {
    if (acceptance === 'truthful') return OUTCOMES.trusted
    return catchAll === true ? OUTCOMES.catch_all : OUTCOMES.deliverable
  }
  if (mailbox === 'no_mailbox') return byWords ? OUTCOMES.no_mailbox_by_words : OUTCOMES.no_mailbox
  if (mailbox === 'no_mail') return byWords ? OUTCOMES.refuses_by_words : OUTCOMES.refuses
  if (mailbox === 'full') return byWords ? OUTCOMES.full_by_words : OUTCOMES.full
  return OUTCOMES[mailbox]
}

/** Last labels without mail: RFC 2606, 3172, 6761, 6762, 7686, 9476 and ICANN's `internal`. */
const RESERVED_LAST_LABELS: ReadonlySet<string> = new Set([
  'test', 'example', 'invalid', 'localhost', 'local', 'onion', 'alt', 'internal', 'arpa',
])
const DOCUMENTATION_DOMAIN = /(?:^|\.)example\.(?:com|net|org)$/

/**
 * Whether a canonical (lower-case ASCII) domain never receives mail: a reserved name, or a literal
 * of an address that is not public.
 */
export function isReserved (domain: string): boolean {
  const literal = literalAddress(domain)
  if (literal !== undefined) return !isPublicAddress(literal)
  const lastDot = domain.lastIndexOf('.')
  if (lastDot < 0) return true
  return RESERVED_LAST_LABELS.has(domain.slice(lastDot + 1)) || DOCUMENTATION_DOMAIN.test(domain)
}
