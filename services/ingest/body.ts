import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify'
import { isUtf8 } from 'node:buffer'
import { finished, PassThrough, pipeline, type Readable } from 'node:stream'
import { constants, createGunzip, createZstdDecompress } from 'node:zlib'
import { MAX_BODY_BYTES } from '../../schemas/api/create-job.ts'
import { type ApiError, ApiException } from './errors.ts'
import { findJsonError, FORBIDDEN_NAME, inspectJson } from './json-text.ts'
import { sendRaw } from './response.ts'
import { detachBuffer } from '../runtime/crypto/seal.ts'
import { eventLoop, FairPool } from '../runtime/platform/limits.ts'
import {
  BodyGuard, contentLength, type MinimumThroughput, SMALL_BODY_BYTES,
} from '../runtime/platform/peer-guards.ts'

/** Holds a file of 100,000 phone numbers. */
const GUARANTEED_PART = 1 / 8

/**
 * The memory for bodies in flight, in bytes, which organizations share. So many large bodies at
 * once cannot exhaust it, and the bodies of one organization cannot refuse those of another.
 */
export function createBodyBudget (totalBytes: number): FairPool {
  return new FairPool({ capacity: totalBytes, guaranteed: totalBytes * GUARANTEED_PART })
}

/** What a route with large bodies has in common with all others. */
export type LargeBody = Required<
  Pick<RouteOptions, 'bodyLimit' | 'onRequest' | 'preParsing' | 'onSend'>>

/**
 * Limit and hooks of routes with large bodies. A body for which there is no memory gets 503:
 * before it is read if its Content-Length says so, or as it grows. The parsers get the decompressed
 * body. A client that is slower than the minimum throughput gets 408 and is disconnected.
 */
export function reserveMemory (pool: FairPool, minimum: MinimumThroughput): LargeBody {
  const guard = new BodyGuard({
    pool,
    minimum,
    maxBytes: MAX_BODY_BYTES,
    end: ({ raw, id }, why) =>
      sendRaw(raw.socket, why === 'slow' ? 'request_timeout' : 'temporarily_unavailable', id),
  })
  return {
    bodyLimit: MAX_BODY_BYTES,
    onRequest: async request => {
      const length = contentLength(request) ?? 0
      if (length > MAX_BODY_BYTES) throw new ApiException({ code: 'body_too_large' })
      const memory = guard.open(request, request.caller?.org ?? '')
      request.growMemory = bytes => memory.grow(bytes)
      if (length > SMALL_BODY_BYTES && !memory.canGrow(length)) {
        throw new ApiException({ code: 'temporarily_unavailable' })
      }
    },
    // Without a promise, so that no byte arrives between this hook and the reader of the body.
    preParsing: (...[request, reply, payload, done]) => {
      const arriving = payload as Readable
      const coding = parseCoding(request.headers['content-encoding']) ?? 'identity'
      const body = coding === 'identity' ? arriving : decompress(arriving, coding)
      if (body !== arriving) reply.raw.once('close', () => body.destroy())
      guard.watch(request, arriving, body)
      done(null, body)
    },
    onSend: async request => guard.release(request),
  }
}

/**
 * Accepts `application/json` in UTF-8 as body; Fastify rejects media types without a parser once
 * its own ones are removed. Large bodies are parsed one per slot of the event loop, so that they do
 * not block others.
 */
export function acceptJson (app: FastifyInstance): void {
  // The parser of Fastify rejects __proto__ and constructor.prototype at any depth.
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, async (
    request: FastifyRequest, body: Buffer
  ) => {
    // Some clients send a media type without a body.
    if (body.length === 0 && !takesBody(request)) return undefined
    if (body.length > SMALL_BODY_BYTES) await eventLoop.yield('bulk', request.caller?.tenant)
    const text = readText(body)
    return await new Promise((resolve, reject) => parse(request, text, (error, value) =>
      error ? reject(new ApiException(findSyntaxError(text))) : resolve(value)))
  })
}

/**
 * Processes a request once its last byte is received, even if the client has disconnected. Node
 * drops the buffered body when a connection is reset, so a body is read from the start, up to the
 * size that needs no reservation, and not only after the key is checked. A client that half-closes
 * its connection after the request gets its response.
 */
export function acceptCompleteBodies (app: FastifyInstance): void {
  allowHalfOpen(app.server)
  const bodies = new WeakMap<FastifyRequest, PassThrough>()
  app.addHook('onRequest', (request, reply, done) => {
    if (request.method === 'POST' || request.method === 'PATCH') {
      const body = new PassThrough({ highWaterMark: SMALL_BODY_BYTES })
      bodies.set(request, body)
      // A truncated body is destroyed, which its reader sees.
      pipeline(request.raw, body, () => {})
      // Drains the rest of a rejected request, so that it is not parsed as the next one.
      reply.raw.once('finish', () => body.resume())
    }
    done()
  })
  app.addHook('preParsing', (...[request, , payload, done]) => {
    const body = bodies.get(request) ?? payload
    if (body.destroyed) done(new ApiException({ code: 'request_timeout' }))
    else done(null, body)
  })
}

