/** Sets of small numbers: bit i, least significant first, is number i. */

/** An empty bitmap for the numbers from 0 to `rows` - 1. */
export function emptyBitmap (rows: number): Buffer {
  return Buffer.alloc(Math.ceil(rows / 8))
}

/**
 * Adds a number in place.
 * @throws RangeError for a number outside the bitmap: a lost bit would be a lost row.
 */
export function set (bitmap: Buffer, index: number): void {
  if (!Number.isInteger(index) || index < 0 || index >= bitmap.length * 8) {
    throw new RangeError(`bit ${index} is outside the bitmap of ${bitmap.length} bytes`)
  }
  bitmap[index >> 3] = (bitmap[index >> 3] ?? 0) | (1 << (index & 7))
}

/** Removes a number in place; one outside the bitmap is not in the set. */
export function remove (bitmap: Buffer, index: number): void {
  bitmap[index >> 3] = (bitmap[index >> 3] ?? 0) & ~(1 << (index & 7))
}

/** Whether the number is in the set; false for numbers outside the bitmap. */
export function has (bitmap: Buffer, index: number): boolean {
  return ((bitmap[index >> 3] ?? 0) & (1 << (index & 7))) !== 0
}

/** The number of members. */
export function countBits (bitmap: Buffer): number {
  let bits = 0
  for (const byte of bitmap) bits += bitCounts[byte] ?? 0
  return bits
}

/** The numbers of the set, ascending. */
export function indexes (bitmap: Buffer): number[] {
  const indexes: number[] = []
  for (let index = 0; index < bitmap.length * 8; index++) {
    if (has(bitmap, index)) indexes.push(index)
  }
  return indexes
}

/** A bitmap of all numbers from 0 to `rows` - 1. */
export function fullBitmap (rows: number): Buffer {
  const bitmap = Buffer.alloc(Math.ceil(rows / 8), 0xff)
  if (rows % 8 !== 0) bitmap[bitmap.length - 1] = (1 << (rows % 8)) - 1
  return bitmap
}

const bitCounts = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte.toString(2).replaceAll('0', '').length)
