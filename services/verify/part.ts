import type { Later, LaterRows } from '../../schemas/types.ts'
import { partsOf } from '../accounts/tenant.ts'
import type { Clock } from '../lib/clock.ts'
import { failpoint } from '../lib/failpoint.ts'
import type { Sleep } from '../lib/retry.ts'
import {
  pickOthers, pickTokens, type CachedRecord, type RecordCache,
} from '../records/cache.ts'
import { isFresh } from '../records/freshness.ts'
import { outcomeOf, withoutVerdict, type RowOutcome, type Subject } from '../records/outcome.ts'
import { placeOf } from '../records/place.ts'
import type { CheckedRecord, Reason } from '../records/record.ts'
import type { ServiceSlug } from '../topology.ts'
import type { Checked, Checker } from './providers.ts'

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
  let open: readonly number[] = [...outcomes.keys()]
  if (part.value.forceFresh) {
    await answerLive(work, await answerFromOwn(work, open))
    return outcomes
  }
  const waitUntilMs = parts.clock.now() + parts.leaseMs
  while (open.length > 0) {
    const { mine, held } = await answerFromCache(work, open)
    const late = parts.clock.now() >= waitUntilMs
    const answered = await answerLive(work, late ? [...mine, ...held] : mine)
    await release(work, mine)
    if (!answered || late || held.length === 0) break
    await parts.sleep(parts.leasePollMs, signal)
    open = held
  }
  return outcomes
}

type Work = {
  readonly part: Part
  readonly parts: CheckParts
  readonly signal: AbortSignal
  readonly outcomes: (RowOutcome | undefined)[]
}

/** Takes what this very job paid for when the part was delivered before; returns what is open. */
async function answerFromOwn (work: Work, open: readonly number[]): Promise<readonly number[]> {
  const { part, parts, outcomes } = work
  const records = await parts.cache.find(scopeOf(part), part.rows.tokens)
  for (const position of open) {
    const record = records[position]
    if (record?.job !== part.value.job) continue
    outcomes[position] = outcomeAt(work, position, { record, source: 'live' })
  }
  return open.filter((position) => outcomes[position] === undefined)
}

type Open = { readonly mine: readonly number[], readonly held: readonly number[] }

/** Answers what it can; the other positions are this part's to check, or another job's. */
async function answerFromCache (work: Work, open: readonly number[]): Promise<Open> {
  const { part, parts, outcomes } = work
  const { job } = part.value
  const claimed = await parts.cache.claim(scopeOf(part, open), pickTokens(part.rows.tokens, open), {
    job, leaseMs: parts.leaseMs, usable: (record) => isUsable(record, part),
  })
  failpoint('verify.claimed')
  const mine: number[] = []
  const held: number[] = []
  for (const [index, position] of open.entries()) {
    const found = claimed[index] ?? 'mine'
    if (found === 'mine') mine.push(position)
    else if (found === 'held') held.push(position)
    else {
      const source = found.job === job ? 'live' : 'cache'
      outcomes[position] = outcomeAt(work, position, { record: found, source })
    }
  }
  return { mine, held }
}

/** A record this very job paid for is always its own; others' must be fresh. */
function isUsable (record: CachedRecord, { value }: Part): boolean {
  if (record.job === value.job) return true
  return isFresh(record, { quotedAtMs: value.quotedAt, freshnessMs: value.freshnessMs })
}

/** Lets others check the contacts that got no verdict; in all other entries there is one now. */
async function release ({ part, parts, outcomes }: Work, mine: readonly number[]): Promise<void> {
  const without = mine.filter((position) =>
    (outcomes[position]?.status ?? 'unknown') === 'unknown')
  if (without.length === 0) return
  await parts.cache.release(
    scopeOf(part, without), pickTokens(part.rows.tokens, without), part.value.job)
}

/** Asks the providers; false when for some rows none could be had, which then stay open. */
async function answerLive (work: Work, positions: readonly number[]): Promise<boolean> {
  if (positions.length === 0) return true
  const { part, parts, signal } = work
  const { service, tenant, giveUpAt } = part.value
  const rows = positions.map((row) => ({ row, canonical: part.rows.canonicals[row] ?? '' }))
  const checked = await parts.check(rows, {
    service: service as ServiceSlug,
    mode: partsOf(tenant).mode,
    signal,
    last: giveUpAt !== 0 && parts.clock.now() >= giveUpAt,
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
  const { part, parts, outcomes } = work
  const recordOf = recordsOf({ checkedAtMs: parts.clock.now(), job: part.value.job })
  const fresh = new Array<CachedRecord | undefined>(outcomes.length).fill(undefined)
  for (const position of positions) {
    const verdict = checked.kind === 'answered' ? checked.verdicts.get(position) : undefined
    fresh[position] = recordOf(verdict ?? NO_ANSWER)
  }
  failpoint('verify.checked')
  await parts.cache.store(scopeOf(part), part.rows.tokens, fresh)
  failpoint('verify.kept')
  for (const position of positions) {
    const record = fresh[position]
    if (record === undefined) continue
    outcomes[position] = outcomeAt(work, position, { record, source: 'live' })
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

/** The tokens of all positions, or of some. */
function scopeOf ({ value, rows }: Part, positions?: readonly number[]) {
  const { tenant, service } = placeOf(value)
  const others = positions === undefined
    ? rows.otherTokens
    : pickOthers(rows.otherTokens, positions)
  return { tenant, service, version: value.tokenVersion, others }
}
