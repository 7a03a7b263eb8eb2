import { TOKEN_BYTES } from '../cache/cache.ts'

/** What a row repeats, by indexes (from 0) within the job. */
export type Originals = {
  /** Index of the row's original; -1 for a row that is no duplicate. */
  readonly originalOf: (row: number) => number
  /** How many rows repeat this one. */
  readonly copiesOf: (row: number) => number
}

export type Dedupe = Originals & {
  /** Takes the next chunk of the job, in row order; returns how many of its rows are duplicates. */
  readonly add: (tokens: Buffer, isInvalid: (row: number) => boolean) => number
}

/** 32-bit words of a token. */
const WORDS = TOKEN_BYTES / 4

/**
 * Finds exact duplicates of a whole job by their tokens: equal tokens stand for the same canonical
 * form, and the lowest row of a token is the original of the others. Invalid rows have no token and
 * repeat nothing. Chunk by chunk, so that a big job leaves others their turn in between.
 *
 * The tokens of a job stand side by side in one array, and an open-addressing table of rows finds
 * them there: a string for each of 100,000 tokens would cost five times as much, most of it to
 * collect them again. Tokens are of a keyed hash, so their first words are spread by themselves.
 */
export function createDedupe (totalRows: number): Dedupe {
  const words = new Uint32Array(totalRows * WORDS)
  const bytes = Buffer.from(words.buffer)
  const find = createTable(words, totalRows)
  const originals = new Int32Array(totalRows).fill(-1)
  const copies = new Map<number, number>()
  let next = 0
  const addRow = (row: number): boolean => {
    const original = find(row)
    if (original === row) return false
    originals[row] = original
    copies.set(original, (copies.get(original) ?? 0) + 1)
    return true
  }
  const add = (tokens: Buffer, isInvalid: (row: number) => boolean): number => {
    const rows = tokens.length / TOKEN_BYTES
    if (next + rows > totalRows) throw new RangeError(`a job of ${totalRows} rows has no more`)
    bytes.set(tokens, next * TOKEN_BYTES)
    let duplicates = 0
    for (let row = 0; row < rows; row++) if (!isInvalid(row) && addRow(next + row)) duplicates++
    next += rows
    return duplicates
  }
  return {
    add,
    originalOf: (row) => originals[row] ?? -1,
    copiesOf: (row) => copies.get(row) ?? 0,
  }
}

/** Gives the first row it was asked for that has the same token, be it the row itself. */
function createTable (words: Uint32Array, totalRows: number): (row: number) => number {
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
