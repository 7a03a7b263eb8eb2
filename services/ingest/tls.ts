import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:https'
import { createSecureContext } from 'node:tls'
import type { FastifyInstance } from 'fastify'
import Type, { type Static } from 'typebox'
import type { Log } from '../runtime/platform/log.ts'
import { guardConnections } from '../runtime/platform/peer-guards.ts'
import { type ConnectionSettings, listenAt, nodeLimits } from '../runtime/platform/http-server.ts'
import { parseNetworks } from '../runtime/platform/networks.ts'
import { allowHalfOpen } from './body.ts'

/** Settings of TLS; without both files there is only the plain listener. */
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
    description: 'Port of the interface with TLS, if TLS_CERT_FILE is set; 0 uses a free one.',
  }),
  TLS_RELOAD_MS: Type.Integer({
    default: 5_000,
    minimum: 10,
    description: 'Interval of checks for a renewed certificate; SIGHUP checks at once.',
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
type Pair = { readonly cert: Buffer, readonly key: Buffer }

export type TlsListener = { readonly port: number, readonly stop: () => Promise<void> }

/** Connections without a completed handshake are closed after this time. */
const HANDSHAKE_TIMEOUT_MS = 10_000

/**
 * Serves the application over TLS beside its plain listener; does nothing without a certificate.
 * Renewed files are loaded on SIGHUP and by polling; invalid ones leave the old certificate in
 * place.
 * @throws TypeError for files that cannot be used.
 */
export async function listenTls (
  app: FastifyInstance, { settings, log }: Options
): Promise<TlsListener | undefined> {
  const { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile } = settings
  if (certFile === '' && keyFile === '') return undefined
  let seen = readContent(settings)
  const server = createServer({
    ...readPair(settings),
    ...nodeLimits(settings),
    minVersion: 'TLSv1.2',
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
  })
  allowHalfOpen(server)
  // Only after the handshake: a client that refuses the certificate closes its side before.
  server.on('secureConnection', socket => { socket.allowHalfOpen = true })
  limit(server, app, settings)
  const renew = () => reloadPair(server, settings, log)
  // Compares contents: a file watcher would miss a change before its start.
  const poll = () => {
    const before = seen
    seen = readContent(settings)
    if (seen !== before) renew()
  }
  const timer = setInterval(poll, settings.TLS_RELOAD_MS).unref()
  process.on('SIGHUP', renew)
  const stop = async () => {
    process.off('SIGHUP', renew)
    clearInterval(timer)
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

/** The contents of both files for comparison; an unreadable file counts as empty. */
function readContent ({ TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile }: TlsSettings): string {
  return [certFile, keyFile].map(file => {
    try {
      return readFileSync(file, 'latin1')
    } catch {
      return ''
    }
  }).join('\n')
}

function reloadPair (server: Server, settings: TlsSettings, log: Options['log']): void {
  try {
    const pair = readPair(settings)
    server.setSecureContext({ ...pair, minVersion: 'TLSv1.2' })
    log.info({ expires: new X509Certificate(pair.cert).validTo }, 'certificate loaded')
  } catch (error) {
    log.error({ err: error }, 'failed to load the renewed certificate, keeping the old one')
  }
}

/** Both files, after a check that they belong together. */
function readPair ({ TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile }: TlsSettings): Pair {
  if (certFile === '' || keyFile === '') {
    throw new TypeError('Set both TLS_CERT_FILE and TLS_KEY_FILE, or neither.')
  }
  try {
    const pair = { cert: readFileSync(certFile), key: readFileSync(keyFile) }
    createSecureContext(pair)
    return pair
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new TypeError(`TLS_CERT_FILE and TLS_KEY_FILE cannot be used (${why}). ` +
      'Use PEM files of a certificate and its key that this process can read.', {
      cause: error,
    })
  }
}
