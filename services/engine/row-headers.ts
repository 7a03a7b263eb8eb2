import { countBits } from '../platform/bitmap.ts'

/** The number of rows of a message, by its headers: the bits of `rows`, or `chunkRows`, or 0. */
export function rowCountOf (headers: Readonly<Record<string, string>>): number {
  if (headers.rows !== undefined) return countBits(Buffer.from(headers.rows, 'base64'))
  const chunkRows = Number(headers.chunkRows ?? 0)
  return Number.isSafeInteger(chunkRows) && chunkRows > 0 ? chunkRows : 0
}
