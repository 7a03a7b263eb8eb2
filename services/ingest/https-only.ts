import { BlockList, isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'
import { FaultError } from './errors.ts'

/**
 * Builds the check that a request came over HTTPS: by TLS, or from a configured proxy that says so
 * of its own side; plain HTTP is for loopback alone. Throws TypeError for a proxy that is neither
 * an address nor a network.
 */
export function createHttpsRule (trustedProxies: readonly string[]) {
  const proxies = networks(trustedProxies)
  const loopback = networks(['127.0.0.0/8', '::1'])

  return function requireHttps (request: FastifyRequest): void {
    const { socket, headers } = request.raw
    if ('encrypted' in socket && socket.encrypted === true) return
    const peer = socket.remoteAddress ?? ''
    const isSafe = holds(proxies, peer)
      ? headers['x-forwarded-proto'] === 'https'
      : holds(loopback, peer)
    if (!isSafe) throw new FaultError({ code: 'https_required' })
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

function holds (list: BlockList, peer: string): boolean {
  const address = peer.replace(/^::ffff:(?=\d+\.)/, '')
  const version = isIP(address)
  return version !== 0 && list.check(address, version === 4 ? 'ipv4' : 'ipv6')
}
