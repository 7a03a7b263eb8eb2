import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:https'
import { createSecureContext } from 'node:tls'
import type { FastifyInstance } from 'fastify'
import Type, { type Static } from 'typebox'
import type { Log } from '../platform/log.ts'
import { capConnections, nodeLimits, type ConnectionSettings } from '../platform/http-limits.ts'
import { networksOf } from '../platform/networks.ts'
import { allowHalfOpen } from './whole-body.ts'

/** What can be set about TLS; without both files there is only the plain listener. */
export const tlsFields = {
  TLS_CERT_FILE: Type.String({
    default: '', description: 'PEM file with the certificate and its chain; needs TLS_KEY_FILE.',
  }),
  TLS_KEY_FILE: Type.String({
    default: '', description: 'PEM file with the key of TLS_CERT_FILE.',
  }),
  PORT_HTTPS: Type.Integer({
    default: 8443,
    minimum: 0,
    maximum: 65_535,
    description: 'Port of the interface with TLS, if TLS_CERT_FILE is given; 0 takes a free one.',
  }),
  TLS_RELOAD_MS: Type.Integer({
    default: 5_000,
    minimum: 10,
    description: 'Pause between two looks for a renewed certificate; SIGHUP looks at once.',
  }),
}

type TlsSettings = Static<ReturnType<typeof Type.Object<typeof tlsFields>>>
type Options = {
  readonly settings: TlsSettings & ConnectionSettings & {
    readonly HOST: string
    readonly TRUSTED_PROXIES: readonly string[]
  }
  readonly log: Pick<Log, 'info' | 'error'>
}
type Pair = { readonly cert: Buffer, readonly key: Buffer }

export type TlsListener = { readonly port: number, readonly stop: () => Promise<void> }

/** A connection that does not come through its handshake is closed after so long. */
const HANDSHAKE_TIMEOUT_MS = 10_000

/**
 * Serves the application over TLS beside its plain listener, or does nothing when no certificate is
 * configured. A renewed pair of files is taken up on SIGHUP and by itself; one that can't be used
 * leaves the old one in place. @throws TypeError with what to do for files that can't be used.
 */
export async function listenTls (
  app: FastifyInstance, { settings, log }: Options
): Promise<TlsListener | undefined> {
  const { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile } = settings
  if (certFile === '' && keyFile === '') return undefined
  let seen = contentOf(settings)
  const server = createServer({
    ...readPair(settings),
    ...nodeLimits(settings),
    minVersion: 'TLSv1.2',
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
  }, app.routing)
  allowHalfOpen(server)
  // Only after the handshake: a client that refuses the certificate closes its side before.
  server.on('secureConnection', socket => { socket.allowHalfOpen = true })
  limit(server, app, settings)
  const renew = () => renewPair(server, settings, log)
  // A watcher would not know of a change before its own first look.
  const look = () => {
    const before = seen
    seen = contentOf(settings)
    if (seen !== before) renew()
  }
  const timer = setInterval(look, settings.TLS_RELOAD_MS).unref()
  process.on('SIGHUP', renew)
  const stop = async () => {
    process.off('SIGHUP', renew)
    clearInterval(timer)
    await new Promise(resolve => server.close(resolve))
  }
  server.listen({ host: settings.HOST, port: settings.PORT_HTTPS })
  try {
    await once(server, 'listening')
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new TypeError(`PORT_HTTPS ${settings.PORT_HTTPS} can't be listened on (${why}). ` +
      'Give another one, or 0 for any that is free.', { cause })
  }
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  log.info({ port }, 'the interface is served with TLS')
  return { stop, port }
}

/** The limits that a server takes only after it was made, and the answer to what is no request. */
function limit (server: Server, app: FastifyInstance, settings: Options['settings']): void {
  server.setTimeout(settings.CONNECTION_TIMEOUT_MS)
  capConnections(server, settings, networksOf(settings.TRUSTED_PROXIES, 'TRUSTED_PROXIES'))
  for (const event of ['clientError', 'checkExpectation', 'connect']) {
    for (const listener of app.server.listeners(event)) {
      server.on(event, listener as () => void)
    }
  }
}

/** Both files as one text to compare; a file that can't be read is like an empty one. */
function contentOf ({ TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile }: TlsSettings): string {
  return [certFile, keyFile].map(file => {
    try {
      return readFileSync(file, 'latin1')
    } catch {
      return ''
    }
  }).join('\n')
}

function renewPair (server: Server, settings: TlsSettings, log: Options['log']): void {
  try {
    const pair = readPair(settings)
    server.setSecureContext({ ...pair, minVersion: 'TLSv1.2' })
    log.info({ expires: new X509Certificate(pair.cert).validTo }, 'certificate taken up')
  } catch (error) {
    log.error({ err: error }, 'the certificate could not be renewed; the old one stays in use')
  }
}

/** The two files, once it is certain that they belong together and can be used. */
function readPair ({ TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile }: TlsSettings): Pair {
  if (certFile === '' || keyFile === '') {
    throw new TypeError('Give both TLS_CERT_FILE and TLS_KEY_FILE, or neither.')
  }
  try {
    const pair = { cert: readFileSync(certFile), key: readFileSync(keyFile) }
    createSecureContext(pair)
    return pair
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new TypeError(`TLS_CERT_FILE and TLS_KEY_FILE cannot be used (${why}). ` +
      'Give a certificate and its own key as PEM files that this process may read.', {
      cause: error,
    })
  }
}
