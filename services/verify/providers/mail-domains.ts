import { isIP } from 'node:net'
import { hash } from 'node:crypto'
import { exchangeName, maskExchange } from '../../mail/owners.ts'
import { boundedCache, FairSlots } from '../../runtime/platform/limits.ts'
import { isPublicAddress } from '../../runtime/platform/networks.ts'
import type { RedisClient } from '../../runtime/platform/redis.ts'
import { createResolver, type ResolverOptions } from '../mailboxes/dns-records.ts'
import type { CurrentLists, EmailLists } from './email-lists.ts'
import { type DomainStore, SenderPolicies, type SenderPolicy } from './sender-policies.ts'

/**
 * The mail service of a domain, by DNS. `accepts`: it has a mail exchange with an address.
 * `disposable`: that exchange belongs to a service of disposable addresses, which register new
 * domains faster than lists follow. `implicit`: it has none, but an address of its own (RFC 5321,
 * 5.1). `refuses`: it declares that it accepts no mail (RFC 7505), or none of its mail exchanges
 * has a reachable address. `missing`: the domain does not exist. `fault`: DNS gave no answer.
 */
export type MailDomain =
  'accepts' | 'disposable' | 'implicit' | 'refuses' | 'missing' | 'fault'

/** A mail exchange, with its reachable addresses. */
export type MailHost = { readonly name: string, readonly addresses: readonly string[] }

export type MailDomains = {
  /** Whether the resolvers answer for the DNS. If not, the result of every domain is a fault. */
  readonly isAvailable: () => Promise<boolean>
  /** The cached result, without a query. */
  readonly known: (domain: string) => MailDomain | undefined
  /** Queries DNS unless the result is cached; calls of a tenant share queries. Never rejects. */
  readonly find: (domain: string, tenant: string) => Promise<MailDomain>
  /** The mail exchanges with a reachable address, the preferred one first. */
  readonly hosts: (domain: string, tenant: string) => Promise<readonly MailHost[]>
  /** Asks for what domains publish about their senders; resolves soon, whatever DNS does. */
  readonly findPolicies: (domains: readonly string[], tenant: string) => Promise<void>
  /** What is cached of a domain beside its result, without a query. */
  readonly facts: (domain: string) => DomainFacts
}

/** Facts about a domain that no verdict rests on. */
type DomainFacts = SenderPolicy & {
  /** The preferred mail exchange, as `maskExchange` masks it. */
  readonly exchange?: string | undefined
}

/** The result of a domain, its masked exchange, and the milliseconds for which they are used. */
type DomainResult = {
  readonly kind: MailDomain
  readonly exchange?: string | undefined
  readonly ttlMs: number
}

export type MailDomainOptions = {
  /** Time to live of cached domains that accept mail, and of those that do not. */
  readonly keepMs: number
  readonly keepNegativeMs: number
  readonly maxDomains: number
  /** Results of all processes; without it, results are cached in this one only. */
  readonly shared?: DomainStore
  /** The same for policies of domains. */
  readonly sharedPolicies?: DomainStore
  /** The lists that judge mail exchanges. */
  readonly lists: CurrentLists
  /** Which addresses count as reachable; public ones if left out. */
  readonly isReachable?: (address: string) => boolean
  /** Milliseconds of a monotonic clock; replaced by tests. */
  readonly now?: () => number
}

/** Further mail exchanges of a domain are ignored; hardly any domain has more. */
const MAX_EXCHANGES = 20
/** Further addresses of a host are ignored: an answer may have thousands, and they are cached. */
const MAX_ADDRESSES = 16

type Found = { readonly kind: MailDomain, readonly names: readonly string[] }

/**
 * Mail domains by DNS, with a cache. Faults are not cached. A resolver that is cut off from the DNS
 * may deny that any domain exists, so results count only while the resolvers know the root zone,
 * and a denial only if they still know it afterwards.
 */