/** Lets a server respond on a connection that the client has half-closed. */
export function allowHalfOpen (server: object): void {
  Object.assign(server, { httpAllowHalfOpen: true })
}

/** Whether the route of a request reads a body: JSON that has a schema, or a file. */
export function takesBody ({ routeOptions: { schema, config } }: FastifyRequest): boolean {
  return schema?.body !== undefined || config.takesFile !== undefined
}

/** Whether the headers of a request exclude its body before it is read. */
export function bodyHeaderError (request: FastifyRequest): ApiException | undefined {
  const { 'content-encoding': encoding, 'content-type': type } = request.headers
  const coding = parseCoding(encoding)
  // Without a reservation of memory nothing is decompressed.
  const isSmall = request.routeOptions.bodyLimit <= SMALL_BODY_BYTES
  if (coding === undefined || (isSmall && coding !== 'identity')) {
    const accepted = isSmall ? 'identity' : ACCEPTED_CODINGS
    return new ApiException({
      code: 'unsupported_media_type',
      message: isSmall
        ? 'The body of this request cannot have a Content-Encoding. Send it without one.'
        : `This Content-Encoding is not supported. Use one of: ${accepted}.`,
      headers: { 'accept-encoding': accepted },
    })
  }
  const charset = /;\s*charset\s*=\s*"?([^\s";]*)/i.exec(type ?? '')?.[1]
  // The bytes of a file show its encoding.
  const charsets = /^text\/csv\b/i.test(type ?? '') ? FILE_CHARSETS : JSON_CHARSETS
  const isSupported = charset === undefined || charsets.test(charset)
  if (type !== undefined && isSupported) return undefined
  return new ApiException({ code: 'unsupported_media_type' })
}

const JSON_CHARSETS = /^utf-?8$/i
const FILE_CHARSETS = /^(?:utf-?8|windows-1252|iso-8859-1)$/i

/** Content codings of request bodies. */
const CODINGS = ['gzip', 'zstd'] as const

type BodyCoding = typeof CODINGS[number]

/** The Accept-Encoding header of an answer that refuses a coding (RFC 9110, 12.5.3). */
const ACCEPTED_CODINGS = `${CODINGS.join(', ')}, identity`

/** The largest window that a sender over HTTP may use: 8 MiB (RFC 9659). */
const ZSTD_WINDOW_LOG = 23
const CHUNK_BYTES = 65_536

/** The coding of a body, `identity` without the header; undefined if it is not supported. */
function parseCoding (header: string | undefined): BodyCoding | 'identity' | undefined {
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
function decompress (body: Readable, coding: BodyCoding): Readable {
  const decoder = coding === 'gzip'
    ? createGunzip({ chunkSize: CHUNK_BYTES })
    : createZstdDecompress({
      chunkSize: CHUNK_BYTES, params: { [constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG },
    })
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
  decoder.once('error', (cause: Error & { readonly code?: string }) => {
    const isInvalid = /^(Z|ZSTD_error)_/.test(cause.code ?? '')
    decoded.destroy(isInvalid
      ? decodingError(coding, 'Compress it again, or send it without Content-Encoding.')
      : cause)
  })
  finished(body, { writable: false }, error => { if (error) decoder.destroy(error) })
  decoded.once('close', () => {
    body.unpipe(decoder)
    decoder.destroy()
    body.resume()
  })
  body.pipe(decoder).pipe(decoded)
  return decoded
}

function decodingError (coding: BodyCoding, advice: string): ApiException {
  return new ApiException({
    code: 'invalid_encoding',
    param: 'Content-Encoding',
    message: `The body is not valid ${coding}. ${advice}`,
  })
}

/** Why a text was rejected: valid JSON has a forbidden field name. */
function findSyntaxError (text: string): ApiError {
  const position = findJsonError(text)
  if (position === undefined) return FORBIDDEN_NAME
  return {
    code: 'invalid_json',
    message: `The body is not valid JSON at line ${position.line}, column ${position.column}. ` +
      'Send one JSON object.',
  }
}

/**
 * The text of a body, whose buffer is freed.
 * @throws ApiException if it is not UTF-8, or ambiguous for parsers.
 */
function readText (body: Buffer): string {
  if (!isUtf8(body)) throw new ApiException({ code: 'invalid_encoding' })
  const text = body.toString('utf8')
  detachBuffer(body)
  const fault = inspectJson(text)
  if (fault !== undefined) throw new ApiException(fault)
  return text
}
