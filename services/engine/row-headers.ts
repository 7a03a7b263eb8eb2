import { count } from '../platform/bitmap.ts'

/**
 * How many rows a message is about, known by its headers alone: the bits of the bitmap `rows`, else
 * `chunkRows`, else 0.
 */
export function rowsOf (headers: Readonly<Record<string, string>>): number {
  if (headers.rows !== undefined) return count(Buffer.from(headers.rows, 'base64'))
  const chunkRows = Number(headers.chunkRows ?? 0)
  return Number.isSafeInteger(chunkRows) && chunkRows > 0 ? chunkRows : 0
}
