import { finished, PassThrough, type Readable } from 'node:stream'
import { constants, createGunzip, createZstdDecompress } from 'node:zlib'
import { ApiException } from './errors.ts'

/** Content codings of request bodies. */
const CODINGS = ['gzip', 'zstd'] as const

export type BodyCoding = typeof CODINGS[number]

/** The Accept-Encoding header of an answer that refuses a coding (RFC 9110, 12.5.3). */
export const ACCEPTED_CODINGS = `${CODINGS.join(', ')}, identity`

/** The largest window that a sender over HTTP may use: 8 MiB (RFC 9659). */
const ZSTD_WINDOW_LOG = 23
const CHUNK_BYTES = 65_536

/** The coding of a body, `identity` without the header; undefined if it is not supported. */
export function bodyCodingOf (header: string | undefined): BodyCoding | 'identity' | undefined {
  const name = header?.trim().toLowerCase() ?? 'identity'
  if (name === 'identity') return name
  // A recipient considers x-gzip equivalent to gzip (RFC 9110, 8.4.1.3).
  return name === 'x-gzip' ? 'gzip' : CODINGS.find(coding => coding === name)
}

/**
 * Decompresses a body as fast as it is read, with a few buffers of memory. Fails with ApiException
 * if the body is not whole or not what its coding says, and with the error of the body if that
 * fails. Never destroys the body, which would close the connection before the response; its rest is
 * drained once the decoded body is closed.
 */
export function decodedBody (body: Readable, coding: BodyCoding): Readable {
  const decoder = createDecoder(coding)
  let receivedBytes = 0
  body.on('data', (piece: Buffer) => { receivedBytes += piece.length })
  const decoded = new PassThrough({
    flush: done => {
      // The decoder ignores what follows the first frame of a buffer.
      const isWhole = decoder.bytesWritten === receivedBytes
      done(isWhole ? null : decodingError(coding, 'Send one frame, with nothing after it.'))
    },
  })
  // The framework compares this with the Content-Length.
  Object.defineProperty(decoded, 'receivedEncodedLength', { get: () => receivedBytes })
  decoder.once('error', cause => decoded.destroy(isOfDecoder(cause)
    ? decodingError(coding, 'Compress it again, or send it without Content-Encoding.')
    : cause))
  finished(body, { writable: false }, error => { if (error) decoder.destroy(error) })
  decoded.once('close', () => {
    body.unpipe(decoder)
    decoder.destroy()
    body.resume()
  })
  body.pipe(decoder).pipe(decoded)
  return decoded
}

function createDecoder (coding: BodyCoding) {
  if (coding === 'gzip') return createGunzip({ chunkSize: CHUNK_BYTES })
  const params = { [constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG }
  return createZstdDecompress({ chunkSize: CHUNK_BYTES, params })
}

function isOfDecoder (error: Error & { readonly code?: string }): boolean {
  return /^(Z|ZSTD_error)_/.test(error.code ?? '')
}

function decodingError (coding: BodyCoding, advice: string): ApiException {
  return new ApiException({
    code: 'invalid_encoding',
    param: 'Content-Encoding',
    message: `The body is not valid ${coding}. ${advice}`,
  })
}
