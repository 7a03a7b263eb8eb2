import { TOKEN_BYTES } from '../cache/tokens.ts'

/** The duplicates of a job, by row index (from 0) in the job. */
export type Originals = {
  /** The index of the original of a row; -1 if the row is not a duplicate. */
  readonly originalOf: (row: number) => number
  /** The number of duplicates of a row. */
  readonly duplicatesOf: (row: number) => number
}

export type Dedupe = Originals & {
  /** Adds the next chunk of the job, in row order; returns its number of duplicates. */
  readonly add: (tokens: Buffer, isInvalid: (row: number) => boolean) => number
}

/** Number of 32-bit words of a token. */
const WORDS = TOKEN_BYTES / 4

/**
 * Finds exact duplicates in a whole job by their tokens: equal tokens mean equal canonical forms,
 * and the lowest row of a token is the original. Invalid rows have no token and are never
 * duplicates. Works chunk by chunk, so that the caller can yield in between.
 *
 * All tokens are in one array with an open-addressing hash table of rows: strings for 100,000
 * tokens would take five times as long, mostly for garbage collection. Tokens are HMACs, so their
 * first word is a uniform hash.
 */
export function createDedupe (totalRows: number): Dedupe {
  const words = new Uint32Array(totalRows * WORDS)
  const bytes = Buffer.from(words.buffer)
  const find = createTokenTable(words, totalRows)
  const originals = new Int32Array(totalRows).fill(-1)
  const counts = new Map<number, number>()
  let next = 0
  const addRow = (row: number): boolean => {
    const original = find(row)
    if (original === row) return false
    originals[row] = original
    counts.set(original, (counts.get(original) ?? 0) + 1)
    return true
  }
  const add = (tokens: Buffer, isInvalid: (row: number) => boolean): number => {
    const rows = tokens.length / TOKEN_BYTES
    if (next + rows > totalRows) {
      throw new RangeError(`a job of ${totalRows} rows got ${next + rows} tokens`)
    }
    bytes.set(tokens, next * TOKEN_BYTES)
    let duplicates = 0
    for (let row = 0; row < rows; row++) if (!isInvalid(row) && addRow(next + row)) duplicates++
    next += rows
    return duplicates
  }
  return {
    add,
    originalOf: (row) => originals[row] ?? -1,
    duplicatesOf: (row) => counts.get(row) ?? 0,
  }
}

/** Returns the first row with the same token, which may be the row itself. */
function createTokenTable (words: Uint32Array, totalRows: number): (row: number) => number {
  const size = 2 ** Math.ceil(Math.log2(totalRows * 2 + 1))
  const slots = new Int32Array(size).fill(-1)
  const isSame = (one: number, other: number): boolean => {
    for (let word = 0; word < WORDS; word++) {
      if (words[one * WORDS + word] !== words[other * WORDS + word]) return false
    }
    return true
  }
  return (row) => {
    let slot = (words[row * WORDS] ?? 0) & (size - 1)
    for (;;) {
      const known = slots[slot] ?? -1
      if (known >= 0 && isSame(known, row)) return known
      if (known < 0) {
        slots[slot] = row
        return row
      }
      slot = (slot + 1) & (size - 1)
    }
  }
}
