import { createHash } from 'node:crypto'
import type { Duplex, Transform } from 'node:stream'
import { promisify } from 'node:util'
import { constants, createGzip, createZstdCompress, gzip, zstdCompress } from 'node:zlib'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { API_VERSION } from '../../schemas/api/parts.ts'
import type { ManifestEntry } from '../jobs/job.ts'
import {
  highestWeighted, listsTag, mostSpecificWeight, sendRawResponse, weightOfCoding,
} from '../runtime/platform/http-server.ts'
import { type ApiError, ApiException, errorBody, type ErrorCode, httpStatus } from './errors.ts'

/** The Retry-After of a 503 or 429 without a better estimate. */
const RETRY_AFTER_SECONDS = 2

/** Sends an error response: status, headers and body by the table of errors. */
export function sendError (reply: FastifyReply, fault: ApiError): FastifyReply {
  const status = httpStatus(fault.code)
  if (status === 401) reply.header('www-authenticate', 'Bearer')
  if (status === 429 || status === 503 || fault.retryAfterSeconds !== undefined) {
    const seconds = Math.max(1, Math.ceil(fault.retryAfterSeconds ?? RETRY_AFTER_SECONDS))
    reply.header('retry-after', String(seconds))
  }
  return reply.code(status)
    .headers(fault.headers ?? {})
    .type('application/json; charset=utf-8')
    .send(JSON.stringify(errorBody(fault, reply.request.id)))
}

/** Writes an error directly to a socket, without Fastify, and closes it. */
export function sendRaw (socket: Duplex, code: ErrorCode, requestId: string): void {
  const status = httpStatus(code)
  sendRawResponse(socket, {
    status,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      'x-request-id': requestId,
      'api-version': API_VERSION,
      // For any path: an invalid request has none.
      ...status === 405 && { allow: 'GET, HEAD, POST, OPTIONS' },
      ...status === 503 && { 'retry-after': String(RETRY_AFTER_SECONDS) },
    },
    body: JSON.stringify(errorBody({ code }, requestId)),
  })
}

/** Whether an Accept header allows a media type; without a header all are allowed. */
export function accepts (header: string | undefined, mediaType: string): boolean {
  if (header === undefined || header.trim() === '') return true
  return findWeight(header, mediaType) > 0
}

/**
 * The media type with the highest weight in an Accept header, the first of equals; undefined if
 * none is allowed.
 */
export function preferred (
  header: string | undefined, mediaTypes: readonly string[]
): string | undefined {
  if (header === undefined || header.trim() === '') return mediaTypes[0]
  return highestWeighted(mediaTypes, name => findWeight(header, name))
}

/**
 * The form of an answer: that of the query, which the Accept header must not exclude, or else one
 * by the header, if possible a suited one.
 * @param types the media type of each form, the default first
 * @throws ApiException `not_acceptable`.
 */
export function chooseForm<F extends string> (
  types: Readonly<Record<F, string>>, accept: string | undefined,
  { format, suited = [] }: { readonly format?: F | undefined, readonly suited?: readonly F[] }
): F {
  const choose = (forms: readonly F[]) => {
    const type = preferred(accept, forms.map(form => types[form]))
    return forms.find(form => types[form] === type)
  }
  const form = format ?? choose(suited) ?? choose(Object.keys(types) as F[])
  if (form !== undefined && accepts(accept, types[form])) return form
  const available = format === undefined ? Object.values<string>(types) : [types[format]]
  throw new ApiException({ code: 'not_acceptable', more: { available } })
}

function findWeight (header: string, mediaType: string): number {
  const [type] = mediaType.split('/')
  return mostSpecificWeight(header, [mediaType, `${type}/*`, '*/*'])
}

/** Content codings of responses, the cheapest first. */
const CODINGS = ['zstd', 'gzip'] as const

export type Coding = typeof CODINGS[number]

/**
 * Results are compressed on the fly: the fastest level takes a third of the time of the default one
 * and makes them a third larger.
 */
const GZIP = { level: constants.Z_BEST_SPEED, chunkSize: 65_536 }
const ZSTD = { params: { [constants.ZSTD_c_compressionLevel]: 1 }, chunkSize: 65_536 }

const zipped = { gzip: promisify(gzip), zstd: promisify(zstdCompress) }

/**
 * The preferred coding of an Accept-Encoding header, undefined if it allows none. Only gzip is used
 * for `*`, because every client with `*` supports it (RFC 9110, 12.5.3).
 */
export function codingFor (header: string | undefined): Coding | undefined {
  return highestWeighted(CODINGS, coding => weightOfCoding(header, coding, coding === 'gzip'))
}

/** A compressing stream. */
export function createCompressor (coding: Coding): Transform {
  return coding === 'gzip' ? createGzip(GZIP) : createZstdCompress(ZSTD)
}

/** Compresses a text at once. */
export async function compressed (coding: Coding, text: string): Promise<Buffer> {
  return coding === 'gzip' ? await zipped.gzip(text, GZIP) : await zipped.zstd(text, ZSTD)
}

/** The media type of server-sent events. */
export const EVENT_STREAM = 'text/event-stream'

/** Caches may store results, but must revalidate them. */
const CACHING = { vary: 'Accept, Accept-Encoding', 'cache-control': 'private, no-cache' } as const

/** The caching headers of results with these blocks, in a format identified by `forms`. */
export function cachingHeaders (
  manifest: readonly ManifestEntry[], forms: readonly string[]
): Record<string, string> & { readonly etag: string } {
  // Results never change, so their tag is a digest of the manifest; each format has its own tag.
  const hash = createHash('sha256')
  const parts = manifest.map(({ chunk, digest, won }) =>
    `${chunk}|${digest}|${won.toString('hex')}`)
  for (const part of parts.sort()) hash.update(`${part}\n`)
  return { ...CACHING, etag: `"${[hash.digest('hex').slice(0, 32), ...forms].join('-')}"` }
}

/** Whether the client already has these results; then the response is 304. */
export function isUnchanged (
  request: FastifyRequest, reply: FastifyReply, headers: { readonly etag: string }
): boolean {
  if (!listsTag(request.headers['if-none-match'], headers.etag)) return false
  reply.code(304).headers(headers)
  return true
}

/** The dates of an operation that will be removed. */
export type Deprecation = {
  /** When it is deprecated. */
  readonly since: Date
  /** When it stops working: at least twelve months later. */
  readonly until: Date
  /** Its replacement, relative to the host. */
  readonly guide: string
}

/**
 * Adds the deprecation headers to every response of a deprecated operation (RFC 9745 and RFC 8594).
 * A route that gives clients less than twelve months is refused with a RangeError.
 */
export function announceDeprecations (app: FastifyInstance): void {
  app.addHook('onRoute', ({ config: { deprecation } = {} }) => {
    if (deprecation === undefined) return
    const { since, until } = deprecation
    const earliest = new Date(since)
    earliest.setUTCFullYear(earliest.getUTCFullYear() + 1)
    if (until >= earliest) return
    throw new RangeError(`sunset ${until.toISOString()} is less than twelve months after the ` +
      `deprecation ${since.toISOString()}; set a later date`)
  })
  app.addHook('onRequest', async (request, reply) => {
    const { deprecation } = request.routeOptions.config
    if (deprecation === undefined) return
    const { since, until, guide } = deprecation
    reply.headers({
      deprecation: `@${Math.floor(since.getTime() / 1_000)}`,
      sunset: until.toUTCString(),
      link: `<${guide}>; rel="deprecation", <${guide}>; rel="sunset"`,
    })
  })
}