export function createMailDomains (dns: DnsQueries, options: MailDomainOptions): MailDomains {
  const domains = createCache<DomainResult>(options)
  const exchanges = createCache<Found>(options)
  const hosts = createCache<DnsAnswer<string>>(options)
  const roots = createCache<DnsAnswer<string>>(options)
  const isAvailable = async () => (await roots.get('.', OURS, dns.root)).kind === 'found'
  const { isReachable = isPublicAddress, shared, lists } = options
  const findReachable = (tenant: string) => (host: string) => hosts.get(host, tenant, () =>
    reachableAddresses(host, isReachable, family => dns.addresses(host, family, tenant)))
  const search = async (domain: string, tenant: string): Promise<Found> => {
    const literal = literalAddress(domain)
    const answer = literal === undefined ? await dns.mailExchanges(domain, tenant) : NO_RECORDS
    const findAddresses = findReachable(tenant)
    if (answer.kind === 'found') return await byExchanges(answer.records, findAddresses, lists())
    if (answer.kind === 'none') {
      const host = literal ?? domain
      return { kind: IMPLICIT[(await findAddresses(host)).kind], names: [host] }
    }
    return { kind: answer.kind === 'no_domain' ? 'missing' : 'fault', names: [] }
  }
  const ask = async (domain: string, tenant: string): Promise<Found> => {
    if (!await isAvailable()) return NO_ANSWER
    const result = await search(domain, tenant)
    if (!DENIALS.includes(result.kind)) return result
    // The resolvers may have lost the DNS since they were last asked for the root zone.
    return (await dns.root()).kind === 'found' ? result : NO_ANSWER
  }
  const findExchanges = (domain: string, tenant: string) =>
    exchanges.get(domain, tenant, () => ask(domain, tenant))
  const find = (domain: string, tenant: string) => domains.get(domain, tenant, async () => {
    const stored = await shared?.read(domain)
    const earlier = stored && parseResult(stored)
    if (earlier !== undefined) return earlier
    const { kind, names: [first] } = await findExchanges(domain, tenant)
    const exchange = hasExchange(kind) ? maskedExchange(first, domain) : ''
    const ttlMs = chooseTtl(kind, options)
    if (ttlMs > 0) await shared?.write(domain, formatResult(kind, exchange), ttlMs)
    return { kind, ttlMs, exchange }
  })
  const policies = new SenderPolicies(dns.texts, {
    ...options, isAvailable, shared: options.sharedPolicies,
  })
  return {
    isAvailable,
    known: (domain) => domains.peek(domain)?.kind,
    find: async (domain, tenant) => (await find(domain, tenant)).kind,
    hosts: async (domain, tenant) => {
      const { names } = await findExchanges(domain, tenant)
      const answers = await Promise.all(names.map(findReachable(tenant)))
      return answers.flatMap((answer, index) => answer.kind === 'found'
        ? [{ name: names[index] ?? '', addresses: answer.records }]
        : [])
    },
    findPolicies: async (names, tenant) => {
      await policies.find(names.filter((name) => literalAddress(name) === undefined), tenant)
    },
    facts: (domain) => {
      const { kind, exchange } = domains.peek(domain) ?? { kind: 'fault' }
      // Of a domain that does not exist there is nothing to say, nor while DNS is lost.
      const isKnown = kind !== 'fault' && kind !== 'missing'
      return { exchange, ...isKnown && policies.known(domain) }
    },
  }
}

/** IPv6 addresses only if no other one is reachable. */
async function reachableAddresses (
  host: string,
  isReachable: (address: string) => boolean,
  find: (family: 4 | 6) => Promise<DnsAnswer<string>>
): Promise<DnsAnswer<string>> {
  const reachable = (answer: DnsAnswer<string>): DnsAnswer<string> => {
    if (answer.kind !== 'found') return answer
    const records = answer.records.filter(isReachable).slice(0, MAX_ADDRESSES)
    return records.length > 0 ? { kind: 'found', records } : { kind: 'none' }
  }
  if (isIP(host) !== 0) return reachable({ kind: 'found', records: [host] })
  const older = reachable(await find(4))
  if (older.kind === 'found' || older.kind === 'no_domain') return older
  const newer = reachable(await find(6))
  // Some servers deny that a name exists when they are asked for IPv6 (RFC 4074, 4.2).
  return newer.kind === 'none' || newer.kind === 'no_domain' ? older : newer
}

const hasExchange = (kind: MailDomain) => kind === 'accepts' || kind === 'disposable'

const KINDS = [
  'accepts', 'disposable', 'implicit', 'refuses', 'missing',
] as const satisfies MailDomain[]

