import ipaddr from 'ipaddr.js'

/** All of version 6 that is handed out for use between networks. */
const GLOBAL_UNICAST = ipaddr.parseCIDR('2000::/3')

/** The IP address of a canonical domain literal: `[192.0.2.1]`, `[IPv6:2001:db8::1]`. */
export function literalAddress (domain: string): string | undefined {
  return /^\[(?:IPv6:)?(.+)\]$/.exec(domain)?.[1]
}

/**
 * True for addresses that anybody in the internet can be reached at (IANA's registries of
 * special-purpose addresses). Addresses of version 4 wrapped into version 6 are not: they may lead
 * to anywhere.
 */
export function isPublicAddress (address: string): boolean {
  if (!ipaddr.isValid(address)) return false
  const parsed = ipaddr.parse(address)
  if (parsed.range() !== 'unicast') return false
  return parsed.kind() === 'ipv4' || parsed.match(GLOBAL_UNICAST)
}
