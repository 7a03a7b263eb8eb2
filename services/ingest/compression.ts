import type { Transform } from 'node:stream'
import { promisify } from 'node:util'
import { constants, createGzip, createZstdCompress, gzip, zstdCompress } from 'node:zlib'
import { highestWeighted, weightOfCoding } from './negotiation.ts'

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
