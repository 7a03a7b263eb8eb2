import { Resolver } from 'node:dns/promises'
import type { LookupFunction } from 'node:net'
import { networkInterfaces } from 'node:os'
import ipaddr from 'ipaddr.js'
import { isPublicAddress, networksOf } from '../platform/networks.ts'

/** The addresses that may receive events. */
export type AddressRules = {
  /** Allows addresses without TLS; for development. */
  readonly allowHttp: boolean
  /** Allows addresses on this machine; for development. */
  readonly allowLoopback: boolean
  /** Public networks that never receive an event, as CIDR. */
  readonly denied?: readonly string[]
}

/** An address that must not receive events. The message omits it: it could describe a network. */
export class BlockedAddressError extends Error {
  override readonly name = 'BlockedAddressError'
}

/** A host name without any address. */
export class NameError extends Error {
  override readonly name = 'NameError'
}

/** Resolves a host name to all its IPv4 and IPv6 addresses. */
export type Resolve = (hostname: string) => Promise<readonly string[]>

const DNS_TIMEOUT_MS = 2_000
const DNS_TRIES = 2

/** Whether an IP address is public, and neither of this machine nor of a denied network. */
export function isAllowedAddress (address: string, rules: AddressRules): boolean {
  if (!ipaddr.isValid(address)) return false
  const parsed = ipaddr.parse(address)
  if (parsed.range() === 'loopback') return rules.allowLoopback
  return isPublicAddress(address) && !networksOf(rules.denied ?? []).has(address) &&
    (rules.allowLoopback || !ownAddresses().has(parsed.toString()))
}

/** The addresses of this machine, whose services must not be reached from within. */
function ownAddresses (): ReadonlySet<string> {
  const all = Object.values(networkInterfaces()).flatMap(some => some ?? [])
  return new Set(all.map(({ address }) => ipaddr.parse(address).toString()))
}

/** Whether a text is a network in CIDR notation. */
export const isNetwork = (text: string): boolean => ipaddr.isValidCIDR(text)

/**
 * Checks scheme, user information and a literal IP address of a URL; throws BlockedAddressError.
 * Names pass: `createLookup` checks their addresses.
 */
export function checkTarget (url: URL, rules: AddressRules): void {
  const schemes = rules.allowHttp ? ['https:', 'http:'] : ['https:']
  const plain = schemes.includes(url.protocol) && url.username === '' && url.password === ''
  // The brackets of a version 6 address are part of the host name.
  const host = url.hostname.replace(/^\[|\]$/g, '')
  if (!plain || (ipaddr.isValid(host) && !isAllowedAddress(host, rules))) {
    throw new BlockedAddressError('the URL is not public, or has another scheme or a user')
  }
}

/**
 * The lookup function of a socket. It refuses a name if any of its addresses is not allowed, and
 * the socket connects to exactly the checked addresses. Errors: BlockedAddressError, NameError.
 */
export function createLookup (resolve: Resolve, rules: AddressRules): LookupFunction {
  const find = async (hostname: string) => {
    const addresses = await resolve(hostname)
    if (addresses.length === 0) throw new NameError('the host name has no address')
    if (!addresses.every(address => isAllowedAddress(address, rules))) {
      throw new BlockedAddressError('the host name has an address that is not public')
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
 * Resolves names by these servers, or by those of the system if there are none. It does not use
 * getaddrinfo: that has few threads, which names with unresponsive servers would block for all.
 */
export const createResolve = (servers: readonly string[] = []): Resolve => async hostname => {
  const name = hostname.replace(/\.$/, '').toLowerCase()
  if (name === 'localhost' || name.endsWith('.localhost')) return ['127.0.0.1', '::1']
  const resolver = new Resolver({ timeout: DNS_TIMEOUT_MS, tries: DNS_TRIES })
  if (servers.length > 0) resolver.setServers(servers)
  const found = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)])
  return found.flatMap(answer => answer.status === 'fulfilled' ? answer.value : [])
}