/** Blank for what is no name of a host. */
function maskedExchange (name: string | undefined, domain: string): string {
  const host = name === undefined ? undefined : exchangeName(name)
  return host === undefined ? '' : maskExchange(host, domain)
}

/** A shared result: its kind, and the masked exchange after a space. */
const formatResult = (kind: MailDomain, exchange: string): string =>
  hasExchange(kind) ? `${kind} ${exchange}` : kind

function parseResult (
  { text, ttlMs }: { readonly text: string, readonly ttlMs: number }
): DomainResult | undefined {
  const [word, exchange] = text.split(' ')
  const kind = KINDS.find((it) => it === word)
  // Older releases stored no exchange.
  if (kind === undefined || (hasExchange(kind) && exchange === undefined)) return undefined
  return { kind, exchange, ttlMs }
}

const NO_ANSWER = { kind: 'fault', names: [] } as const satisfies Found
/** They rest on records that are said not to exist. */
const DENIALS: readonly MailDomain[] = ['implicit', 'refuses', 'missing']

/** DNS has no records of a domain literal, which is its own host. */
const NO_RECORDS = { kind: 'none' } as const

const IMPLICIT = {
  found: 'implicit', none: 'refuses', no_domain: 'refuses', fault: 'fault',
} as const satisfies Record<DnsAnswer<string>['kind'], MailDomain>

type FindAddresses = (host: string) => Promise<DnsAnswer<string>>

/** Checks hosts in order of preference; a single root host is the null MX, which has no host. */
async function byExchanges (
  exchanges: readonly MailExchange[], findAddresses: FindAddresses, lists: EmailLists
): Promise<Found> {
  const hosts = exchanges
    .toSorted((a, b) => a.preference - b.preference)
    .map(({ host }) => host.toLowerCase())
    .filter((host) => host !== '' && host !== '.' && isIP(host) === 0)
  const names = [...new Set(hosts)].slice(0, MAX_EXCHANGES)
  let faults = 0
  for (const host of names) {
    const { kind } = await findAddresses(host)
    if (kind === 'found') {
      return { kind: lists.lookUp(host).disposable ? 'disposable' : 'accepts', names }
    }
    if (kind === 'fault') faults++
  }
  // Of exchanges that were ignored nothing is known.
  const isCertain = faults === 0 && new Set(hosts).size <= MAX_EXCHANGES
  return { kind: isCertain ? 'refuses' : 'fault', names: [] }
}

/**
 * A cache of answers by name, which does not store faults. Concurrent calls of a tenant share a
 * query; those of others have their own, so that none waits behind the queries of another tenant.
 */
function createCache<T extends { readonly kind: AnyKind, readonly ttlMs?: number }> (
  options: MailDomainOptions
) {
  const { maxDomains, now } = options
  const answers = boundedCache<T>({ entries: maxDomains, now })
  const pending = new Map<string, Promise<T>>()
  const query = async (name: string, key: string, send: () => Promise<T>) => {
    try {
      const answer = await send()
      const { ttlMs: ttl = chooseTtl(answer.kind, options) } = answer
      if (ttl > 0) answers.set(name, answer, { ttl })
      return answer
    } finally {
      pending.delete(key)
    }
  }
  return {
    peek: (name: string) => answers.get(name),
    get: async (name: string, tenant: string, send: () => Promise<T>): Promise<T> => {
      const answer = answers.get(name)
      if (answer !== undefined) return answer
      const key = `${tenant} ${name}`
      const running = pending.get(key) ?? query(name, key, send)
      pending.set(key, running)
      return await running
    },
  }
}

type AnyKind = MailDomain | DnsAnswer<unknown>['kind']

/** The time to live of a result; 0 for a fault. */
function chooseTtl (kind: AnyKind, { keepMs, keepNegativeMs }: MailDomainOptions): number {
  if (kind === 'fault') return 0
  return ['accepts', 'disposable', 'implicit', 'found'].includes(kind) ? keepMs : keepNegativeMs
}

/** `none`: the name has no such records; `no_domain`: the name does not exist. */
type DnsAnswer<T> =
  | { readonly kind: 'found', readonly records: readonly T[] }
  | { readonly kind: 'none' | 'no_domain' | 'fault' }

type MailExchange = { readonly host: string, readonly preference: number }

