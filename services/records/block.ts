import type { Finished, FinishedRows } from '../../schemas/types.ts'
import { emptyBitmap, indexes, set } from '../lib/bitmap.ts'
import type { Emission } from '../lib/stage.ts'
import type { Lane } from '../topology.ts'
import { createCells, createIsoTimes, type Cells } from './cells.ts'
import { columnsOf } from './columns.ts'
import { withoutVerdict, type RowOutcome } from './outcome.ts'
import type { HeaderPlace, Place } from './place.ts'

/** A row that repeats another one and has no result of its own; `duplicateOf` counts from 1. */
export type DuplicateOutcome = { readonly source: 'duplicate', readonly duplicateOf: number }

export type BlockOptions = {
  readonly place: Place
  /** Only binds the seal: see `BLOCK_PARTS` and `partOfAttempt`. */
  readonly part: number
  /** All inputs of the chunk, for the block that stores them. */
  readonly inputs?: readonly string[]
  /** Which contacts of a feed those are. */
  readonly contacts?: FinishedRows['contacts']
}

export type Block = {
  /** Takes one finished row (index within the chunk); rows come in ascending order, each once. */
  readonly add: (row: number, outcome: RowOutcome | DuplicateOutcome) => void
  readonly size: () => number
  readonly emission: (lane: Lane) => Emission<'rows.finished'>
}

/** Parts of blocks that answer no part: those of `lookup`, and those made from headers alone. */
export const BLOCK_PARTS = { lookup: -1, dead: -2 } as const

/**
 * Gathers finished rows of one chunk and derives everything the tally counts, so that the bitmaps
 * agree by construction: billable are rows checked live with a verdict (design, Money), an original
 * is either succeeded (it has a verdict) or failed, a duplicate is neither. The CSV's columns are
 * stored by name, without row, input and duplicate_of; a column that is blank in every row is left
 * out. Throws RangeError when a row is outside the chunk, repeated or out of order.
 */
export function createBlock ({ place, part, inputs, contacts }: BlockOptions): Block {
  const bitmaps = emptyBitmaps(place.rows)
  const cells = createCells(resultColumns(place))
  const times = { checked: createIsoTimes(), expires: createIsoTimes() }
  const rows: number[] = []
  const originals: number[] = []
  const copies: { row: number, copies: number }[] = []

  const add = (row: number, outcome: RowOutcome | DuplicateOutcome) => {
    if (row >= place.rows || row <= (rows.at(-1) ?? -1)) {
      throw new RangeError('a block takes each row of its chunk once, in ascending order')
    }
    mark(bitmaps, row, outcome)
    rows.push(row)
    originals.push(outcome.source === 'duplicate' ? outcome.duplicateOf : 0)
    if (outcome.source !== 'duplicate' && outcome.copies > 0) {
      copies.push({ row, copies: outcome.copies })
    }
    putCells(cells, outcome, times)
    cells.endRow()
  }

  const emission = (lane: Lane): Emission<'rows.finished'> => ({
    topic: 'rows.finished',
    lane,
    value: { ...place, part, inputs: inputs !== undefined, ...bitmaps, copies },
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
  { place, lane, rows }: HeaderPlace, options: { readonly atMs: number, readonly inputs: boolean }
): Emission<'rows.finished'> {
  const inputs = options.inputs ? { inputs: new Array<string>(place.rows).fill('') } : {}
  const block = createBlock({ place, part: BLOCK_PARTS.dead, ...inputs })
  for (const row of indexes(rows)) {
    if (row < place.rows) block.add(row, withoutVerdict('internal', { atMs: options.atMs }))
  }
  return block.emission(lane)
}

type Bitmaps = Pick<Finished, 'finished' | 'billable' | 'succeeded' | 'failed' | 'cached' | 'live'>

function emptyBitmaps (rows: number): Bitmaps {
  const bitmap = () => emptyBitmap(rows)
  return {
    finished: bitmap(),
    billable: bitmap(),
    succeeded: bitmap(),
    failed: bitmap(),
    cached: bitmap(),
    live: bitmap(),
  }
}

function mark (bitmaps: Bitmaps, row: number, outcome: RowOutcome | DuplicateOutcome): void {
  set(bitmaps.finished, row)
  if (outcome.source === 'duplicate') return
  const hasVerdict = outcome.status !== 'unknown' && outcome.source !== 'preflight'
  set(hasVerdict ? bitmaps.succeeded : bitmaps.failed, row)
  if (outcome.source === 'cache') set(bitmaps.cached, row)
  if (outcome.source === 'live') set(bitmaps.live, row)
  if (outcome.source === 'live' && hasVerdict) set(bitmaps.billable, row)
}

const APART = new Set(['row', 'input', 'duplicate_of'])

function resultColumns (place: Place): readonly string[] {
  return columnsOf(place.service).filter((name) => !APART.has(name))
}

type Times = { readonly checked: (ms: number) => string, readonly expires: (ms: number) => string }

function putCells ({ put }: Cells, outcome: RowOutcome | DuplicateOutcome, times: Times): void {
  if (outcome.source === 'duplicate') return put('source', 'duplicate')
  const { fields } = outcome
  for (const name in fields) put(name, fields[name] ?? '')
  // Behind the fields, which must not say how the row ended.
  put('source', outcome.source)
  put('status', outcome.status)
  put('confidence', String(outcome.confidence))
  put('reason', outcome.reason)
  put('checked_at', times.checked(outcome.checkedAtMs))
  put('expires_at', times.expires(outcome.expiresAtMs))
}
