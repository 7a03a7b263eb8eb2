import { Resolver } from 'node:dns/promises'
import type { LookupFunction } from 'node:net'
import { networkInterfaces } from 'node:os'
import ipaddr from 'ipaddr.js'
import { isPublicAddress, networksOf } from '../lib/networks.ts'

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

/** True for public addresses, but those of this machine and of denied networks. */
export function isAllowedAddress (address: string, rules: AddressRules): boolean {
  if (!ipaddr.isValid(address)) return false
  const parsed = ipaddr.parse(address)
  if (parsed.range() === 'loopback') return rules.allowLoopback
  return isPublicAddress(address) && !networksOf(rules.denied ?? []).hold(address) &&
    (rules.allowLoopback || !ownAddresses().has(parsed.toString()))
}

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
