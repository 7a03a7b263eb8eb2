import kafkajs from 'kafkajs'
import { promisify } from 'node:util'
import { zstdCompress, zstdDecompress } from 'node:zlib'

const { CompressionCodecs, CompressionTypes } = kafkajs
const compress = promisify(zstdCompress)
const decompress = promisify(zstdDecompress)

/** Teaches kafkajs to read zstd, which Node has, besides gzip. Snappy and LZ4 it can't read. */
export function registerCodecs (): void {
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: ({ buffer }: { readonly buffer: Buffer }) => compress(buffer),
    decompress: (buffer: Buffer) => decompress(buffer),
  })
}
