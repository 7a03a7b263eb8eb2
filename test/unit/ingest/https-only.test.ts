import type { FastifyReply, FastifyRequest } from 'fastify'
import { describe, expect, it } from 'vitest'
import { createHttpsCheck } from '../../../services/ingest/https-only.ts'

type Peer = {
  readonly remoteAddress?: string
  readonly encrypted?: boolean
  readonly proto?: string
}

const requestFrom = ({ proto, ...socket }: Peer) => ({
  raw: { socket, headers: proto === undefined ? {} : { 'x-forwarded-proto': proto } },
}) as unknown as FastifyRequest

let headers: object = {}
const reply = { headers: (given: object) => { headers = given } } as unknown as FastifyReply

describe('the rule of HTTPS', () => {
  const requireHttps = createHttpsCheck(['192.0.2.7', '2001:db8::/32'])

  it.each<[what: string, peer: Peer]>([
    ['TLS from anywhere', { remoteAddress: '198.51.100.1', encrypted: true }],
    ['a proxy by its address', { remoteAddress: '192.0.2.7', proto: 'https' }],
    ['a proxy by its network, IPv6', { remoteAddress: '2001:db8:1::5', proto: 'https' }],
  ])('lets %s through', (_, peer) => {
    headers = {}
    expect(() => requireHttps(requestFrom(peer), reply)).not.toThrow()
    expect(headers).toEqual({ 'strict-transport-security': 'max-age=31536000' })
  })

  it.each<[what: string, peer: Peer]>([
    ['the neighbour of a proxy', { remoteAddress: '192.0.2.8', proto: 'https' }],
    ['another IPv6 network', { remoteAddress: '2001:db9::1', proto: 'https' }],
    ['a peer without an address', {}],
    ['a socket that is not encrypted', { remoteAddress: '198.51.100.1', encrypted: false }],
  ])('stops %s', (_, peer) => {
    expect(() => requireHttps(requestFrom(peer), reply))
      .toThrow(expect.objectContaining({ fault: { code: 'https_required' } }))
  })

  it('lets this machine through without TLS, and promises browsers nothing', () => {
    headers = {}
    expect(() => requireHttps(requestFrom({ remoteAddress: '127.0.0.1' }), reply)).not.toThrow()
    expect(headers).toEqual({})
  })

  it('names the proxy that is no address', () => {
    expect(() => createHttpsCheck(['10.0.0.0/8', 'proxy']))
      .toThrow('TRUSTED_PROXIES: "proxy" is not an address or network')
  })
})
