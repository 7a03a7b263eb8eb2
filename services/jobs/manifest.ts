import type { ManifestEntry } from './job.ts'

/** What the digest of a block follows in the hash of its job; as record.lua names it. */
const BLOCK = 'block:'

/** The blocks that count among the fields of a job's hash, by chunk. */
export function manifestOf (fields: Readonly<Record<string, Buffer>>): ManifestEntry[] {
  return Object.entries(fields)
    .filter(([name]) => name.startsWith(BLOCK))
    .map(([name, entry]) => unpackEntry(name.slice(BLOCK.length), entry))
    .sort((a, b) => a.chunk - b.chunk || (a.digest < b.digest ? -1 : 1))
}

/**
 * Chunk and first row as big-endian 32-bit numbers, one byte for inputs, then the bitmap; as
 * tally.lua packs it.
 */
const HEADER_BYTES = 9

/**
 * A manifest entry as the scripts pack it.
 * @throws RangeError when it is cut off.
 */
export function unpackEntry (digest: string, packed: Buffer): ManifestEntry {
  if (packed.length < HEADER_BYTES) throw new RangeError(`the manifest entry ${digest} is cut off`)
  return {
    chunk: packed.readUInt32BE(0),
    digest,
    won: packed.subarray(HEADER_BYTES),
    firstRow: packed.readUInt32BE(4),
    inputs: packed.readUInt8(8) === 1,
  }
}

/**
 * Bitmap of a whole job, least significant bit first: the rows that no entry of its manifest has
 * won.
 */
export function openRowsOf (totalRows: number, manifest: readonly ManifestEntry[]): Buffer {
  const open = Buffer.alloc(Math.ceil(totalRows / 8))
  for (let row = 0; row < totalRows; row += 1) open[row >> 3]! |= 1 << (row & 7)
  for (const { won, firstRow } of manifest) clear(open, won, firstRow)
  return open
}

function clear (open: Buffer, won: Buffer, firstRow: number): void {
  for (let index = 0; index < won.length * 8; index += 1) {
    if ((won[index >> 3]! & (1 << (index & 7))) === 0) continue
    const row = firstRow + index
    open[row >> 3]! &= ~(1 << (row & 7))
  }
}
