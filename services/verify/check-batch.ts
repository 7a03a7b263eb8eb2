import type { Clock } from '../runtime/platform/clock.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import type { Sleep } from '../runtime/platform/retry.ts'
import type { RecordCache } from '../cache/cache.ts'
import { pickTokens } from '../cache/tokens.ts'
import { type CachedRecord, type CheckedRecord, isFresh } from '../cache/entries.ts'
import { type RowOutcome, rowOutcomeOf } from '../jobs/results/outcome.ts'
import {
  type BatchOutcomes, cacheScopeOf, kindOf, subjectAt, type VerificationBatch,
} from './batch.ts'
import type { Checker, CheckResult } from './checker.ts'
import type { ProviderVerdict } from './provider.ts'

export type CheckDeps = {
  readonly cache: RecordCache
  readonly check: Checker
  /** Redis time. */
  readonly clock: Clock
  readonly sleep: Sleep
  /** Maximum wait for another job's check of the same contact. */
  readonly leaseMs: number
  readonly leasePollMs: number
}

/** A batch during its check; `outcomes` has those that are known so far. */
export type BatchCheck = {
  readonly batch: VerificationBatch
  readonly deps: CheckDeps
  readonly signal: AbortSignal
  readonly outcomes: (RowOutcome | undefined)[]
}

/**
 * Checks the rows of a batch. Offline checks cost nothing and run at once; the first verdict of a
 * contact counts. All other checks cost money, so a row is checked only if the cache has no record
 * for it. If another job of the tenant checks a contact, the batch waits after its own checks until
 * the cache has the verdict or the lease has expired. With `forceFresh` a batch uses only records
 * of its own job and does not wait. Rejects if an infrastructure call fails.
 */
export async function checkBatch (batch: VerificationBatch, deps: CheckDeps, signal: AbortSignal):
Promise<BatchOutcomes> {
  const outcomes = new Array<RowOutcome | undefined>(batch.rows.rows.length).fill(undefined)
  const check = { batch, deps, signal, outcomes }
  let open = await answerSubmitted(check, [...outcomes.keys()])
  if (batch.value.forceFresh) {
    await answerLive(check, await answerFromOwnJob(check, open))
    return outcomes
  }
  open = await answerOffline(check, open)
  const waitUntilMs = deps.clock.now() + deps.leaseMs
  while (open.length > 0) {
    const { mine, leased } = await answerFromCache(check, open)
    const expired = deps.clock.now() >= waitUntilMs
    const answered = await answerLive(check, expired ? [...mine, ...leased] : mine)
    await releaseLeases(check, mine)
    if (!answered || expired || leased.length === 0) break
    await deps.sleep(deps.leasePollMs, signal)
    open = leased
  }
  return outcomes
}

/**
 * Asks for the answers to rows that vendors have; such a row needs no lease, as it is bought.
 * Resolves to the other positions.
 */
async function answerSubmitted (check: BatchCheck, positions: readonly number[]):
Promise<readonly number[]> {
  const { submissions } = check.batch
  const submitted = positions.filter((position) => submissions?.of(position) !== undefined)
  if (submitted.length === 0) return positions
  await answerLive(check, await answerFromOwnJob(check, submitted))
  return positions.filter((position) => submissions?.of(position) === undefined)
}

/** Uses the records that an earlier delivery of the batch paid for; resolves to open positions. */
async function answerFromOwnJob (check: BatchCheck, open: readonly number[]):
Promise<readonly number[]> {
  const { batch, deps, outcomes } = check
  const records = await deps.cache.find(cacheScopeOf(batch), batch.rows.tokens)
  for (const position of open) {
    const record = records[position]
    if (record?.job !== batch.value.job) continue
    outcomes[position] = outcomeAt(batch, position, { record, source: 'live' })
  }
  return open.filter((position) => outcomes[position] === undefined)
}

/**
 * Checks rows whose providers are all offline, without a lease: if the cache has a usable record by
 * then, that one counts, else the verdict, so that a tenant pays for a contact once. `unknown` is
 * final, as another check would find no more. Resolves to the positions without an answer or with
 * another job's lease, and to all of them if any provider is not offline.
 *
 * During a rotation of tokens contacts have several tokens, and only leases cover all of them.
 */
export async function answerOffline (check: BatchCheck, positions: readonly number[]):
Promise<readonly number[]> {
  const { batch, deps, outcomes } = check
  const isOffline = deps.check.isOffline?.(kindOf(batch.value)) === true
  const isRotating = (batch.rows.rotatedTokens ?? undefined) !== undefined
  if (!isOffline || isRotating) return positions
  const { rows, records } = await offlineRecords(check, positions)
  failpoint('verify.offering')
  const stored = await deps.cache.offer(cacheScopeOf(batch), pickTokens(batch.rows.tokens, rows), {
    records, usable: (record) => isUsable(record, batch),
  })
  failpoint('verify.offered')
  for (let index = 0; index < rows.length; index++) {
    const position = rows[index]
    const record = stored[index]
    if (position === undefined || record === undefined || record === 'leased') continue
    const source = record.job === batch.value.job ? 'live' : 'cache'
    outcomes[position] = outcomeAt(batch, position, { record, source })
  }
  return positions.filter((position) => outcomes[position] === undefined)
}

type Records = { readonly rows: readonly number[], readonly records: readonly CachedRecord[] }

