import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Server } from 'node:https'
import { createSecureContext } from 'node:tls'
import Type, { type Static } from 'typebox'
import type { Log } from './log.ts'

/** Settings of the certificate that servers show to customers. */
export const certificateFields = {
  TLS_CERT_FILE: Type.String({
    default: '', description: 'PEM file with the certificate and its chain; needs TLS_KEY_FILE.',
  }),
  TLS_KEY_FILE: Type.String({
    default: '', description: 'PEM file with the key of TLS_CERT_FILE.',
  }),
  TLS_RELOAD_MS: Type.Integer({
    default: 5_000,
    minimum: 10,
    description: 'Interval of checks for a renewed certificate; SIGHUP checks at once.',
  }),
}

export type CertificateSettings = Static<ReturnType<typeof Type.Object<typeof certificateFields>>>
type Certificate = { readonly cert: Buffer, readonly key: Buffer }

/**
 * The certificate and its key, after a check that they belong together; undefined if neither file
 * is set.
 * @throws TypeError for files that cannot be used.
 */
export function readCertificate (
  { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile }: CertificateSettings
): Certificate | undefined {
  if (certFile === '' && keyFile === '') return undefined
  if (certFile === '' || keyFile === '') {
    throw new TypeError('Set both TLS_CERT_FILE and TLS_KEY_FILE, or neither.')
  }
  try {
    const certificate = { cert: readFileSync(certFile), key: readFileSync(keyFile) }
    createSecureContext(certificate)
    return certificate
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new TypeError(`TLS_CERT_FILE and TLS_KEY_FILE cannot be used (${why}). ` +
      'Use PEM files of a certificate and its key that this process can read.', {
      cause: error,
    })
  }
}

type Renewal = {
  readonly settings: CertificateSettings
  readonly log: Pick<Log, 'info' | 'error'>
}

/**
 * Loads renewed files on SIGHUP and by polling until the server is closed; invalid ones leave the
 * old certificate in place.
 */
export function renewCertificate (
  server: Server, { cert, key }: Certificate, { settings, log }: Renewal
): void {
  const renew = () => {
    try {
      const renewed = readCertificate(settings)
      if (renewed === undefined) return
      server.setSecureContext({ ...renewed, minVersion: 'TLSv1.2' })
      log.info({ expires: new X509Certificate(renewed.cert).validTo }, 'certificate loaded')
    } catch (error) {
      log.error({ err: error }, 'failed to load the renewed certificate, keeping the old one')
    }
  }
  let seen = [cert, key].map(content => content.toString('latin1')).join('\n')
  // Compares contents: a file watcher would miss a change before its start.
  const poll = () => {
    const before = seen
    seen = readContent(settings)
    if (seen !== before) renew()
  }
  const timer = setInterval(poll, settings.TLS_RELOAD_MS).unref()
  process.on('SIGHUP', renew)
  server.once('close', () => {
    process.off('SIGHUP', renew)
    clearInterval(timer)
  })
}

/** The contents of both files for comparison; an unreadable file counts as empty. */
function readContent (
  { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile }: CertificateSettings
): string {
  return [certFile, keyFile].map(file => {
    try {
      return readFileSync(file, 'latin1')
    } catch {
      return ''
    }
  }).join('\n')
}
