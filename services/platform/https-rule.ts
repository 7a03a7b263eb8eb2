import type { IncomingMessage } from 'node:http'
import { LOOPBACK, networksOf, plainAddress } from './networks.ts'

/** How a request reached this process. */
export type Arrival = 'https' | 'loopback' | 'refused'

/**
 * Builds the rule of HTTPS: TLS, or a configured proxy that says so of its own side. Plain HTTP is
 * for loopback alone, unless a proxy on this machine says that its client uses it. Throws TypeError
 * for a proxy that is neither an address nor a network.
 */
export function createHttpsRule (trustedProxies: readonly string[]) {
  const proxies = networksOf(trustedProxies, 'TRUSTED_PROXIES')

  return function arrivalOf ({ socket, headers }: IncomingMessage): Arrival {
    if ('encrypted' in socket && socket.encrypted === true) return 'https'
    const peer = plainAddress(socket.remoteAddress)
    const outer = headers['x-forwarded-proto']
    if (proxies.hold(peer)) return outer === 'https' ? 'https' : 'refused'
    const isLocal = LOOPBACK.hold(peer) && (outer === undefined || outer === 'https')
    return isLocal ? 'loopback' : 'refused'
  }
}
