import { pickTokens, TOKEN_BYTES } from './tokens.ts'

/**
 * Tokens of the same contacts by other versions of the cache secret, the newest first: those of all
 * rows by the first version, then by the next. They are there while the secret is rotated, so that
 * records under either version are found, and a contact is under check for one job alone.
 */
export type RotatedTokens = { readonly versions: readonly string[], readonly tokens: Buffer }

/** As rows carry them: nothing while there is only one version. */
export type MaybeRotated = RotatedTokens | null | undefined

/** The tokens by each of the versions. */
export function byVersion (
  others: MaybeRotated
): readonly { readonly version: string, readonly tokens: Buffer }[] {
  if (others === null || others === undefined) return []
  const { versions, tokens } = others
  const bytes = tokens.length / versions.length
  return versions.map((version, index) =>
    ({ version, tokens: tokens.subarray(index * bytes, (index + 1) * bytes) }))
}

/** Those at some places of the list. */
export function pickRotated (others: MaybeRotated, rows: readonly number[]): RotatedTokens | null {
  if (others === null || others === undefined) return null
  if (others.tokens.length === others.versions.length * rows.length * TOKEN_BYTES) return others
  const picked = byVersion(others).map(({ tokens }) => pickTokens(tokens, rows))
  return { versions: others.versions, tokens: Buffer.concat(picked) }
}
