import type { ManifestEntry } from './job.ts'

/** Prefix of manifest fields in the hash of a job; the same as in record.lua. */
const BLOCK = 'block:'

/** The manifest in the hash of a job: the blocks that count, by chunk. */
export function manifestOf (fields: Readonly<Record<string, Buffer>>): ManifestEntry[] {
  return Object.entries(fields)
    .filter(([name]) => name.startsWith(BLOCK))
    .map(([name, entry]) => unpackEntry(name.slice(BLOCK.length), entry))
    .sort(byChunk)
}

/** The manifest in a reply of tally.lua: the digest and the packed entry of each block, in hex. */
export function manifestIn (text: string): ManifestEntry[] {
  return text.split(' ').map(entry => {
    const [digest = '', packed = ''] = entry.split(':')
    return unpackEntry(digest, Buffer.from(packed, 'hex'))
  }).sort(byChunk)
}

const byChunk = (a: ManifestEntry, b: ManifestEntry) =>
  a.chunk - b.chunk || (a.digest < b.digest ? -1 : 1)

/** Chunk and first row as big-endian 32-bit numbers and one byte for inputs; the bitmap follows. */
const HEADER_BYTES = 9

/**
 * Decodes a manifest entry; see `packed` in record.lua.
 * @throws RangeError when it is too short.
 */
export function unpackEntry (digest: string, packed: Buffer): ManifestEntry {
  if (packed.length < HEADER_BYTES) {
    throw new RangeError(
      `the manifest entry ${digest} has ${packed.length} bytes, expected at least ${HEADER_BYTES}`)
  }
  return {
    chunk: packed.readUInt32BE(0),
    digest,
    won: packed.subarray(HEADER_BYTES),
    firstRow: packed.readUInt32BE(4),
    inputs: packed.readUInt8(8) === 1,
  }
}

/**
 * Bitmap of all rows of a job, least significant bit first: rows that no manifest entry has won.
 */
export function unfinishedRowsOf (totalRows: number, manifest: readonly ManifestEntry[]): Buffer {
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
