import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import Type from 'typebox'

/** A set of IP addresses and networks. */
export type Networks = { readonly has: (address: string) => boolean }

/** @throws TypeError for a text that is not an address or network; `setting` is in its message. */
export function parseNetworks (texts: readonly string[], setting = 'networks'): Networks {
  const list = new BlockList()
  for (const text of texts) {
    const [address = '', bits] = text.split(/\/(.*)/s)
    const version = isIP(address)
    const longest = version === 4 ? 32 : 128
    const prefix = bits === undefined ? longest : /^\d{1,3}$/.test(bits) ? Number(bits) : NaN
    if (version === 0 || !(prefix <= longest)) {
      throw new TypeError(`${setting}: "${text}" is not an address or network`)
    }
    list.addSubnet(address, prefix, version === 4 ? 'ipv4' : 'ipv6')
  }
  return {
    has: address => {
      const plain = withoutZone(address)
      const version = isIP(plain)
      return version !== 0 && list.check(plain, version === 4 ? 'ipv4' : 'ipv6')
    },
  }
}

/** The network of a valid text, `10.1.2.0/24` for `10.1.2.3/24`; an address is its own. */
export function wholeNetwork (text: string): string {
  const [address = '', bits] = text.split('/')
  if (bits === undefined) return text
  const { IPv4, IPv6 } = ipaddr
  const first = (isIP(address) === 4 ? IPv4 : IPv6).networkAddressFromCIDR(text).toString()
  return first === ipaddr.parse(address).toString() ? text : `${first}/${bits}`
}

/** Loopback addresses of IPv4 (RFC 1122) and IPv6 (RFC 4291). */
export const LOOPBACK = parseNetworks(['127.0.0.0/8', '::1'])

/** The zone names an interface of the machine that wrote it (RFC 4007). */
const withoutZone = (address: string): string => address.split('%', 1)[0] ?? ''

/** The address of a socket: without its zone, and IPv4 for one that is mapped to IPv6. */
export function plainAddress (address = ''): string {
  if (!address.includes(':')) return address
  const plain = withoutZone(address)
  if (!ipaddr.IPv6.isValid(plain)) return plain
  const parsed = ipaddr.IPv6.parse(plain)
  return parsed.isIPv4MappedAddress() ? parsed.toIPv4Address().toString() : plain
}

/** The network of one client: an IPv4 address, or an IPv6 /64, the usual assignment (RFC 6177). */
export function clientNetwork (address = ''): string {
  const plain = plainAddress(address)
  if (!ipaddr.IPv6.isValid(plain)) return plain
  const { parts } = ipaddr.IPv6.parse(plain)
  return `${parts.slice(0, 4).map(part => part.toString(16)).join(':')}::/64`
}

/** Far above what a chain of proxies adds to X-Forwarded-For. */
const MAX_FORWARDED_CHARACTERS = 2_000

/**
 * The address of the client of a request: that of the connection, or as long as that is a trusted
 * proxy, the one before it in X-Forwarded-For. The list ends at an entry that is no address, which
 * the nearest proxy did not write, so a client cannot choose its address. Never throws.
 */
export function clientAddress (
  { socket, headers }: Pick<IncomingMessage, 'socket' | 'headers'>, proxies: Networks
): string {
  let address = plainAddress(socket.remoteAddress)
  const list = headers['x-forwarded-for']
  if (list === undefined || !proxies.has(address)) return address
  const text = String(list)
  const entries = text.slice(-MAX_FORWARDED_CHARACTERS).split(',')
  // The rest of an entry that was cut.
  if (text.length > MAX_FORWARDED_CHARACTERS) entries.shift()
  while (entries.length > 0 && proxies.has(address)) {
    const before = forwardedAddress(entries.pop() ?? '')
    if (before === undefined) break
    address = before
  }
  return address
}

/** An address, `ip:port` for IPv4, or `[ip]` and `[ip]:port` for IPv6; undefined otherwise. */
function forwardedAddress (entry: string): string | undefined {
  const text = entry.trim()
  const [, ipv6, ipv4] = /^(?:\[([\da-f:.]+)\](?::\d{1,5})?|([\d.]+):\d{1,5})$/i.exec(text) ?? []
  const address = ipv6 ?? ipv4 ?? text
  const version = isIP(address)
  if (version === 0 || address.includes('%')) return undefined
  const isOdd = (ipv6 !== undefined && version !== 6) || (ipv4 !== undefined && version !== 4)
  return isOdd ? undefined : plainAddress(address)
}

/** All public unicast addresses of IPv6. */
const GLOBAL_UNICAST = ipaddr.parseCIDR('2000::/3')

/** Public addresses that the cloud platform itself answers: Azure, IBM, Equinix. */
const PLATFORM_NETWORKS =
  parseNetworks(['168.63.129.16/32', '161.26.0.0/16', '166.8.0.0/14', '192.80.8.124/32'])

/**
 * True for public unicast addresses. False for IPv4 addresses embedded in IPv6 by mapping,
 * translation or tunnels, which may lead anywhere.
 */
export function isPublicAddress (address: string): boolean {
  if (!ipaddr.isValid(address) || PLATFORM_NETWORKS.has(address)) return false
  const parsed = ipaddr.parse(address)
  if (parsed.range() !== 'unicast') return false
  return parsed instanceof ipaddr.IPv4 || (parsed.match(GLOBAL_UNICAST) && !isIsatap(parsed))
}

/** RFC 5214: an interface identifier with an embedded IPv4 address, in any network. */
function isIsatap ({ parts }: ipaddr.IPv6): boolean {
  return (parts[4]! & ~0x0200) === 0 && parts[5] === 0x5efe
}

/** The address of a resolver in a configuration: `ip`, `ip:port` or `[ip]:port`. */
export const serverAddress = Type.Refine(Type.String(), text => {
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?$/.exec(text) ?? []
  if (port !== undefined && (Number(port) < 1 || Number(port) > 65_535)) return false
  return isIP(text) !== 0 || isIP(bracketed ?? '') === 6 || isIP(plain ?? '') === 4
}, () => 'must be an IP address, with or without port')
