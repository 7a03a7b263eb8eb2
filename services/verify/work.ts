import type { Later, LaterRows } from '../../schemas/types.ts'
import { partsOf } from '../accounts/tenant.ts'
import type { Clock } from '../lib/clock.ts'
import type { Sleep } from '../lib/retry.ts'
import { pickOthers, type CachedRecord, type RecordCache } from '../records/cache.ts'
import { isFresh } from '../records/freshness.ts'
import { outcomeOf, type RowOutcome, type Subject } from '../records/outcome.ts'
import { placeOf } from '../records/place.ts'
import type { CheckedRecord } from '../records/record.ts'
import type { ServiceSlug } from '../topology.ts'
import type { Checked, Checker, CheckRequest } from './providers.ts'

export type CheckParts = {
  readonly cache: RecordCache
  readonly check: Checker
  /** Redis time. */
  readonly clock: Clock
  readonly sleep: Sleep
  /** How long another part's check of the same contact is waited for. */
  readonly leaseMs: number
  readonly leasePollMs: number
}

/** A part as it came; its rows by position, not by their index in the chunk. */
export type Part = { readonly value: Later, readonly rows: LaterRows }

/** One entry a row of the part; undefined for a row no provider could be had for. */
export type PartOutcomes = readonly (RowOutcome | undefined)[]

/** A part under check: what of it is answered already, and what it is checked with. */
export type Work = {
  readonly part: Part
  readonly parts: CheckParts
  readonly signal: AbortSignal
  readonly outcomes: (RowOutcome | undefined)[]
}

/** Whom the row at a position of the part is about. */
export function subjectAt ({ value, rows }: Part, position: number): Subject {
  return {
    service: value.service as ServiceSlug,
    canonical: rows.canonicals[position] ?? '',
    copies: rows.copies[position] ?? 0,
  }
}

/** Of which service and mode the part's rows are. */
export function kindOf ({ service, tenant }: Later): Pick<CheckRequest, 'service' | 'mode'> {
  return { service: service as ServiceSlug, mode: partsOf(tenant).mode }
}

/** What the providers say to the rows at these positions. */
export async function ask (
  { part, parts, signal }: Work, positions: readonly number[]
): Promise<Checked> {
  const rows = positions.map((row) => ({ row, canonical: part.rows.canonicals[row] ?? '' }))
  const { giveUpAt } = part.value
  const last = giveUpAt !== 0 && parts.clock.now() >= giveUpAt
  return await parts.check(rows, { ...kindOf(part.value), signal, last })
}

/** A record this very job paid for is always its own; others' must be fresh. */
export function isUsable (record: CachedRecord, { value }: Part): boolean {
  if (record.job === value.job) return true
  return isFresh(record, { quotedAtMs: value.quotedAt, freshnessMs: value.freshnessMs })
}

export type Unmade = Omit<CheckedRecord, 'checkedAtMs'>

/** Rows of the very same verdict have the very same record, which the cache writes down once. */
export function recordsOf (made: Pick<CachedRecord, 'checkedAtMs' | 'job'>) {
  const known = new Map<Unmade, CachedRecord>()
  return (verdict: Unmade): CachedRecord => {
    const found = known.get(verdict)
    if (found !== undefined) return found
    const record = { ...verdict, ...made }
    known.set(verdict, record)
    return record
  }
}

type Answer = { readonly record: CheckedRecord, readonly source: 'live' | 'cache' }

/** How the row at a position ends by a record. */
export function outcomeAt (
  { part }: Pick<Work, 'part'>, position: number, { record, source }: Answer
): RowOutcome {
  const { freshnessMs } = part.value
  return outcomeOf(record, subjectAt(part, position), { source, freshnessMs })
}

/** The tokens of all positions, or of some. */
export function scopeOf ({ value, rows }: Part, positions?: readonly number[]) {
  const { tenant, service } = placeOf(value)
  const others = positions === undefined
    ? rows.otherTokens
    : pickOthers(rows.otherTokens, positions)
  return { tenant, service, version: value.tokenVersion, others }
}
