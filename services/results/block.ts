import type { Completed, CompletedRows } from '../../schemas/types.ts'
import { emptyBitmap, indexes, set } from '../platform/bitmap.ts'
import type { Emission } from '../engine/stage.ts'
import type { Lane } from '../topology.ts'
import { createDictionaryColumns, createIsoTimes, type SharedCells } from './dictionary-columns.ts'
import { columnsOf } from './columns.ts'
import { withoutVerdict, type RowOutcome } from './outcome.ts'
import type { HeaderCoordinates, ChunkCoordinates } from './chunk-coordinates.ts'

/**
 * A row that repeats another one and has no result of its own; `duplicateOf` counts from 1, `email`
 * is its own spelling of an address.
 */
export type DuplicateOutcome = {
  readonly source: 'duplicate'
  readonly duplicateOf: number
  readonly email?: string
}

export type BlockOptions = {
  readonly coordinates: ChunkCoordinates
  /** Only binds the seal: see `NO_BATCH` and `blockBatchOf`. */
  readonly batch: number
  /** All inputs of the chunk, for the block that stores them. */
  readonly inputs?: readonly string[]
  /** Which contacts of a feed those are. */
  readonly contacts?: CompletedRows['contacts']
}

export type Block = {
  /** Takes one finished row (index within the chunk); rows come in ascending order, each once. */
  readonly add: (row: number, outcome: RowOutcome | DuplicateOutcome) => void
  readonly size: () => number
  readonly emission: (lane: Lane) => Emission<'rows.completed'>
}

/**
 * Batch numbers of blocks without a verification batch: those of `lookup`, and those that end rows
 * in place of blocks that may exist (dead letters, failed jobs). The tally rejects the latter while
 * blocks of the job are recounted: until then rows that have a verdict may only seem open.
 */
export const NO_BATCH = { lookup: -1, dead: -2 } as const

/**
 * Gathers finished rows of one chunk and derives everything the tally counts, so that the bitmaps
 * agree by construction: an original is in exactly one of them by its source, one without a verdict
 * as cancelled or unknown; a duplicate is in none. Live rows are charged. The CSV's columns are
 * stored by name, without row, input and duplicate_of; a column that is blank in every row is left
 * out. Throws RangeError when a row is outside the chunk, repeated or out of order.
 */
export function createBlock ({ coordinates, batch, inputs, contacts }: BlockOptions): Block {
  const bitmaps = emptyBitmaps(coordinates.rows)
  const cells = createDictionaryColumns(resultColumns(coordinates))
  const sharedOf = createEndings()
  const rows: number[] = []
  const originals: number[] = []
  const duplicates: { row: number, count: number }[] = []

  const add = (row: number, outcome: RowOutcome | DuplicateOutcome) => {
    if (row >= coordinates.rows || row <= (rows.at(-1) ?? -1)) {
      throw new RangeError('a block takes each row of its chunk once, in ascending order')
    }
    mark(bitmaps, row, outcome)
    rows.push(row)
    originals.push(outcome.source === 'duplicate' ? outcome.duplicateOf : 0)
    if (outcome.source !== 'duplicate' && outcome.copies > 0) {
      duplicates.push({ row, count: outcome.copies })
    }
    if (outcome.source === 'duplicate') {
      cells.share(DUPLICATE)
      if (outcome.email !== undefined) cells.put('email', outcome.email)
    } else {
      cells.share(sharedOf(outcome))
      for (const name in outcome.contact) cells.put(name, outcome.contact[name] ?? '')
    }
    cells.endRow()
  }

  const emission = (lane: Lane): Emission<'rows.completed'> => ({
    topic: 'rows.completed',
    lane,
    value: { ...coordinates, batch, inputs: inputs !== undefined, ...bitmaps, duplicates },
    rows: {
      inputs: inputs ?? null,
      contacts,
      rows,
      duplicateOf: originals.some((original) => original > 0) ? originals : [],
      columns: cells.filled(),
    },
  })
  return { add, size: () => rows.length, emission }
}

/**
 * The block for rows whose message can never be decided, known by its headers alone: all of them
 * `unknown`, reason `internal`, free. With `inputs` it stands in for the chunk's input block, which
 * nothing else will ever bring and without which the job would not end; the inputs are blank then.
 */
export function deadBlock (
  { coordinates, lane, rows }: HeaderCoordinates,
  options: { readonly atMs: number, readonly inputs: boolean }
): Emission<'rows.completed'> {
  const inputs = options.inputs ? { inputs: new Array<string>(coordinates.rows).fill('') } : {}
  const block = createBlock({ coordinates, batch: NO_BATCH.dead, ...inputs })
  for (const row of indexes(rows)) {
    if (row < coordinates.rows) block.add(row, withoutVerdict('internal', { atMs: options.atMs }))
  }
  return block.emission(lane)
}

type Bitmaps = Pick<Completed,
  'finished' | 'cached' | 'live' | 'invalid' | 'unknown' | 'cancelled'>

function emptyBitmaps (rows: number): Bitmaps {
  const bitmap = () => emptyBitmap(rows)
  return {
    finished: bitmap(),
    cached: bitmap(),
    live: bitmap(),
    invalid: bitmap(),
    unknown: bitmap(),
    cancelled: bitmap(),
  }
}

function mark (bitmaps: Bitmaps, row: number, outcome: RowOutcome | DuplicateOutcome): void {
  set(bitmaps.finished, row)
  if (outcome.source === 'duplicate') return
  set(bitmaps[endOf(outcome)], row)
}

function endOf ({ source, reason }: RowOutcome): Exclude<keyof Bitmaps, 'finished'> {
  switch (source) {
    case 'live': return 'live'
    case 'cache': return 'cached'
    case 'preflight': return 'invalid'
    case 'none': return reason === 'cancelled' ? 'cancelled' : 'unknown'
  }
}

const APART = new Set(['row', 'input', 'duplicate_of'])

function resultColumns (coordinates: ChunkCoordinates): readonly string[] {
  return columnsOf(coordinates.service).filter((name) => !APART.has(name))
}

const DUPLICATE: SharedCells = { source: 'duplicate' }

/**
 * The cells of an outcome that do not follow from its contact. Rows of one record ended alike, so
 * they get the very same object, which is made once.
 */
function createEndings (): (outcome: RowOutcome) => SharedCells {
  const known = new Map<RowOutcome['fields'], { outcome: RowOutcome, cells: SharedCells }[]>()
  const times = { checked: createIsoTimes(), expires: createIsoTimes() }
  return (outcome) => {
    const { fields } = outcome
    const alike = known.get(fields) ?? []
    for (const one of alike) if (endedAlike(one.outcome, outcome)) return one.cells
    const cells = {
      ...fields,
      // Behind the fields, which must not say how the row ended.
      source: outcome.source,
      status: outcome.status,
      confidence: String(outcome.confidence),
      reason: outcome.reason,
      checked_at: times.checked(outcome.checkedAtMs),
      expires_at: times.expires(outcome.expiresAtMs),
    }
    known.set(fields, [...alike, { outcome, cells }])
    return cells
  }
}

function endedAlike (one: RowOutcome, other: RowOutcome): boolean {
  return one.source === other.source && one.status === other.status &&
    one.confidence === other.confidence && one.reason === other.reason &&
    one.checkedAtMs === other.checkedAtMs && one.expiresAtMs === other.expiresAtMs
}