/** The positions with a verdict, and the record of each; an `unknown` is an outcome at once. */
async function offlineRecords (check: BatchCheck, positions: readonly number[]): Promise<Records> {
  const { batch, deps, outcomes } = check
  const result = await checkRows(check, positions)
  const rows: number[] = []
  const records: CachedRecord[] = []
  if (result.kind !== 'answered') return { rows, records }
  const recordOf = createRecordOf({ checkedAtMs: deps.clock.now(), job: batch.value.job })
  for (const position of positions) {
    const verdict = result.verdicts.get(position)
    if (verdict === undefined) continue
    const record = recordOf(verdict)
    if (verdict.status === 'unknown') {
      outcomes[position] = outcomeAt(batch, position, { record, source: 'live' })
      continue
    }
    rows.push(position)
    records.push(record)
  }
  return { rows, records }
}

type Open = { readonly mine: readonly number[], readonly leased: readonly number[] }

/** Uses cached records; of the other positions this batch leases `mine`, other jobs `leased`. */
async function answerFromCache (check: BatchCheck, open: readonly number[]): Promise<Open> {
  const { batch, deps, outcomes } = check
  const { job } = batch.value
  const tokens = pickTokens(batch.rows.tokens, open)
  const claimed = await deps.cache.claim(cacheScopeOf(batch, open), tokens, {
    job, leaseMs: deps.leaseMs, usable: (record) => isUsable(record, batch),
  })
  failpoint('verify.claimed')
  const mine: number[] = []
  const leased: number[] = []
  for (const [index, position] of open.entries()) {
    const found = claimed[index] ?? 'mine'
    if (found === 'mine') mine.push(position)
    else if (found === 'leased') leased.push(position)
    else {
      const source = found.job === job ? 'live' : 'cache'
      outcomes[position] = outcomeAt(batch, position, { record: found, source })
    }
  }
  return { mine, leased }
}

/** Releases the leases of contacts without a verdict; a stored record replaced the other leases. */
async function releaseLeases (
  { batch, deps, outcomes }: BatchCheck, mine: readonly number[]
): Promise<void> {
  const without = mine.filter((position) =>
    (outcomes[position]?.status ?? 'unknown') === 'unknown')
  if (without.length === 0) return
  await deps.cache.release(
    cacheScopeOf(batch, without), pickTokens(batch.rows.tokens, without), batch.value.job)
}

/** Checks rows live; false if no provider was available for some rows, which stay open. */
async function answerLive (check: BatchCheck, positions: readonly number[]): Promise<boolean> {
  if (positions.length === 0) return true
  const result = await checkRows(check, positions)
  if (result.kind === 'down') return false
  const open = result.kind === 'answered' ? result.open : undefined
  await storeVerdicts(check, positions.filter((position) => open?.has(position) !== true), result)
  return open === undefined
}

async function checkRows (
  { batch, deps, signal }: BatchCheck, positions: readonly number[]
): Promise<CheckResult> {
  const { submissions } = batch
  const rows = positions.map((row) => ({ row, canonical: batch.rows.canonicals[row] ?? '' }))
  const { retryDeadline } = batch.value
  const isFirst = retryDeadline === 0
  const isLast = !isFirst && deps.clock.now() >= retryDeadline
  return await deps.check(rows, { ...kindOf(batch.value), signal, isLast, isFirst, submissions })
}

/** A row that no answer names was not checked; it is free and not cached. */
const NO_ANSWER: ProviderVerdict = {
  status: 'unknown', reason: 'no_answer', confidence: 0, fields: {}, evidence: 0,
}

/** Caches verdicts before anything is emitted: a redelivered batch finds them in the cache. */
async function storeVerdicts (
  { batch, deps, outcomes }: BatchCheck, positions: readonly number[],
  result: Exclude<CheckResult, { kind: 'down' }>
): Promise<void> {
  const recordOf = createRecordOf({ checkedAtMs: deps.clock.now(), job: batch.value.job })
  const fresh = new Array<CachedRecord | undefined>(outcomes.length).fill(undefined)
  for (const position of positions) {
    const verdict = result.kind === 'answered' ? result.verdicts.get(position) : undefined
    fresh[position] = recordOf(verdict ?? NO_ANSWER)
  }
  failpoint('verify.checked')
  await deps.cache.store(cacheScopeOf(batch), batch.rows.tokens, fresh)
  failpoint('verify.kept')
  for (const position of positions) {
    const record = fresh[position]
    if (record === undefined) continue
    outcomes[position] = outcomeAt(batch, position, { record, source: 'live' })
  }
}

/** Whether a cached record is of the same job, or fresh enough for it. */
function isUsable (record: CachedRecord, { value }: VerificationBatch): boolean {
  if (record.job === value.job) return true
  return isFresh(record, { quotedAtMs: value.quotedAt, freshnessMs: value.freshnessMs })
}

/** Rows with an identical verdict share one record object, which the cache serializes once. */
function createRecordOf (made: Pick<CachedRecord, 'checkedAtMs' | 'job'>) {
  const known = new Map<ProviderVerdict, CachedRecord>()
  return (verdict: ProviderVerdict): CachedRecord => {
    const found = known.get(verdict)
    if (found !== undefined) return found
    const { status, reason, confidence, fields, evidence } = verdict
    const { checkedAtMs, job } = made
    // Written out: V8 would optimize for the result of a spread again in each job.
    const record = { status, reason, confidence, fields, evidence, checkedAtMs, job }
    known.set(verdict, record)
    return record
  }
}

type Answer = { readonly record: CheckedRecord, readonly source: 'live' | 'cache' }

/** The outcome of the row at a position by a record. */
export function outcomeAt (
  batch: VerificationBatch, position: number, { record, source }: Answer
): RowOutcome {
  const { freshnessMs } = batch.value
  return rowOutcomeOf(record, subjectAt(batch, position), { source, freshnessMs })
}
