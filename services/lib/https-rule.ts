import type { IncomingMessage } from 'node:http'
import { LOOPBACK, networksOf, plainAddress } from './networks.ts'

/** How a request reached this process. */
export type Arrival = 'https' | 'loopback' | 'refused'

/**
 * Builds the rule of HTTPS: TLS, or a configured proxy that says so of its own side; plain HTTP is
 * for loopback alone. Throws TypeError for a proxy that is neither an address nor a network.
 */
export function createHttpsRule (trustedProxies: readonly string[]) {
  const proxies = networksOf(trustedProxies, 'TRUSTED_PROXIES')

  return function arrivalOf ({ socket, headers }: IncomingMessage): Arrival {
    if ('encrypted' in socket && socket.encrypted === true) return 'https'
    const peer = plainAddress(socket.remoteAddress)
    if (proxies.hold(peer)) {
      return headers['x-forwarded-proto'] === 'https' ? 'https' : 'refused'
    }
    return LOOPBACK.hold(peer) ? 'loopback' : 'refused'
  }
}
