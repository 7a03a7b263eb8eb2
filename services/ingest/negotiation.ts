import type { Transform } from 'node:stream'
import { promisify } from 'node:util'
import { constants, createGzip, createZstdCompress, gzip, zstdCompress } from 'node:zlib'
import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ManifestEntry } from '../jobs/job.ts'
import {
  highestWeighted, listsTag, mostSpecificWeight, weightOfCoding,
} from '../runtime/platform/documents.ts'

/** Whether an Accept header allows a media type; without a header all are allowed. */
export function accepts (header: string | undefined, mediaType: string): boolean {
  if (header === undefined || header.trim() === '') return true
  return weightOf(header, mediaType) > 0
}

/**
 * The media type with the highest weight in an Accept header, the first of equals; undefined if
 * none is allowed.
 */
export function preferred (
  header: string | undefined, mediaTypes: readonly string[]
): string | undefined {
  if (header === undefined || header.trim() === '') return mediaTypes[0]
  return highestWeighted(mediaTypes, name => weightOf(header, name))
}

function weightOf (header: string, mediaType: string): number {
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
