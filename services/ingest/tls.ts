import { createServer, type Server } from 'node:https'
import type { FastifyInstance } from 'fastify'
import Type, { type Static } from 'typebox'
import {
  certificateFields, readCertificate, renewCertificate,
} from '../runtime/platform/certificate.ts'
import type { Log } from '../runtime/platform/log.ts'
import { guardConnections } from '../runtime/platform/peer-guards.ts'
import { type ConnectionSettings, listenAt, nodeLimits } from '../runtime/platform/http-server.ts'
import { parseNetworks } from '../runtime/platform/networks.ts'
import { allowHalfOpen } from './body.ts'

/** Settings of TLS; without both files there is only the plain listener. */
export const tlsFields = {
  ...certificateFields,
  PORT_HTTPS: Type.Integer({
    default: 8443,
    minimum: 0,
    maximum: 65_535,
    description: 'Port of the interface with TLS, if TLS_CERT_FILE is set; 0 uses a free one.',
  }),
}

type TlsSettings = Static<ReturnType<typeof Type.Object<typeof tlsFields>>>
type Options = {
  readonly settings: TlsSettings & ConnectionSettings & {
    readonly HOST: string
    readonly TRUSTED_PROXIES: readonly string[]
  }
  readonly log: Log
}

export type TlsListener = { readonly port: number, readonly stop: () => Promise<void> }

/** Connections without a completed handshake are closed after this time. */
const HANDSHAKE_TIMEOUT_MS = 10_000

/**
 * Serves the application over TLS beside its plain listener; does nothing without a certificate.
 * @throws TypeError for files that cannot be used.
 */
export async function listenTls (
  app: FastifyInstance, { settings, log }: Options
): Promise<TlsListener | undefined> {
  const certificate = readCertificate(settings)
  if (certificate === undefined) return undefined
  const server = createServer({
    ...certificate,
    ...nodeLimits(settings),
    minVersion: 'TLSv1.2',
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
  })
  allowHalfOpen(server)
  // Only after the handshake: a client that refuses the certificate closes its side before.
  server.on('secureConnection', socket => { socket.allowHalfOpen = true })
  limit(server, app, settings)
  renewCertificate(server, certificate, { settings, log })
  const stop = async () => {
    await new Promise(resolve => server.close(resolve))
  }
  const port = await listenAt(
    server, { host: settings.HOST, port: settings.PORT_HTTPS }, 'PORT_HTTPS')
  log.info({ port }, 'TLS listener started')
  return { stop, port }
}

/** Limits that a server accepts only after its creation, and the handlers of invalid requests. */
function limit (server: Server, app: FastifyInstance, settings: Options['settings']): void {
  server.setTimeout(settings.CONNECTION_TIMEOUT_MS)
  for (const event of ['clientError', 'checkExpectation', 'connect']) {
    for (const listener of app.server.listeners(event)) {
      server.on(event, listener as () => void)
    }
  }
  server.on('request', app.routing)
  guardConnections(server, settings, parseNetworks(settings.TRUSTED_PROXIES, 'TRUSTED_PROXIES'))
}
