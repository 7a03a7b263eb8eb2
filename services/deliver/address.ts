import { Resolver } from 'node:dns/promises'
import type { LookupFunction } from 'node:net'
import ipaddr from 'ipaddr.js'

/** What a development installation may allow besides public HTTPS addresses. */
export type AddressRules = { readonly allowHttp: boolean, readonly allowLoopback: boolean }

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
export function isAllowedAddress (address: string, { allowLoopback }: AddressRules): boolean {
  if (!ipaddr.isValid(address)) return false
  const parsed = ipaddr.parse(address)
  const range = parsed.range()
  if (range === 'loopback') return allowLoopback
  return range === 'unicast' && (parsed.kind() === 'ipv4' || parsed.match(GLOBAL_UNICAST))
}

/** All of version 6 that is handed out for use between networks. */
const GLOBAL_UNICAST = ipaddr.parseCIDR('2000::/3')

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
 * Asks the name servers without the system's resolver, which has so few threads that some names
 * whose servers never answer would keep all others waiting.
 */
export const resolveName: Resolve = async hostname => {
  const name = hostname.replace(/\.$/, '').toLowerCase()
  if (name === 'localhost' || name.endsWith('.localhost')) return ['127.0.0.1', '::1']
  const resolver = new Resolver({ timeout: DNS_TIMEOUT_MS, tries: DNS_TRIES })
  const found = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)])
  return found.flatMap(answer => answer.status === 'fulfilled' ? answer.value : [])
}

/** The IP address a host of a URL is, without the brackets of version 6; undefined for a name. */
function literalOf (hostname: string): string | undefined {
  const host = hostname.replace(/^\[|\]$/g, '')
  return ipaddr.isValid(host) ? host : undefined
}
