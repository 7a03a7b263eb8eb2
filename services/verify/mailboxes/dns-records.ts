import { Resolver } from 'node:dns/promises'
import ipaddr from 'ipaddr.js'

/** The resolvers did not answer, which says nothing about the name. */
export class DnsFault extends Error {
  override readonly name = 'DnsFault'

  constructor (question: string, options: ErrorOptions) {
    super(`the resolvers did not answer the question for ${question}`, options)
  }
}

/** A single lost datagram is common, two in a row are rare. */
const TRIES = 2
const NO_RECORDS: readonly unknown[] = ['ENOTFOUND', 'ENODATA']

export type ResolverOptions = {
  /** `ip`, `ip:port` or `[ip]:port`; the resolvers of the system if left out. */
  readonly servers?: readonly string[] | undefined
  readonly timeoutMs: number
}

/** The resolvers of the configuration. */
export function createResolver ({ servers, timeoutMs }: ResolverOptions): Resolver {
  const resolver = new Resolver({ timeout: timeoutMs, maxTimeout: timeoutMs, tries: TRIES })
  if (servers !== undefined) resolver.setServers(servers)
  return resolver
}

/** Records by the resolvers of the configuration. All methods reject with DnsFault. */
export class DnsRecords {
  readonly #resolver: Resolver

  constructor (options: ResolverOptions) {
    this.#resolver = createResolver(options)
  }

  /** The IPv4 and IPv6 addresses of a name. */
  async addresses (name: string): Promise<readonly string[]> {
    const [older, newer] = await Promise.all([this.addressesOf(name, 4), this.addressesOf(name, 6)])
    return [...older, ...newer]
  }

  /** The addresses of one family. */
  async addressesOf (name: string, family: 4 | 6): Promise<readonly string[]> {
    return await ask(`addresses of ${name}`, () =>
      family === 4 ? this.#resolver.resolve4(name) : this.#resolver.resolve6(name))
  }

  /** The mail exchanges of a domain, the preferred one first. */
  async exchanges (domain: string): Promise<readonly string[]> {
    const records = await ask(`mail exchanges of ${domain}`, () => this.#resolver.resolveMx(domain))
    return records.toSorted((a, b) => a.priority - b.priority).map(({ exchange }) => exchange)
  }

  /** The texts of a name, each with its parts joined. */
  async texts (name: string): Promise<readonly string[]> {
    const records = await ask(`texts of ${name}`, () => this.#resolver.resolveTxt(name))
    return records.map(parts => parts.join(''))
  }

  /** The reverse names (PTR) of an address. */
  async names (address: string): Promise<readonly string[]> {
    const zone = ipaddr.parse(address).kind() === 'ipv4' ? 'in-addr.arpa' : 'ip6.arpa'
    const names = await ask(`reverse name of ${address}`, () =>
      this.#resolver.resolvePtr(`${reversed(address)}.${zone}`))
    return names.map(name => name.toLowerCase())
  }
}

async function ask<T> (question: string, send: () => Promise<readonly T[]>): Promise<readonly T[]> {
  try {
    return await send()
  } catch (error) {
    if (NO_RECORDS.includes((error as NodeJS.ErrnoException).code)) return []
    throw new DnsFault(question, { cause: error })
  }
}

/** An address as names of the DNS have it: `1.2.0.192`, or the reversed digits of IPv6. */
export function reversed (address: string): string {
  const parsed = ipaddr.parse(address)
  const parts = parsed instanceof ipaddr.IPv4
    ? parsed.octets.map(String)
    : [...parsed.parts.map(part => part.toString(16).padStart(4, '0')).join('')]
  return parts.toReversed().join('.')
}
