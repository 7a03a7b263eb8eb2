import { BlockList, isIP } from 'node:net'
import { LRUCache } from 'lru-cache'
import type { DnsAnswer, DnsQuestions, MailExchange } from './dns.ts'

/**
 * What DNS says of a mail domain. `accepts`: it names a mail exchange that has an address.
 * `implicit`: it names none, but has an address itself (RFC 5321, 5.1). `refuses`: it says that it
 * takes no mail (RFC 7505), or nothing that it names can be reached from the internet. `missing`:
 * there is no such domain. `fault`: nobody could tell.
 */
export type MailDomain = 'accepts' | 'implicit' | 'refuses' | 'missing' | 'fault'

export type MailDomains = {
  /** What is remembered, without asking. */
  readonly known: (domain: string) => MailDomain | undefined
  /** Asks at most once at a time for a domain; never rejects. */
  readonly find: (domain: string) => Promise<MailDomain>
}

export type MailDomainOptions = {
  /** How long an answer is remembered with which the domain takes mail, and one with which not. */
  readonly keepMs: number
  readonly keepNegativeMs: number
  readonly maxDomains: number
  /** Milliseconds of a clock that never goes back; replaced by tests. */
  readonly now?: () => number
}

/** A domain that names more exchanges is judged by the first ones. */
const MAX_EXCHANGES = 5

/** Mail domains by DNS, remembered; a fault is not. */
export function createMailDomains (dns: DnsQuestions, options: MailDomainOptions): MailDomains {
  const domains = createMemory<MailDomain>(options, {
    isPositive: (kind) => kind === 'accepts' || kind === 'implicit',
    isFault: (kind) => kind === 'fault',
  })
  const hosts = createMemory<DnsAnswer<string>['kind']>(options, {
    isPositive: (kind) => kind === 'found',
    isFault: (kind) => kind === 'fault',
  })
  const reach = (host: string) => hosts.get(host, async () => reachOf(await dns.addresses(host)))
  return {
    known: domains.peek,
    find: (domain) => domains.get(domain, async () => {
      const answer = await dns.mailExchanges(domain)
      if (answer.kind === 'found') return await byExchanges(answer.records, reach)
      if (answer.kind === 'none') return IMPLICIT[await reach(domain)]
      return answer.kind === 'no_domain' ? 'missing' : 'fault'
    }),
  }
}

const IMPLICIT = {
  found: 'implicit', none: 'refuses', no_domain: 'refuses', fault: 'fault',
} as const satisfies Record<DnsAnswer<string>['kind'], MailDomain>

type Reach = (host: string) => Promise<DnsAnswer<string>['kind']>

/** In order of preference; the root as only host is the null MX, which names nothing. */
async function byExchanges (exchanges: readonly MailExchange[], reach: Reach): Promise<MailDomain> {
  const hosts = exchanges
    .toSorted((a, b) => a.preference - b.preference)
    .map(({ host }) => host.toLowerCase())
    .filter((host) => host !== '' && host !== '.' && isIP(host) === 0)
  let faults = 0
  for (const host of new Set(hosts.slice(0, MAX_EXCHANGES))) {
    const kind = await reach(host)
    if (kind === 'found') return 'accepts'
    if (kind === 'fault') faults++
  }
  return faults > 0 ? 'fault' : 'refuses'
}

/** Addresses nobody outside can reach count as none. */
function reachOf (answer: DnsAnswer<string>): DnsAnswer<string>['kind'] {
  if (answer.kind !== 'found') return answer.kind
  return answer.records.some(isPublic) ? 'found' : 'none'
}

function isPublic (address: string): boolean {
  return !UNREACHABLE.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
}

/** Ranges that are not routed in the internet (IANA's registries of special-purpose addresses). */
const UNREACHABLE = new BlockList()
for (const [net, bits] of [
  ['0.0.0.0', 8], ['10.0.0.0', 8], ['127.0.0.0', 8], ['169.254.0.0', 16], ['172.16.0.0', 12],
  ['192.168.0.0', 16], ['224.0.0.0', 3],
] as const) UNREACHABLE.addSubnet(net, bits, 'ipv4')
for (const [net, bits] of [
  ['::', 127], ['fc00::', 7], ['fe80::', 10], ['ff00::', 8],
] as const) UNREACHABLE.addSubnet(net, bits, 'ipv6')

type Kinds<T> = {
  readonly isPositive: (kind: T) => boolean
  readonly isFault: (kind: T) => boolean
}

/** Answers by name, each asked for once at a time and forgotten after its time. */
function createMemory<T extends string> (options: MailDomainOptions, kinds: Kinds<T>) {
  const { keepMs, keepNegativeMs, maxDomains, now } = options
  const perf = now === undefined ? {} : { perf: { now }, ttlResolution: 0 }
  const known = new LRUCache<string, T>({ max: maxDomains, ...perf })
  const asked = new Map<string, Promise<T>>()
  const ask = async (name: string, question: () => Promise<T>) => {
    try {
      const kind = await question()
      const ttl = kinds.isPositive(kind) ? keepMs : keepNegativeMs
      if (!kinds.isFault(kind) && ttl > 0) known.set(name, kind, { ttl })
      return kind
    } finally {
      asked.delete(name)
    }
  }
  return {
    peek: (name: string) => known.get(name),
    get: async (name: string, question: () => Promise<T>): Promise<T> => {
      const kind = known.get(name)
      if (kind !== undefined) return kind
      const running = asked.get(name) ?? ask(name, question)
      asked.set(name, running)
      return await running
    },
  }
}
