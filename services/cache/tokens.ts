/** A token is the first 16 bytes of an HMAC; a list is one Buffer of 16 bytes per row. */
export const TOKEN_BYTES = 16

/** The tokens of a list, as views. */
export function tokensOf (tokens: Buffer): readonly Buffer[] {
  return Array.from({ length: tokens.length / TOKEN_BYTES }, (_, row) => tokenAt(tokens, row))
}

/** One token of a list, as a view. */
export function tokenAt (tokens: Buffer, row: number): Buffer {
  return tokens.subarray(row * TOKEN_BYTES, (row + 1) * TOKEN_BYTES)
}

/** The tokens at some positions of a list, in ascending order. */
export function pickTokens (tokens: Buffer, rows: readonly number[]): Buffer {
  if (rows.length * TOKEN_BYTES === tokens.length) return tokens
  return Buffer.concat(rows.map((row) => tokenAt(tokens, row)))
}
