/** A run of inputs that travel together. */
export type InputChunk = { readonly firstRow: number, readonly inputs: readonly string[] }

export const CHUNK_ROWS = 2_000
/** Sealed chunks stay within 256 KiB; the kibibyte is for seal, envelope and headers. */
export const CHUNK_BYTES = 256 * 1_024 - 1_024
/**
 * Avro puts a length of at most 2 bytes before a string of up to 1,024 characters; 3 covers any.
 */
const LENGTH_BYTES = 3

/**
 * Cuts inputs into chunks of at most `CHUNK_ROWS` and 256 KiB, counted before compression: sealing
 * never makes them larger. A single input above that has a chunk of its own. What travels with each
 * input is counted too. Fewer rows a chunk are for tests, where small jobs are to have many chunks.
 */
export function chunksOf (
  inputs: readonly string[], alongBytes: (row: number) => number = () => 0,
  mostRows: number = CHUNK_ROWS
): InputChunk[] {
  const chunks: InputChunk[] = []
  let firstRow = 0
  let bytes = 0
  for (let row = 0; row < inputs.length; row += 1) {
    const size = Buffer.byteLength(inputs[row]!) + LENGTH_BYTES + alongBytes(row)
    const full = row - firstRow === mostRows || bytes + size > CHUNK_BYTES
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
