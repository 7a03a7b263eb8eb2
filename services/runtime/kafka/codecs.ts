import kafkajs from 'kafkajs'
import { promisify } from 'node:util'
import { gzip, unzip, zstdCompress, zstdDecompress } from 'node:zlib'

const { CompressionCodecs, CompressionTypes } = kafkajs

/** A batch of our producers has at most a megabyte before the broker compresses it. */
const MAX_BYTES = 16 * 1_024 * 1_024
/** Sealed and signed messages have random bytes, so that theirs is below 20. */
const MAX_RATIO = 100
/** For batches so small that a ratio says nothing. */
const SPARE_BYTES = 16_384
const SPARE_RECORDS = 100
/** Even of equal records each takes some: their offsets differ. */
const BYTES_PER_RECORD = 2

type Decompress = (bytes: Buffer, options: { readonly maxOutputLength: number }) => Promise<Buffer>

/**
 * Limits what a compressed batch may grow to, in bytes and in records: partners compress batches,
 * and a batch within the limit of the broker may grow to a gigabyte. kafkajs has no limit.
 */
function bounded (decompress: Decompress): (bytes: Buffer) => Promise<Buffer> {
  return async bytes => {
    const maxOutputLength = Math.min(MAX_BYTES, SPARE_BYTES + MAX_RATIO * bytes.length)
    const records = await decompress(bytes, { maxOutputLength }).catch((error: unknown) => {
      if ((error as { code?: unknown }).code !== 'ERR_BUFFER_TOO_LARGE') throw error
      throw tooLarge(bytes, `${maxOutputLength} bytes`)
    })
    const maxRecords = SPARE_RECORDS + bytes.length / BYTES_PER_RECORD
    if (hasMoreRecords(records, maxRecords)) throw tooLarge(bytes, `${maxRecords} records`)
    return records
  }
}

const tooLarge = (bytes: Buffer, limit: string) =>
  new RangeError(`a batch of ${bytes.length} compressed bytes has more than ${limit}`)

/** Whether a batch has more records than these. Each begins with its length, a zigzag varint. */
function hasMoreRecords (records: Buffer, maxRecords: number): boolean {
  let at = 0
  for (let count = 0; at < records.length; count++) {
    if (count >= maxRecords) return true
    let zigzag = 0
    for (let factor = 1, byte = 0x80; byte >= 0x80; factor *= 0x80) {
      byte = records[at++] ?? 0
      zigzag += (byte & 0x7f) * factor
    }
    at += Math.floor(zigzag / 2)
  }
  return false
}

const compressGzip = promisify(gzip)
const compressZstd = promisify(zstdCompress)

/** Sets the codecs of kafkajs, which has only gzip of its own. It cannot read Snappy and LZ4. */
export function setCodecs (): void {
  CompressionCodecs[CompressionTypes.GZIP] = () => ({
    compress: ({ buffer }: { readonly buffer: Buffer }) => compressGzip(buffer),
    decompress: bounded(promisify(unzip)),
  })
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: ({ buffer }: { readonly buffer: Buffer }) => compressZstd(buffer),
    decompress: bounded(promisify(zstdDecompress)),
  })
}
