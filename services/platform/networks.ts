import ipaddr from 'ipaddr.js'
import { BlockList, isIP } from 'node:net'

/** Addresses and networks to look others up in. */
export type Networks = { readonly hold: (address: string) => boolean }

/** @throws TypeError for a text that is neither an address nor a network; `setting` names it. */
export function networksOf (texts: readonly string[], setting = 'networks'): Networks {
  const list = new BlockList()
  for (const text of texts) {
    const [address = '', bits] = text.split('/')
    const version = isIP(address)
    if (version === 0) throw new TypeError(`${setting}: "${text}" is no address or network`)
    const prefix = bits === undefined ? (version === 4 ? 32 : 128) : Number(bits)
    list.addSubnet(address, prefix, version === 4 ? 'ipv4' : 'ipv6')
  }
  return {
    hold: address => {
      const version = isIP(address)
      return version !== 0 && list.check(address, version === 4 ? 'ipv4' : 'ipv6')
    },
  }
}

/** This machine, by IPv4 (RFC 1122) and IPv6 (RFC 4291). */
export const LOOPBACK = networksOf(['127.0.0.0/8', '::1'])

/** An address as sockets name it, without the prefix of IPv4 in IPv6. */
export const plainAddress = (address = ''): string => address.replace(/^::ffff:(?=\d+\.)/, '')

/**
 * What counts as one client: an IPv4 address, or the /64 of an IPv6 address, of which everybody has
 * a whole network (RFC 6177).
 */
export function clientNetwork (address = ''): string {
  const plain = plainAddress(address)
  if (isIP(plain) !== 6) return plain
  const { parts } = ipaddr.parse(plain) as ipaddr.IPv6
  return `${parts.slice(0, 4).map(part => part.toString(16)).join(':')}::/64`
}

/** All of version 6 that is handed out for use between networks. */
const GLOBAL_UNICAST = ipaddr.parseCIDR('2000::/3')

/** Public to the eye, yet answered by the machine's own cloud: Azure, IBM, Equinix. */
const PLATFORM_NETWORKS =
  networksOf(['168.63.129.16/32', '161.26.0.0/16', '166.8.0.0/14', '192.80.8.124/32'])

/**
 * True for public unicast addresses. Addresses of version 4 that are wrapped into version 6, by
 * mapping, translation or tunnels, are not: they may lead to anywhere.
 */
export function isPublicAddress (address: string): boolean {
  if (!ipaddr.isValid(address) || PLATFORM_NETWORKS.hold(address)) return false
  const parsed = ipaddr.parse(address)
  if (parsed.range() !== 'unicast') return false
  return parsed instanceof ipaddr.IPv4 || (parsed.match(GLOBAL_UNICAST) && !isIsatap(parsed))
}

/** RFC 5214: an interface identifier that wraps an address of version 4, in any network. */
function isIsatap ({ parts }: ipaddr.IPv6): boolean {
  return (parts[4]! & ~0x0200) === 0 && parts[5] === 0x5efe
}
