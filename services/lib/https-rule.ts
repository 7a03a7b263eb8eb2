import { BlockList, isIP } from 'node:net'
import type { IncomingMessage } from 'node:http'

/** How a request reached this process. */
export type Arrival = 'https' | 'loopback' | 'refused'

/**
 * Builds the rule of HTTPS: TLS, or a configured proxy that says so of its own side; plain HTTP is
 * for loopback alone. Throws TypeError for a proxy that is neither an address nor a network.
 */
export function createHttpsRule (trustedProxies: readonly string[]) {
  const proxies = networks(trustedProxies)
  const loopback = networks(['127.0.0.0/8', '::1'])

  return function arrivalOf ({ socket, headers }: IncomingMessage): Arrival {
    if ('encrypted' in socket && socket.encrypted === true) return 'https'
    const peer = (socket.remoteAddress ?? '').replace(/^::ffff:(?=\d+\.)/, '')
    if (holds(proxies, peer)) {
      return headers['x-forwarded-proto'] === 'https' ? 'https' : 'refused'
    }
    return holds(loopback, peer) ? 'loopback' : 'refused'
  }
}

function networks (texts: readonly string[]): BlockList {
  const list = new BlockList()
  for (const text of texts) {
    const [address = '', bits] = text.split('/')
    const version = isIP(address)
    if (version === 0) throw new TypeError(`TRUSTED_PROXIES: "${text}" is no address or network`)
    const prefix = bits === undefined ? (version === 4 ? 32 : 128) : Number(bits)
    list.addSubnet(address, prefix, version === 4 ? 'ipv4' : 'ipv6')
  }
  return list
}

function holds (list: BlockList, address: string): boolean {
  const version = isIP(address)
  return version !== 0 && list.check(address, version === 4 ? 'ipv4' : 'ipv6')
}
