import { pickTokens, TOKEN_BYTES } from './tokens.ts'

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
