import type { CheckOptions, Provider, ProviderAnswer, ProviderRow } from '../provider.ts'
import { builtInLists, type CurrentLists, type EmailLists } from './email-lists.ts'
import { domainOf, isReserved, emailVerdictOf, type EmailEvidence } from './email-verdict.ts'
import type { MailDomain, MailDomains } from './mail-domains.ts'
import type { Probe } from './smtp/probe.ts'

/** Time that is reserved for the answer at the end of a call. */
const RESERVE_MS = 250

/** More concurrent calls would wait for the same DNS queries until their deadlines. */
const MAX_DNS_CALLS = 4

type EmailDomainOptions = {
  readonly domains?: MailDomains | undefined
  /** Those of the release if left out. */
  readonly lists?: CurrentLists
}

/**
 * Checks mail addresses by lists and, with `domains`, by DNS. `catch_all` stays blank, without DNS
 * `mx_found` too. A domain without an answer of DNS before the deadline has the kind `fault`; a
 * late answer is cached for the next check. `suggestion` has only the probable domain, which
 * `derive` completes to an address.
 */
export function createEmailDomainProvider (
  { domains, lists = () => builtInLists }: EmailDomainOptions = {}
): Provider {
  return {
    id: 2,
    services: ['email-validation'],
    ...(domains === undefined ? {} : { limits: { concurrency: MAX_DNS_CALLS } }),
    check: async (rows, options) => {
      const version = lists()
      const found = domains === undefined ? NONE : await findAll(domains, rows, options)
      return rows.map(({ row, canonical }) => {
        const domain = domainOf(canonical)
        const mail = unlessAllowed(found.get(domain), domain, version)
        return { row, verdict: emailVerdictOf(canonical, { mail }, version) }
      })
    },
  }
}

/** An allowed domain may have its mail at the servers of a disposable one. */
function unlessAllowed<M extends MailDomain | undefined> (
  mail: M, domain: string, lists: EmailLists
): M | 'accepts' {
  return mail === 'disposable' && lists.lookUp(domain).allowed ? 'accepts' : mail
}

const NONE: ReadonlyMap<string, MailDomain> = new Map()

/** Queries each domain once. Reserved domains must not appear in queries. */
async function findAll (
  domains: MailDomains, rows: readonly ProviderRow[], { deadlineMs, signal }: CheckOptions
): Promise<ReadonlyMap<string, MailDomain>> {
  const found = new Map<string, MailDomain>()
  const queries: Promise<void>[] = []
  for (const domain of new Set(rows.map(({ canonical }) => domainOf(canonical)))) {
    if (isReserved(domain)) continue
    const known = domains.known(domain)
    found.set(domain, known ?? 'fault')
    if (known !== undefined) continue
    queries.push(domains.find(domain).then((mail) => { found.set(domain, mail) }))
  }
  if (queries.length > 0) await untilDeadline(Promise.all(queries), { deadlineMs, signal })
  // A late answer must not change the map that the caller reads.
  return new Map(found)
}

async function untilDeadline (
  work: Promise<unknown>, { deadlineMs, signal }: Pick<CheckOptions, 'deadlineMs' | 'signal'>
): Promise<void> {
  const over = Promise.withResolvers<void>()
  const timer = setTimeout(over.resolve, Math.max(0, deadlineMs - RESERVE_MS - Date.now()))
  const stop = () => over.resolve()
  signal.addEventListener('abort', stop, { once: true })
  try {
    await Promise.race([work, over.promise])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
  }
}

type SmtpProbeOptions = {
  readonly domains: MailDomains
  readonly probe: Probe
  /** Those of the release if left out. */
  readonly lists?: CurrentLists
  /** Timeout of a call; that of all providers if left out. */
  readonly callTimeoutMs?: number
  /** The first check of a batch does not wait longer for slow servers; no limit if left out. */
  readonly firstTimeoutMs?: number
}

/** Calls wait for mail servers, whose number the limits of sessions bound. */
const MAX_SMTP_CALLS = 256

type Deadline = { readonly signal: AbortSignal, readonly endsAtMs: number }

/**
 * Checks like `email-domain`, then probes the mailbox at the domain's mail servers, except for
 * reserved, disposable and dead domains, whose verdict cannot change. A row is retried that is
 * greylisted, whose server did not answer, or that did not start or end before the deadline: a slow
 * server does not delay the other rows of the first check, and is waited for in the next one.
 */
export function createSmtpProbeProvider (
  {
    domains, probe, lists = () => builtInLists, callTimeoutMs, firstTimeoutMs = Infinity,
  }: SmtpProbeOptions
): Provider {
  const limits = {
    concurrency: MAX_SMTP_CALLS,
    ...(callTimeoutMs === undefined
      ? {}
      : { timeoutMs: callTimeoutMs, attemptTimeoutMs: callTimeoutMs }),
  }
  return {
    id: 4,
    services: ['email-validation'],
    limits,
    check: async (rows, { signal, deadlineMs, isFirst = false }) => {
      const firstMs = isFirst ? Date.now() + firstTimeoutMs : Infinity
      const endsAtMs = Math.min(deadlineMs, firstMs) - RESERVE_MS
      const timer = AbortSignal.timeout(Math.max(0, endsAtMs - Date.now()))
      const deadline = { signal: AbortSignal.any([signal, timer]), endsAtMs }
      const search = { domains, probe, lists: lists(), ...deadline }
      return await Promise.all(rows.map(async (row) =>
        answerOf(row, await findOut(row.canonical, search), search.lists)))
    },
  }
}

type Search = Pick<SmtpProbeOptions, 'domains' | 'probe'> & Deadline &
  { readonly lists: EmailLists }

async function findOut (
  address: string, { domains, probe, lists, signal, endsAtMs }: Search
): Promise<EmailEvidence> {
  const domain = domainOf(address)
  if (isReserved(domain)) return {}
  const found = domains.known(domain) ?? await unlessLate(domains.find(domain), signal) ?? 'fault'
  const mail = unlessAllowed(found, domain, lists)
  const { disposable } = lists.lookUp(domain)
  if (disposable || (mail !== 'accepts' && mail !== 'implicit')) return { mail }
  const hosts = await unlessLate(domains.hosts(domain), signal)
  if (hosts === undefined) return { mail, probed: { mailbox: 'late', retry: true } }
  return { mail, probed: await probe(address, { hosts, signal, endsAtMs }) }
}

function answerOf (
  { row, canonical }: ProviderRow, found: EmailEvidence, lists: EmailLists
): ProviderAnswer {
  const verdict = emailVerdictOf(canonical, found, lists)
  return { row, verdict, ...(found.probed?.retry === true ? { retry: true } : {}) }
}

/** Undefined after an abort; the DNS query continues, and its answer is cached. */
async function unlessLate<T> (work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  if (signal.aborted) return undefined
  const late = Promise.withResolvers<undefined>()
  const stop = () => late.resolve(undefined)
  signal.addEventListener('abort', stop, { once: true })
  try {
    return await Promise.race([work, late.promise])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
