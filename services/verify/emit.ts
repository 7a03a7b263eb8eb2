import type { Later, LaterRows } from '../../schemas/types.ts'
import { CHUNK_ROWS } from '../jobs/chunks.ts'
import type { Clock } from '../lib/clock.ts'
import type { Metrics } from '../lib/metrics.ts'
import type { Emission } from '../lib/stage.ts'
import { laneOf } from '../lib/topics.ts'
import { createBlock } from '../records/block.ts'
import { pickOthers, pickTokens } from '../records/cache.ts'
import { placeOf } from '../records/place.ts'
import { allWithout, type Part, type PartOutcomes } from './part.ts'

export type EmitParts = {
  /** Redis time. */
  readonly clock: Clock
  /** Pause before a part is tried again, and when its rows end without a verdict. */
  readonly laterAfterMs: number
  readonly giveUpAfterMs: number
  readonly metrics?: Pick<Metrics, 'count'>
}

/** A chunk never has more parts than rows. */
const PARTS_OF_A_CHUNK = CHUNK_ROWS

/**
 * A block of the rows that are finished, and a part of those that are not; after `giveUpAt` they
 * are finished as well, without a verdict.
 */
export function partEmissions (
  part: Part, outcomes: PartOutcomes, parts: EmitParts
): readonly Emission<'rows.finished' | 'rows.later'>[] {
  const nowMs = parts.clock.now()
  const { value } = part
  const giveUpAt = value.giveUpAt === 0 ? nowMs + parts.giveUpAfterMs : value.giveUpAt
  const open = [...outcomes.keys()].filter((position) => outcomes[position] === undefined)
  if (open.length === 0) return [blockOf(part, outcomes)]
  if (nowMs >= giveUpAt) {
    const without = allWithout(part, 'unavailable', nowMs)
    return [blockOf(part, outcomes.map((outcome, position) => outcome ?? without[position]))]
  }
  parts.metrics?.count('parts_put_off_total', { service: value.service })
  const notBefore = Math.min(nowMs + parts.laterAfterMs, giveUpAt)
  const later = laterOf(part, open, { notBefore, giveUpAt })
  return open.length === outcomes.length ? [later] : [blockOf(part, outcomes), later]
}

function blockOf (part: Part, outcomes: PartOutcomes): Emission<'rows.finished'> {
  const place = placeOf(part.value)
  const block = createBlock({ place, part: partOfAttempt(part.value) })
  for (const [position, row] of part.rows.rows.entries()) {
    const outcome = outcomes[position]
    if (outcome !== undefined) block.add(row, outcome)
  }
  return block.emission(laneOf(place.totalRows))
}

/**
 * The part number of a block: the part's own, and a chunk's worth of them more for each time it was
 * put off, so that blocks of the same part are told apart by what their seals are bound to.
 */
export function partOfAttempt ({ part, attempt }: Pick<Later, 'part' | 'attempt'>): number {
  return part + PARTS_OF_A_CHUNK * attempt
}

type LaterTimes = Pick<Later, 'notBefore' | 'giveUpAt'>

function laterOf (
  { value, rows }: Part, open: readonly number[], times: LaterTimes
): Emission<'rows.later'> {
  const { rowsSchema: _schema, sealed: _sealed, ...envelope } = value
  const place = placeOf(value)
  return {
    topic: 'rows.later',
    lane: laneOf(place.totalRows),
    service: place.service,
    value: { ...envelope, attempt: value.attempt + 1, ...times },
    rows: rowsAt(rows, open),
  }
}

function rowsAt (rows: LaterRows, positions: readonly number[]): LaterRows {
  const pick = <T>(values: readonly T[]): T[] => positions.map((position) => values[position] as T)
  return {
    rows: pick(rows.rows),
    copies: pick(rows.copies),
    canonicals: pick(rows.canonicals),
    tokens: pickTokens(rows.tokens, positions),
    otherTokens: pickOthers(rows.otherTokens, positions),
  }
}
