import { Resolver } from 'node:dns/promises'
import type { LookupFunction } from 'node:net'
import { networkInterfaces } from 'node:os'
import ipaddr from 'ipaddr.js'

/** Where events may be sent to. */
export type AddressRules = {
  /** For development: addresses without TLS, and on this machine. */
  readonly allowHttp: boolean
  readonly allowLoopback: boolean
  /** Public networks that nothing is sent to all the same, as CIDR. */
  readonly denied?: readonly string[]
}

/** An address that no event may be sent to. It does not say which, as that would map a network. */
export class BlockedAddressError extends Error {
  override readonly name = 'BlockedAddressError'
}

/** A name that leads nowhere. */
export class NameError extends Error {
  override readonly name = 'NameError'
}

/** All addresses of a name, of both families. */
export type Resolve = (hostname: string) => Promise<readonly string[]>

const DNS_TIMEOUT_MS = 2_000
const DNS_TRIES = 2

/**
 * True for public unicast addresses. Addresses of version 4 that are wrapped into version 6, by
 * mapping, translation or tunnels, are not: they may lead to anywhere.
 */
export function isAllowedAddress (address: string, rules: AddressRules): boolean {
  if (!ipaddr.isValid(address)) return false
  const parsed = ipaddr.parse(address)
  const range = parsed.range()
  if (range === 'loopback') return rules.allowLoopback
  if (range !== 'unicast') return false
  if (parsed instanceof ipaddr.IPv6 && (!parsed.match(GLOBAL_UNICAST) || isIsatap(parsed))) {
    return false
  }
  const networks = [...PLATFORM_NETWORKS, ...rules.denied ?? []].map(it => ipaddr.parseCIDR(it))
  return !networks.some(network => parsed.kind() === network[0].kind() && parsed.match(network)) &&
    (rules.allowLoopback || !ownAddresses().has(parsed.toString()))
}

/** RFC 5214: an interface identifier that wraps an address of version 4, in any network. */
function isIsatap ({ parts }: ipaddr.IPv6): boolean {
  return (parts[4]! & ~0x0200) === 0 && parts[5] === 0x5efe
}

/** All of version 6 that is handed out for use between networks. */
const GLOBAL_UNICAST = ipaddr.parseCIDR('2000::/3')

/** Public to the eye, yet answered by the machine's own cloud: Azure, IBM, Equinix. */
const PLATFORM_NETWORKS = ['168.63.129.16/32', '161.26.0.0/16', '166.8.0.0/14', '192.80.8.124/32']

/** Services that listen on this machine's public address must not be reached from within. */
function ownAddresses (): ReadonlySet<string> {
  const all = Object.values(networkInterfaces()).flatMap(some => some ?? [])
  return new Set(all.map(({ address }) => ipaddr.parse(address).toString()))
}

/** Whether a text is a network in the notation of rules. */
export const isNetwork = (text: string): boolean => ipaddr.isValidCIDR(text)

/**
 * The host of an address that may be connected to as far as its text tells; throws
 * BlockedAddressError. A literal is judged here, as nobody looks it up.
 */
export function checkTarget (url: URL, rules: AddressRules): void {
  const schemes = rules.allowHttp ? ['https:', 'http:'] : ['https:']
  const plain = schemes.includes(url.protocol) && url.username === '' && url.password === ''
  const literal = literalOf(url.hostname)
  if (!plain || (literal !== undefined && !isAllowedAddress(literal, rules))) {
    throw new BlockedAddressError('the address is not public')
  }
}

/**
 * The look-up a socket connects by. A name with any address that is not allowed is refused
 * altogether, and the socket gets exactly the addresses that were judged.
 */
export function createLookup (resolve: Resolve, rules: AddressRules): LookupFunction {
  const find = async (hostname: string) => {
    const addresses = await resolve(hostname)
    if (addresses.length === 0) throw new NameError('the name has no address')
    if (!addresses.every(address => isAllowedAddress(address, rules))) {
      throw new BlockedAddressError('the name has an address that is not public')
    }
    return addresses.map(address => ({ address, family: address.includes(':') ? 6 : 4 }))
  }
  return (hostname, options, callback) => {
    find(hostname).then(
      found => {
        const [first] = found
        if (options.all === true) callback(null, found)
        else callback(null, first!.address, first!.family)
      },
      error => callback(error as Error, ''))
  }
}

/**
 * Asks these name servers, or those of the system if none are given, but without the system's
 * resolver: it has so few threads that some names whose servers never answer would keep all others
 * waiting.
 */
export const createResolve = (servers: readonly string[] = []): Resolve => async hostname => {
  const name = hostname.replace(/\.$/, '').toLowerCase()
  if (name === 'localhost' || name.endsWith('.localhost')) return ['127.0.0.1', '::1']
  const resolver = new Resolver({ timeout: DNS_TIMEOUT_MS, tries: DNS_TRIES })
  if (servers.length > 0) resolver.setServers(servers)
  const found = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)])
  return found.flatMap(answer => answer.status === 'fulfilled' ? answer.value : [])
}

/** The IP address a host of a URL is, without the brackets of version 6; undefined for a name. */
function literalOf (hostname: string): string | undefined {
  const host = hostname.replace(/^\[|\]$/g, '')
  return ipaddr.isValid(host) ? host : undefined
}
