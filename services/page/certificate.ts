import { readFileSync } from 'node:fs'
import type { PageConfig } from './config.ts'

/**
 * The certificate and key to listen with; undefined when neither file is set.
 * @throws TypeError when only one of the files is set, and the error of an unreadable file.
 */
export function certificateOf (
  settings: Pick<PageConfig, 'TLS_CERT_FILE' | 'TLS_KEY_FILE'>
): { readonly cert: Buffer, readonly key: Buffer } | undefined {
  const { TLS_CERT_FILE: cert, TLS_KEY_FILE: key } = settings
  if (cert === '' && key === '') return undefined
  if (cert === '' || key === '') {
    const [set, unset] = cert === ''
      ? ['TLS_KEY_FILE', 'TLS_CERT_FILE']
      : ['TLS_CERT_FILE',
          'TLS_KEY_FILE']
    throw new TypeError(`${set} is set, but ${unset} is not: set both, or neither.`)
  }
  return { cert: readFileSync(cert), key: readFileSync(key) }
}
