import { TOKEN_BYTES } from '../cache/tokens.ts'

/** The duplicates of a job, by row index (from 0) in the job. */
export type Duplicates = {
  /** The index of the original of each row; -1 if the row is not a duplicate. */
  readonly originals: Int32Array
  /** The number of duplicates of each row. */
  readonly copies: Uint32Array
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
 * first word is a uniform hash. A class, because functions that close over the rows of one job
 * would have to be compiled for each job.
 */
export class Dedupe implements Duplicates {
  readonly originals: Int32Array
  readonly copies: Uint32Array
  readonly #words: Uint32Array
  readonly #bytes: Buffer
  readonly #slots: Int32Array
  #rows = 0

  constructor (totalRows: number) {
    this.originals = new Int32Array(totalRows).fill(-1)
    this.copies = new Uint32Array(totalRows)
    this.#words = new Uint32Array(totalRows * WORDS)
    this.#bytes = Buffer.from(this.#words.buffer)
    this.#slots = new Int32Array(2 ** Math.ceil(Math.log2(totalRows * 2 + 1))).fill(-1)
  }

  /** Adds the next chunk of the job, in row order; returns its number of duplicates. */
  add (tokens: Buffer, isInvalid: (row: number) => boolean): number {
    const first = this.#rows
    const rows = tokens.length / TOKEN_BYTES
    const totalRows = this.originals.length
    if (first + rows > totalRows) {
      throw new RangeError(`a job of ${totalRows} rows got ${first + rows} tokens`)
    }
    this.#bytes.set(tokens, first * TOKEN_BYTES)
    let duplicates = 0
    for (let row = 0; row < rows; row++) {
      if (!isInvalid(row) && this.#isDuplicate(first + row)) duplicates++
    }
    this.#rows += rows
    return duplicates
  }

  #isDuplicate (row: number): boolean {
    const original = this.#find(row)
    if (original === row) return false
    this.originals[row] = original
    this.copies[original] = (this.copies[original] ?? 0) + 1
    return true
  }

  /** The first row with the same token, which may be the row itself. */
  #find (row: number): number {
    const mask = this.#slots.length - 1
    let slot = (this.#words[row * WORDS] ?? 0) & mask
    for (;;) {
      const known = this.#slots[slot] ?? -1
      if (known >= 0 && this.#isSame(known, row)) return known
      if (known < 0) {
        this.#slots[slot] = row
        return row
      }
      slot = (slot + 1) & mask
    }
  }

  #isSame (one: number, other: number): boolean {
    for (let word = 0; word < WORDS; word++) {
      if (this.#words[one * WORDS + word] !== this.#words[other * WORDS + word]) return false
    }
    return true
  }
}
