import type { Later, LaterRows } from '../../schemas/types.ts'
import { partsOf } from '../accounts/tenant.ts'
import type { Clock } from '../lib/clock.ts'
import type { Sleep } from '../lib/retry.ts'
import { tokenAt, type CachedRecord, type RecordCache } from '../records/cache.ts'
import { isFresh } from '../records/freshness.ts'
import { outcomeOf, withoutVerdict, type RowOutcome, type Subject } from '../records/outcome.ts'
import { placeOf } from '../records/place.ts'
import type { CheckedRecord, Reason } from '../records/record.ts'
import type { ServiceSlug } from '../topology.ts'
import type { Leases } from './leases.ts'
import type { Checked, Checker } from './providers.ts'

export type CheckParts = {
  readonly cache: RecordCache
  readonly leases: Leases
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

/** All rows of the part without a verdict, for one reason. */
export function allWithout (part: Part, reason: Reason, atMs: number): PartOutcomes {
  return part.rows.rows.map((_, position) =>
    withoutVerdict(reason, { atMs, subject: subjectAt(part, position) }))
}

/** Whom the row at a position of the part is about. */
export function subjectAt ({ value, rows }: Part, position: number): Subject {
  return {
    service: value.service as ServiceSlug,
    canonical: rows.canonicals[position] ?? '',
    copies: rows.copies[position] ?? 0,
  }
}

/**
 * Checks the rows of a part. What the cache can answer is not bought; a contact that another job of
 * the tenant has under check is waited for, after the part's own checks, until its verdict is there
 * or its lease has ended. A job that bypasses the cache neither reads others' records nor waits.
 */
export async function checkPart (part: Part, parts: CheckParts, signal: AbortSignal):
Promise<PartOutcomes> {
  const outcomes = new Array<RowOutcome | undefined>(part.rows.rows.length).fill(undefined)
  const work = { part, parts, signal, outcomes }
  const waitUntilMs = parts.clock.now() + parts.leaseMs
  let open = await answerFromCache(work, outcomes.map((_, position) => position))
  while (open.length > 0) {
    const patient = !part.value.forceFresh && parts.clock.now() < waitUntilMs
    const mine = patient ? await takeLeases(work, open) : open
    const answered = mine.length === 0 || await answerLive(work, mine)
    if (patient) await releaseLeases(work, mine)
    if (!answered) break
    const others = open.filter((position) => outcomes[position] === undefined)
    if (others.length === 0) break
    await parts.sleep(parts.leasePollMs, signal)
    open = await answerFromCache(work, others)
  }
  return outcomes
}

type Work = {
  readonly part: Part
  readonly parts: CheckParts
  readonly signal: AbortSignal
  readonly outcomes: (RowOutcome | undefined)[]
}

/** Answers what it can and returns the positions still open. */
async function answerFromCache (work: Work, open: readonly number[]):
Promise<readonly number[]> {
  const { part, parts, outcomes } = work
  const whole = open.length === outcomes.length
  const tokens = whole ? part.rows.tokens : Buffer.concat(tokensAt(part, open))
  const records = await parts.cache.find(scopeOf(part), tokens)
  for (const [index, position] of open.entries()) {
    const record = records[index]
    if (record === undefined || !isUsable(record, part)) continue
    const source = record.job === part.value.job ? 'live' : 'cache'
    outcomes[position] = outcomeAt(work, position, { record, source })
  }
  return open.filter((position) => outcomes[position] === undefined)
}

/** A record this very job paid for is always its own; others' must be fresh and asked for. */
function isUsable (record: CachedRecord, { value }: Part): boolean {
  if (record.job === value.job) return true
  const rule = { quotedAtMs: value.quotedAt, freshnessMs: value.freshnessMs }
  return !value.forceFresh && isFresh(record, rule)
}

async function takeLeases ({ part, parts }: Work, open: readonly number[]):
Promise<readonly number[]> {
  const taken = await parts.leases.take(scopeOf(part), tokensAt(part, open), part.value.job)
  return open.filter((_, index) => taken[index])
}

async function releaseLeases ({ part, parts }: Work, mine: readonly number[]): Promise<void> {
  await parts.leases.release(scopeOf(part), tokensAt(part, mine), part.value.job)
}

/** Asks the providers; false when for some rows none could be had, which then stay open. */
async function answerLive (work: Work, positions: readonly number[]): Promise<boolean> {
  const { part, parts, signal } = work
  const { service, tenant } = part.value
  const rows = positions.map((row) => ({ row, canonical: part.rows.canonicals[row] ?? '' }))
  const checked = await parts.check(rows, {
    service: service as ServiceSlug, mode: partsOf(tenant).mode, signal,
  })
  if (checked.kind === 'down') return false
  const open = checked.kind === 'answered' ? checked.open : undefined
  await keep(work, positions.filter((position) => open?.has(position) !== true), checked)
  return open === undefined
}

/** Verdicts go to the cache before anything is emitted: a redelivered part finds them there. */
async function keep (
  work: Work, positions: readonly number[], checked: Exclude<Checked, { kind: 'down' }>
): Promise<void> {
  const { part, parts } = work
  const recordOf = recordsOf({ checkedAtMs: parts.clock.now(), job: part.value.job })
  const fresh = positions.map((position) => {
    const verdict = checked.kind === 'answered' ? checked.verdicts.get(position) : undefined
    const token = tokenAt(part.rows.tokens, position)
    return { position, token, record: recordOf(verdict ?? NO_ANSWER) }
  })
  await parts.cache.store(scopeOf(part), fresh)
  for (const { position, record } of fresh) {
    work.outcomes[position] = outcomeAt(work, position, { record, source: 'live' })
  }
}

type Unmade = Omit<CheckedRecord, 'checkedAtMs'>

/** Rows of the very same verdict have the very same record, which the cache writes down once. */
function recordsOf (made: Pick<CachedRecord, 'checkedAtMs' | 'job'>) {
  const known = new Map<Unmade, CachedRecord>()
  return (verdict: Unmade): CachedRecord => {
    const found = known.get(verdict)
    if (found !== undefined) return found
    const record = { ...verdict, ...made }
    known.set(verdict, record)
    return record
  }
}

/** A row that no answer names was not checked; nobody pays for it and nothing is cached. */
const NO_ANSWER: Unmade = {
  status: 'unknown', reason: 'no_answer', confidence: 0, fields: {},
}

type Answer = { readonly record: CheckedRecord, readonly source: 'live' | 'cache' }

function outcomeAt ({ part }: Work, position: number, { record, source }: Answer): RowOutcome {
  const { freshnessMs } = part.value
  return outcomeOf(record, subjectAt(part, position), { source, freshnessMs })
}

function scopeOf ({ value }: Part) {
  const { tenant, service } = placeOf(value)
  return { tenant, service, version: value.tokenVersion }
}

function tokensAt ({ rows }: Part, positions: readonly number[]): Buffer[] {
  return positions.map((position) => tokenAt(rows.tokens, position))
}