/**
 * Queries to resolvers, which follow aliases (CNAME) themselves. Tenants share what is under way
 * fairly; a query that waits too long for its turn is a fault.
 */
export type DnsQueries = {
  readonly mailExchanges: (domain: string, tenant: string) => Promise<DnsAnswer<MailExchange>>
  readonly addresses: (
    name: string, family: 4 | 6, tenant: string
  ) => Promise<DnsAnswer<string>>
  /** The name servers of the root zone, which every resolver with access to the DNS knows. */
  readonly root: () => Promise<DnsAnswer<string>>
  /** The texts of a name, each with its parts joined. */
  readonly texts: (name: string, tenant: string) => Promise<DnsAnswer<string>>
}

export type DnsOptions = ResolverOptions & {
  /** Maximum concurrent queries; further ones wait. */
  readonly concurrency: number
}

/** In place of a tenant, whose names have a colon: queries of the service itself. */
const OURS = 'service'
/** One tenant has at most this share of the queries under way: name servers may be silent. */
const SHARE_OF_TENANT = 1 / 2
/** Nobody waits for an answer any more, so the query is not sent. */
const MAX_WAIT_MS = 10_000

/** DNS by the resolvers of the configuration, or those of the system. */
export function createDns ({ concurrency, ...options }: DnsOptions): DnsQueries {
  const resolver = createResolver(options)
  const maxPerName = Math.ceil(concurrency * SHARE_OF_TENANT)
  const createSlots = () => {
    const slots = new FairSlots({ capacity: concurrency, maxCredit: concurrency, maxPerName })
    return async <T>(name: string, send: () => Promise<T[]>): Promise<DnsAnswer<T>> => {
      const lastMs = performance.now() + MAX_WAIT_MS
      return await slots.run({ name, cost: 1 }, async () =>
        performance.now() > lastMs ? { kind: 'fault' } : await toAnswer(send))
    }
  }
  const query = createSlots()
  // Queries that verdicts rest on never wait behind those for texts.
  const queryTexts = createSlots()
  return {
    mailExchanges: (domain, tenant) =>
      query(tenant, async () => (await resolver.resolveMx(domain))
        .map(({ exchange, priority }) => ({ host: exchange, preference: priority }))),
    addresses: (name, family, tenant) => query(tenant, () =>
      family === 4 ? resolver.resolve4(name) : resolver.resolve6(name)),
    root: () => query(OURS, () => resolver.resolveNs('.')),
    texts: (name, tenant) => queryTexts(tenant, async () =>
      (await resolver.resolveTxt(name)).map((parts) => parts.join(''))),
  }
}

async function toAnswer<T> (send: () => Promise<T[]>): Promise<DnsAnswer<T>> {
  try {
    const records = await send()
    return records.length > 0 ? { kind: 'found', records } : { kind: 'none' }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'ENODATA') return { kind: 'none' }
    return { kind: code === 'ENOTFOUND' ? 'no_domain' : 'fault' }
  }
}

/** The IP address of a canonical domain literal: `[192.0.2.1]`, `[IPv6:2001:db8::1]`. */
export function literalAddress (domain: string): string | undefined {
  return /^\[(?:IPv6:)?(.+)\]$/.exec(domain)?.[1]
}

/**
 * Texts of domains in the cache Redis. The name of the key is a digest, so that Redis has no part
 * of a contact in clear; nor must a text have one. `onFault` gets the errors of Redis, for logs;
 * without Redis each process queries DNS itself.
 */
export function redisDomainStore (
  redis: RedisClient, prefix: 'mail-domain' | 'mail-policy', onFault: (error: unknown) => void
): DomainStore {
  const domainKey = (domain: string) => `${prefix}:${hash('sha256', domain, 'base64url')}`
  return {
    read: async (domain) => {
      const key = domainKey(domain)
      try {
        const [text, ttlMs] = await Promise.all([redis.get(key), redis.pttl(key)])
        return text === null || ttlMs <= 0 ? undefined : { text, ttlMs }
      } catch (error) {
        onFault(error)
        return undefined
      }
    },
    write: async (domain, text, ttlMs) => {
      try {
        await redis.set(domainKey(domain), text, 'PX', ttlMs)
      } catch (error) {
        onFault(error)
      }
    },
  }
}
