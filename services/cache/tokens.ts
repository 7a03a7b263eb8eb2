/** A token is the first 16 bytes of an HMAC; a list is one Buffer of 16 bytes per row. */
export const TOKEN_BYTES = 16

/** One token of a list, as a view. */
export function tokenAt (tokens: Buffer, row: number): Buffer {
  return tokens.subarray(row * TOKEN_BYTES, (row + 1) * TOKEN_BYTES)
}

/** The tokens at some positions of a list, in ascending order. */
export function pickTokens (tokens: Buffer, rows: readonly number[]): Buffer {
  if (rows.length * TOKEN_BYTES === tokens.length) return tokens
  return Buffer.concat(rows.map((row) => tokenAt(tokens, row)))
}

/**
 * Tokens of the same contacts for other versions of the cache secret, the newest first: all rows
 * for the first version, then all for the next. They exist during a rotation, so that records of
 * both versions are found and only one job checks a contact.
 */
export type RotatedTokens = { readonly versions: readonly string[], readonly tokens: Buffer }

/** As stored with rows: null while there is only one version. */
export type OptionalRotatedTokens = RotatedTokens | null | undefined

/** The tokens of each version. */
export function tokensByVersion (
  rotated: OptionalRotatedTokens
): readonly { readonly version: string, readonly tokens: Buffer }[] {
  if (rotated === null || rotated === undefined) return []
  const { versions, tokens } = rotated
  const bytes = tokens.length / versions.length
  return versions.map((version, index) =>
    ({ version, tokens: tokens.subarray(index * bytes, (index + 1) * bytes) }))
}

/** The tokens at some positions, for each version. */
export function pickRotated (
  rotated: OptionalRotatedTokens, rows: readonly number[]
): RotatedTokens | null {
  if (rotated === null || rotated === undefined) return null
  if (rotated.tokens.length === rotated.versions.length * rows.length * TOKEN_BYTES) return rotated
  const picked = tokensByVersion(rotated).map(({ tokens }) => pickTokens(tokens, rows))
  return { versions: rotated.versions, tokens: Buffer.concat(picked) }
}
