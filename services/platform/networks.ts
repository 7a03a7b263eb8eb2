import { BlockList, isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import Type from 'typebox'

/** A set of IP addresses and networks. */
export type Networks = { readonly has: (address: string) => boolean }

/** @throws TypeError for a text that is not an address or network; `setting` is in its message. */
export function networksOf (texts: readonly string[], setting = 'networks'): Networks {
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
      const version = isIP(address)
      return version !== 0 && list.check(address, version === 4 ? 'ipv4' : 'ipv6')
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
export const LOOPBACK = networksOf(['127.0.0.0/8', '::1'])

/** The address of a socket without the prefix of IPv4-mapped addresses. */
export const plainAddress = (address = ''): string => address.replace(/^::ffff:(?=\d+\.)/, '')

/** The network of one client: an IPv4 address, or an IPv6 /64, the usual assignment (RFC 6177). */
export function clientNetwork (address = ''): string {
  const plain = plainAddress(address)
  if (isIP(plain) !== 6) return plain
  const { parts } = ipaddr.parse(plain) as ipaddr.IPv6
  return `${parts.slice(0, 4).map(part => part.toString(16)).join(':')}::/64`
}

/** All public unicast addresses of IPv6. */
const GLOBAL_UNICAST = ipaddr.parseCIDR('2000::/3')

/** Public addresses that the cloud platform itself answers: Azure, IBM, Equinix. */
const PLATFORM_NETWORKS =
  networksOf(['168.63.129.16/32', '161.26.0.0/16', '166.8.0.0/14', '192.80.8.124/32'])

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
export const serverAddress = Type.Refine(
  Type.String(), isServerAddress, () => 'must be an IP address, with or without port')

/** Whether a text is an address of a resolver: an IP address, with brackets for IPv6 and a port. */
export function isServerAddress (text: string): boolean {
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?$/.exec(text) ?? []
  if (port !== undefined && (Number(port) < 1 || Number(port) > 65_535)) return false
  return isIP(text) !== 0 || isIP(bracketed ?? '') === 6 || isIP(plain ?? '') === 4
}
