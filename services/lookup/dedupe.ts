import { TOKEN_BYTES } from '../records/cache.ts'

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

/**
 * Finds exact duplicates of a whole job by their tokens: equal tokens stand for the same canonical
 * form, and the lowest row of a token is the original of the others. Invalid rows have no token and
 * repeat nothing. Chunk by chunk, so that a big job leaves others their turn in between.
 */
export function createDedupe (totalRows: number): Dedupe {
  const firstRows = new Map<string, number>()
  const originals = new Int32Array(totalRows).fill(-1)
  const copies = new Map<number, number>()
  let next = 0
  const addRow = (token: string): boolean => {
    const row = next
    const original = firstRows.get(token)
    if (original === undefined) {
      firstRows.set(token, row)
      return false
    }
    originals[row] = original
    copies.set(original, (copies.get(original) ?? 0) + 1)
    return true
  }
  const add = (tokens: Buffer, isInvalid: (row: number) => boolean): number => {
    let duplicates = 0
    for (let row = 0; row * TOKEN_BYTES < tokens.length; row++) {
      const token = tokens.toString('latin1', row * TOKEN_BYTES, (row + 1) * TOKEN_BYTES)
      if (!isInvalid(row) && addRow(token)) duplicates++
      next++
    }
    return duplicates
  }
  return {
    add,
    originalOf: (row) => originals[row] ?? -1,
    copiesOf: (row) => copies.get(row) ?? 0,
  }
}
