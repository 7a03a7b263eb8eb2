/** Consecutive inputs of a job that one message carries. */
export type InputChunk = { readonly firstRow: number, readonly inputs: readonly string[] }

export const CHUNK_ROWS = 2_000
/** Sealed chunks stay within 256 KiB; 1 KiB is reserved for seal, envelope and headers. */
export const CHUNK_BYTES = 256 * 1_024 - 1_024
/** Upper bound of the length that Avro puts before a string. */
const LENGTH_BYTES = 3

/**
 * Splits inputs into chunks of at most `maxRows` rows and 256 KiB, counted before compression:
 * sealing never makes them larger. A single larger input has its own chunk. `extraBytes` are sent
 * along with an input, by row. Tests pass a smaller `maxRows`, for small jobs with many chunks.
 */
export function chunksOf (
  inputs: readonly string[], extraBytes: (row: number) => number = () => 0,
  maxRows: number = CHUNK_ROWS
): InputChunk[] {
  const chunks: InputChunk[] = []
  let firstRow = 0
  let bytes = 0
  for (let row = 0; row < inputs.length; row += 1) {
    const size = Buffer.byteLength(inputs[row]!) + LENGTH_BYTES + extraBytes(row)
    const full = row - firstRow === maxRows || bytes + size > CHUNK_BYTES
    if (full && row > firstRow) {
      chunks.push({ firstRow, inputs: inputs.slice(firstRow, row) })
      firstRow = row
      bytes = 0
    }
    bytes += size
  }
  if (firstRow < inputs.length) chunks.push({ firstRow, inputs: inputs.slice(firstRow) })
  return chunks
}
