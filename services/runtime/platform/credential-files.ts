import { readFileSync, unwatchFile, watchFile } from 'node:fs'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import type { Log } from './log.ts'

/**
 * A password in a file, read at each sign-in, so that it is replaced without a restart. It is the
 * last one while the file is empty or cannot be read, as in the moment when it is written.
 * @throws Error of the file system if there is no such file at first.
 */
export class PasswordFile {
  readonly #path: string
  #last: string

  constructor (path: string) {
    this.#path = path
    this.#last = this.#read()
  }

  toString (): string {
    try {
      this.#last = this.#read() || this.#last
    } catch {
      // Keeps the last one.
    }
    return this.#last
  }

  #read (): string {
    return readFileSync(this.#path, 'utf8').replace(/\r?\n$/, '')
  }
}

/** A client certificate and its key, both PEM. They are read again when a client copies them. */
export const certificateFiles = (certFile: string, keyFile: string) => ({
  get cert () { return readFileSync(certFile) },
  get key () { return readFileSync(keyFile) },
})

const WATCH_EVERY_MS = 5_000
const CERTIFICATE = /-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----/gs

/**
 * Makes new connections of this process trust what NODE_EXTRA_CA_CERTS contains now: Node itself
 * reads it only when it starts. Returns a function that ends the watch.
 */
export function watchAuthorities (log: Pick<Log, 'info' | 'error'>): () => void {
  const file = process.env['NODE_EXTRA_CA_CERTS'] ?? ''
  if (file === '') return () => {}
  const extra = new Set(getCACertificates('extra'))
  const others = getCACertificates('default').filter(certificate => !extra.has(certificate))
  watchFile(file, { interval: WATCH_EVERY_MS, persistent: false }, () => {
    try {
      const certificates = readFileSync(file, 'utf8').match(CERTIFICATE)
      if (certificates === null) throw new TypeError('there is no certificate in it')
      setDefaultCACertificates([...others, ...certificates])
      log.info({ certificates: certificates.length }, 'certificate authorities read again')
    } catch (error) {
      log.error({ err: error },
        'NODE_EXTRA_CA_CERTS cannot be read again, the authorities stay those before')
    }
  })
  return () => unwatchFile(file)
}
