import type { Server } from 'node:net'
import Type from 'typebox'
import { clientNetwork, plainAddress, type Networks } from './networks.ts'

/** The values of the public interface. */
export const CONNECTION_DEFAULTS = {
  HEADERS_TIMEOUT_MS: 10_000,
  REQUEST_TIMEOUT_MS: 60_000,
  BODY_GRACE_MS: 5_000,
  BODY_BYTES_PER_SECOND: 16_384,
  CONNECTION_TIMEOUT_MS: 120_000,
  KEEP_ALIVE_TIMEOUT_MS: 72_000,
  MAX_CONNECTIONS: 10_000,
  MAX_CONNECTIONS_PER_ADDRESS: 1_000,
  MAX_REQUESTS_PER_CONNECTION: 10_000,
}

export type ConnectionSettings = Readonly<typeof CONNECTION_DEFAULTS>

const whole = (key: keyof ConnectionSettings, description: string) =>
  Type.Integer({ default: CONNECTION_DEFAULTS[key], minimum: 1, description })

/** What can be set about connections; the defaults keep slow and idle clients from filling up. */
export const connectionFields = {
  HEADERS_TIMEOUT_MS: whole('HEADERS_TIMEOUT_MS',
    'Longest the headers of a request may take to arrive.'),
  REQUEST_TIMEOUT_MS: whole('REQUEST_TIMEOUT_MS', 'Longest a whole request may take to arrive.'),
  BODY_GRACE_MS: whole('BODY_GRACE_MS',
    'For so long after its headers a body may come as slowly as it likes.'),
  BODY_BYTES_PER_SECOND: whole('BODY_BYTES_PER_SECOND',
    'After BODY_GRACE_MS a body over 64 KiB must have come at least so fast on average, and fast ' +
    'enough to be whole within REQUEST_TIMEOUT_MS; else it is answered 408.'),
  CONNECTION_TIMEOUT_MS: whole('CONNECTION_TIMEOUT_MS',
    'After so long without a byte a connection is closed.'),
  KEEP_ALIVE_TIMEOUT_MS: whole('KEEP_ALIVE_TIMEOUT_MS',
    'How long a connection stays open between two requests.'),
  MAX_CONNECTIONS: whole('MAX_CONNECTIONS', 'Connections open at once; further ones are closed.'),
  MAX_CONNECTIONS_PER_ADDRESS: whole('MAX_CONNECTIONS_PER_ADDRESS',
    'Of them, those of one address or /64 network of IPv6; proxies in TRUSTED_PROXIES may have ' +
    'any number.'),
  MAX_REQUESTS_PER_CONNECTION: whole('MAX_REQUESTS_PER_CONNECTION',
    'Then a connection is closed, so that clients spread over instances.'),
}

/** Twice a second, or sooner where the times are short. */
const CHECK_EVERY_MS = 500

/** Limits of a server of Node, which speaks HTTP or HTTPS. */
export function nodeLimits (settings: ConnectionSettings) {
  return {
    headersTimeout: settings.HEADERS_TIMEOUT_MS,
    requestTimeout: settings.REQUEST_TIMEOUT_MS,
    keepAliveTimeout: settings.KEEP_ALIVE_TIMEOUT_MS,
    connectionsCheckingInterval: Math.min(CHECK_EVERY_MS, settings.HEADERS_TIMEOUT_MS),
    // Its refusal has no body; ours has.
    requireHostHeader: false,
  }
}

/** The same limits, where the web framework wants them. */
export function frameworkLimits (settings: ConnectionSettings) {
  const { requestTimeout, keepAliveTimeout, ...http } = nodeLimits(settings)
  return {
    requestTimeout,
    keepAliveTimeout,
    connectionTimeout: settings.CONNECTION_TIMEOUT_MS,
    http,
  }
}

/**
 * Closes connections above the number there may be, in all and of one client. Proxies are left out
 * of the latter: they bring the connections of many.
 */
export function capConnections (
  server: Pick<Server, 'on' | 'maxConnections'>, settings: ConnectionSettings, proxies: Networks
): void {
  server.maxConnections = settings.MAX_CONNECTIONS
  const open = new Map<string, number>()
  server.on('connection', socket => {
    if (proxies.hold(plainAddress(socket.remoteAddress))) return
    const client = clientNetwork(socket.remoteAddress)
    const before = open.get(client) ?? 0
    if (before >= settings.MAX_CONNECTIONS_PER_ADDRESS) {
      socket.destroy()
      return
    }
    open.set(client, before + 1)
    socket.once('close', () => {
      const left = (open.get(client) ?? 0) - 1
      if (left > 0) open.set(client, left)
      else open.delete(client)
    })
  })
}
