import type { Transform } from 'node:stream'
import { promisify } from 'node:util'
import { constants, createGzip, createZstdCompress, gzip, zstdCompress } from 'node:zlib'
import { mostLiked, weightOfCoding } from './negotiation.ts'

/** Content codings of answers, the one that costs both sides least first. */
const CODINGS = ['zstd', 'gzip'] as const

export type Coding = typeof CODINGS[number]

/**
 * Results are compressed while somebody waits for them: the fastest level takes a third of the time
 * of the usual one and makes them a third larger.
 */
const GZIP = { level: constants.Z_BEST_SPEED, chunkSize: 65_536 }
const ZSTD = { params: { [constants.ZSTD_c_compressionLevel]: 1 }, chunkSize: 65_536 }

const zipped = { gzip: promisify(gzip), zstd: promisify(zstdCompress) }

/**
 * What an Accept-Encoding header likes most of the codings there are, undefined if it likes none.
 * Only gzip is what "any" (`*`) means, as every client that says so opens it (RFC 9110, 12.5.3).
 */
export function codingFor (header: string | undefined): Coding | undefined {
  return mostLiked(CODINGS, coding => weightOfCoding(header, coding, coding === 'gzip'))
}

/** Compresses what is written to it. */
export function createCompressor (coding: Coding): Transform {
  return coding === 'gzip' ? createGzip(GZIP) : createZstdCompress(ZSTD)
}

/** A text that is sent in one go. */
export async function compressed (coding: Coding, text: string): Promise<Buffer> {
  return coding === 'gzip' ? await zipped.gzip(text, GZIP) : await zipped.zstd(text, ZSTD)
}
