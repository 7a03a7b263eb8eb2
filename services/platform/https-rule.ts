import type { IncomingMessage } from 'node:http'
import { LOOPBACK, networksOf, plainAddress } from './networks.ts'

/** How a request arrived at this process. */
export type Transport = 'https' | 'loopback' | 'refused'

/**
 * Decides whether a request counts as HTTPS: TLS, or a trusted proxy that forwards `https`. Plain
 * HTTP is accepted from loopback only, and not from a local proxy that forwards `http`.
 * @throws TypeError for a proxy that is not an address or network.
 */
export function createHttpsRule (trustedProxies: readonly string[]) {
  const proxies = networksOf(trustedProxies, 'TRUSTED_PROXIES')

  return function arrivalOf ({ socket, headers }: IncomingMessage): Transport {
    if ('encrypted' in socket && socket.encrypted === true) return 'https'
    const peer = plainAddress(socket.remoteAddress)
    const outer = headers['x-forwarded-proto']
    if (proxies.has(peer)) return outer === 'https' ? 'https' : 'refused'
    const isLocal = LOOPBACK.has(peer) && (outer === undefined || outer === 'https')
    return isLocal ? 'loopback' : 'refused'
  }
}
