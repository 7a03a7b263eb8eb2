/** A body in more pieces than this is refused: each piece costs time, however small it is. */
const MAX_PIECES = 20_000

const FIRST_BYTES = 16_384

/**
 * Reads the body of a response, without its content coding, into one buffer. Undefined for a body
 * of more than `maxBytes`, or in more than 20,000 pieces: the connection is closed then. Rejects if
 * the body is cut off or the request is aborted.
 */
export async function readBody (
  { body }: Pick<Response, 'body'>, maxBytes: number
): Promise<Buffer | undefined> {
  let bytes = Buffer.allocUnsafe(Math.min(maxBytes, FIRST_BYTES))
  let length = 0
  let pieces = 0
  for await (const piece of body ?? []) {
    pieces += 1
    if (pieces > MAX_PIECES || length + piece.length > maxBytes) return undefined
    // The pieces are copied, because an array of small ones takes far more memory than its bytes.
    if (length + piece.length > bytes.length) {
      const larger = Buffer.allocUnsafe(
        Math.min(maxBytes, Math.max(2 * bytes.length, length + piece.length)))
      bytes.copy(larger, 0, 0, length)
      bytes = larger
    }
    bytes.set(piece, length)
    length += piece.length
  }
  return bytes.subarray(0, length)
}
