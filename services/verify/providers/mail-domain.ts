import { isIP } from 'node:net'
import { LRUCache } from 'lru-cache'
import type { DnsAnswer, DnsQuestions, MailExchange } from './dns.ts'
import { isPublicAddress, literalAddress } from './public-address.ts'

/**
 * What DNS says of a mail domain. `accepts`: it names a mail exchange that has an address.
 * `implicit`: it names none, but has an address itself (RFC 5321, 5.1). `refuses`: it says that it
 * takes no mail (RFC 7505), or nothing that it names can be reached from the internet. `missing`:
 * there is no such domain. `fault`: nobody could tell.
 */
export type MailDomain = 'accepts' | 'implicit' | 'refuses' | 'missing' | 'fault'

/** A host that takes a domain's mail, with those of its addresses that can be reached. */
export type MailHost = { readonly name: string, readonly addresses: readonly string[] }

export type MailDomains = {
  /** What is remembered, without asking. */
  readonly known: (domain: string) => MailDomain | undefined
  /** Asks at most once at a time for a domain; never rejects. */
  readonly find: (domain: string) => Promise<MailDomain>
  /** At most so many hosts of a domain that takes mail, the preferred one first. */
  readonly hosts: (domain: string, most: number) => Promise<readonly MailHost[]>
}

export type MailDomainOptions = {
  /** How long an answer is remembered with which the domain takes mail, and one with which not. */
  readonly keepMs: number
  readonly keepNegativeMs: number
  readonly maxDomains: number
  /** Addresses that count; public ones when left out. */
  readonly isReachable?: (address: string) => boolean
  /** Milliseconds of a clock that never goes back; replaced by tests. */
  readonly now?: () => number
}

/** A domain that names more exchanges is judged by the first ones. */
const MAX_EXCHANGES = 5

type Found = { readonly kind: MailDomain, readonly names: readonly string[] }

/** Mail domains by DNS, remembered; a fault is not. */
export function createMailDomains (dns: DnsQuestions, options: MailDomainOptions): MailDomains {
  const domains = createMemory<Found>(
    options, ({ kind }) => kind === 'accepts' || kind === 'implicit')
  const hosts = createMemory<DnsAnswer<string>>(options, ({ kind }) => kind === 'found')
  const { isReachable = isPublicAddress } = options
  const addressesOf = async (host: string): Promise<DnsAnswer<string>> =>
    isIP(host) === 0 ? await dns.addresses(host) : { kind: 'found', records: [host] }
  const reach = (host: string) => hosts.get(host, async () =>
    reachableOf(await addressesOf(host), isReachable))
  const found = (domain: string) => domains.get(domain, async (): Promise<Found> => {
    const literal = literalAddress(domain)
    const answer = literal === undefined ? await dns.mailExchanges(domain) : NO_RECORDS
    if (answer.kind === 'found') return await byExchanges(answer.records, reach)
    if (answer.kind === 'none') {
      const host = literal ?? domain
      return { kind: IMPLICIT[(await reach(host)).kind], names: [host] }
    }
    return { kind: answer.kind === 'no_domain' ? 'missing' : 'fault', names: [] }
  })
  return {
    known: (domain) => domains.peek(domain)?.kind,
    find: async (domain) => (await found(domain)).kind,
    hosts: async (domain, most) => await firstReachable((await found(domain)).names, most, reach),
  }
}

/** DNS has nothing about a domain literal, which is its own host. */
const NO_RECORDS = { kind: 'none' } as const

const IMPLICIT = {
  found: 'implicit', none: 'refuses', no_domain: 'refuses', fault: 'fault',
} as const satisfies Record<DnsAnswer<string>['kind'], MailDomain>

type Reach = (host: string) => Promise<DnsAnswer<string>>

/** In order of preference; the root as only host is the null MX, which names nothing. */
async function byExchanges (exchanges: readonly MailExchange[], reach: Reach): Promise<Found> {
  const hosts = exchanges
    .toSorted((a, b) => a.preference - b.preference)
    .map(({ host }) => host.toLowerCase())
    .filter((host) => host !== '' && host !== '.' && isIP(host) === 0)
  const names = [...new Set(hosts.slice(0, MAX_EXCHANGES))]
  let faults = 0
  for (const host of names) {
    const { kind } = await reach(host)
    if (kind === 'found') return { kind: 'accepts', names }
    if (kind === 'fault') faults++
  }
  return { kind: faults > 0 ? 'fault' : 'refuses', names: [] }
}

async function firstReachable (names: readonly string[], most: number, reach: Reach):
Promise<readonly MailHost[]> {
  const hosts: MailHost[] = []
  for (const name of names) {
    if (hosts.length === most) break
    const answer = await reach(name)
    if (answer.kind === 'found') hosts.push({ name, addresses: answer.records })
  }
  return hosts
}

/** Addresses nobody outside can reach count as none. */
function reachableOf (answer: DnsAnswer<string>, isReachable: (address: string) => boolean):
DnsAnswer<string> {
  if (answer.kind !== 'found') return answer
  const records = answer.records.filter(isReachable)
  return records.length > 0 ? { kind: 'found', records } : { kind: 'none' }
}

/** Answers by name, each asked for once at a time and forgotten after its time; no faults. */
function createMemory<T extends { readonly kind: string }> (
  options: MailDomainOptions, isPositive: (answer: T) => boolean
) {
  const { keepMs, keepNegativeMs, maxDomains, now } = options
  const perf = now === undefined ? {} : { perf: { now }, ttlResolution: 0 }
  const known = new LRUCache<string, T>({ max: maxDomains, ...perf })
  const asked = new Map<string, Promise<T>>()
  const ask = async (name: string, question: () => Promise<T>) => {
    try {
      const answer = await question()
      const ttl = isPositive(answer) ? keepMs : keepNegativeMs
      if (answer.kind !== 'fault' && ttl > 0) known.set(name, answer, { ttl })
      return answer
    } finally {
      asked.delete(name)
    }
  }
  return {
    peek: (name: string) => known.get(name),
    get: async (name: string, question: () => Promise<T>): Promise<T> => {
      const answer = known.get(name)
      if (answer !== undefined) return answer
      const running = asked.get(name) ?? ask(name, question)
      asked.set(name, running)
      return await running
    },
  }
}
