import type { ListAction } from '../../schemas/api/contact-lists.ts'
import type { Retry, RetryRows } from '../../schemas/types.ts'
import type { Reason } from '../../schemas/api/verdicts.ts'
import { partsOf } from '../accounts/tenant.ts'
import type { RecordCache } from '../cache/cache.ts'
import { type CachedRecord, type CheckedRecord, isFresh } from '../cache/entries.ts'
import { pickRotated, pickTokens } from '../cache/tokens.ts'
import { hasOptions } from '../jobs/options.ts'
import { CHUNK_ROWS } from '../jobs/send.ts'
import { coordinatesOf, createBlock } from '../jobs/results/block.ts'
import {
  type CheckedContact, listedOutcome, type RowOutcome, rowOutcomeOf, withoutVerdict,
} from '../jobs/results/outcome.ts'
import type { Emission } from '../runtime/engine/stage.ts'
import type { Clock } from '../runtime/platform/clock.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import type { Sleep } from '../runtime/platform/retry.ts'
import { laneOf } from '../runtime/platform/topics.ts'
import type { ServiceSlug } from '../topology.ts'
import {
  type Checker, type CheckRequest, type CheckResult, NO_PROVIDER, type Waiting,
} from './checker.ts'
import type { ProviderVerdict, Submissions, VendorSubmission } from './provider.ts'

/** A verification batch; a position is an index into its rows, not into those of the chunk. */
export type VerificationBatch = {
  readonly value: Retry
  readonly rows: RetryRows
  /** If a provider of the service takes batches. */
  readonly submissions?: Submissions | undefined
  /** Redis time at which the job wants its open rows to end; absent for the usual time. */
  readonly deadlineMs?: number | undefined
}

/** One entry per row of the batch; undefined for a row that has no verdict yet. */
type BatchOutcomes = readonly (RowOutcome | undefined)[]

/** `waiting` has the rows that were checked without a verdict, by their positions. */
export type CheckedBatch = {
  readonly outcomes: BatchOutcomes
  readonly waiting: ReadonlyMap<number, Waiting>
}

/**
 * What an organization's lists say of the mail servers of domains, by domain; `unknown` if DNS does
 * not answer. Undefined if no mail server is on its lists.
 */
export type FindListedDomains = (
  tenant: string, domains: readonly string[],
) => Promise<ReadonlyMap<string, ListAction | 'unknown'> | undefined>

export type CheckDeps = {
  /** Left out where domains are not checked by DNS. */
  readonly findListedDomains?: FindListedDomains | undefined
  readonly cache: RecordCache
  readonly check: Checker
  /** Redis time. */
  readonly clock: Clock
  readonly sleep: Sleep
  /** Maximum wait for another job's check of the same contact. */
  readonly leaseMs: number
  readonly leasePollMs: number
}

/** A batch during its check; `outcomes` and `waiting` have what is known so far. */
type BatchCheck = {
  readonly batch: VerificationBatch
  readonly deps: CheckDeps
  readonly signal: AbortSignal
  readonly outcomes: (RowOutcome | undefined)[]
  readonly waiting: Map<number, Waiting>
}

/**
 * Checks the rows of a batch that are due, and all of them at the deadline. Offline checks cost
 * nothing and run at once; the first verdict of a contact counts. All other checks cost money, so a
 * row is checked only if the cache has no record for it. If another job of the tenant checks a
 * contact, the batch waits after its own checks until the cache has the verdict or the lease has
 * expired. With `forceFresh` a batch uses only records of its own job and does not wait. Rejects if
 * an infrastructure call fails.
 */
export async function checkBatch (batch: VerificationBatch, deps: CheckDeps, signal: AbortSignal):
Promise<CheckedBatch> {
  const outcomes = new Array<RowOutcome | undefined>(batch.rows.rows.length).fill(undefined)
  const check = { batch, deps, signal, outcomes, waiting: new Map<number, Waiting>() }
  const due = await answerListed(check, dueIn(batch, deps.clock.now()))
  if (due.length > 0) await checkPositions(check, due)
  return check
}

/**
 * Answers the rows of domains whose mail server is on the organization's lists: nobody is asked
 * about them, and they are free. A row waits if DNS does not answer, as its mail server may be
 * suppressed. Resolves to the other positions.
 */
async function answerListed (check: BatchCheck, positions: readonly number[]):
Promise<readonly number[]> {
  const { batch, deps: { findListedDomains, clock }, outcomes, waiting } = check
  const { service, mode } = kindOf(batch.value)
  const { tenant, freshnessMs } = batch.value
  // Nothing is asked for rows of test keys.
  if (service !== 'email-validation' || mode === 'test' || positions.length === 0) return positions
  const domainAt = (position: number) => (batch.rows.canonicals[position] ?? '').split('@').at(-1)
  const domains = [...new Set(positions.map(position => domainAt(position) ?? ''))]
  const listed = await findListedDomains?.(tenant, domains)
  if (listed === undefined) return positions
  return positions.filter(position => {
    const action = listed.get(domainAt(position) ?? '')
    if (action === undefined) return true
    if (action === 'unknown') {
      waiting.set(position, { reason: 'dns_error', afterMs: 0, forHost: false })
    } else {
      const terms = { atMs: clock.now(), freshnessMs }
      outcomes[position] = listedOutcome(action, subjectAt(batch, position), terms)
    }
    return false
  })
}

/** The positions of the rows to check now. */
function dueIn (batch: VerificationBatch, nowMs: number): readonly number[] {
  const positions = [...batch.rows.rows.keys()]
  const due = batch.rows.waits?.due
  return due === undefined || isOver(batch, nowMs)
    ? positions
    : positions.filter((position) => (due[position] ?? 0) <= nowMs)
}

/** Whether it is the deadline of the batch, at which its rows are checked for the last time. */
function isOver ({ value, deadlineMs }: VerificationBatch, nowMs: number): boolean {
  const isFirst = value.retryDeadline === 0
  return nowMs >= (deadlineMs ?? (isFirst ? Infinity : value.retryDeadline))
}

async function checkPositions (check: BatchCheck, positions: readonly number[]): Promise<void> {
  const { batch, deps, signal } = check
  let open = await answerSubmitted(check, positions)
  if (batch.value.forceFresh) {
    await answerLive(check, await answerFromOwnJob(check, open))
    return
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
  if (open.length === 0) return open
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
async function answerOffline (check: BatchCheck, positions: readonly number[]):
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
    const entry = claimed[index] ?? 'mine'
    if (entry === 'mine') mine.push(position)
    else if (entry === 'leased') leased.push(position)
    else {
      const source = entry.job === job ? 'live' : 'cache'
      outcomes[position] = outcomeAt(batch, position, { record: entry, source })
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

/** Checks rows live; false if some have no verdict yet, which stay open. */
async function answerLive (check: BatchCheck, positions: readonly number[]): Promise<boolean> {
  if (positions.length === 0) return true
  const result = await checkRows(check, positions)
  const open = result.kind === 'rejected' ? undefined : result.open
  for (const [position, waiting] of open ?? []) check.waiting.set(position, waiting)
  if (result.kind === 'down') return false
  await storeVerdicts(check, positions.filter((position) => open?.has(position) !== true), result)
  return open === undefined
}

async function checkRows (
  { batch, deps, signal }: BatchCheck, positions: readonly number[]
): Promise<CheckResult> {
  const { submissions, value: { tenant, retryDeadline } } = batch
  const { canonicals, waits } = batch.rows
  const rows = positions.map((row) =>
    ({ row, canonical: canonicals[row] ?? '', tries: waits?.tries[row] ?? 0 }))
  const isFirst = retryDeadline === 0
  const isLast = isOver(batch, deps.clock.now())
  return await deps.check(rows, {
    ...kindOf(batch.value), tenant, signal, isLast, isFirst, submissions,
  })
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

/** Whether a cached record is of the same job, or has what it asks for and is fresh enough. */
function isUsable (record: CachedRecord, { value }: VerificationBatch): boolean {
  if (record.job === value.job) return true
  const { options, quotedAt, freshnessMs } = value
  return hasOptions(record.fields, options) &&
    isFresh(record, { quotedAtMs: quotedAt, freshnessMs })
}

/** Rows with an identical verdict share one record object, which the cache serializes once. */
function createRecordOf (made: Pick<CachedRecord, 'checkedAtMs' | 'job'>) {
  const records = new Map<ProviderVerdict, CachedRecord>()
  return (verdict: ProviderVerdict): CachedRecord => {
    const shared = records.get(verdict)
    if (shared !== undefined) return shared
    const { status, reason, confidence, fields, evidence } = verdict
    const { checkedAtMs, job } = made
    // Written out: V8 would optimize for the result of a spread again in each job.
    const record = { status, reason, confidence, fields, evidence, checkedAtMs, job }
    records.set(verdict, record)
    return record
  }
}

type Answer = { readonly record: CheckedRecord, readonly source: 'live' | 'cache' }

/** The outcome of the row at a position by a record. */
function outcomeAt (
  batch: VerificationBatch, position: number, { record, source }: Answer
): RowOutcome {
  const { freshnessMs } = batch.value
  return rowOutcomeOf(record, subjectAt(batch, position), { source, freshnessMs })
}

/** The positions without an outcome. */
export const openIn = (outcomes: BatchOutcomes): readonly number[] =>
  [...outcomes.keys()].filter((position) => outcomes[position] === undefined)

/** The contact at a position. */
function subjectAt ({ value, rows }: VerificationBatch, position: number): CheckedContact {
  return {
    service: value.service as ServiceSlug,
    canonical: rows.canonicals[position] ?? '',
    copies: rows.duplicates[position] ?? 0,
  }
}

/** Service, mode and options of the batch. */
export function kindOf (
  { service, tenant, options }: Retry
): Pick<CheckRequest, 'service' | 'mode' | 'options'> {
  return {
    service: service as ServiceSlug, mode: partsOf(tenant).mode, ...options && { options },
  }
}

/** Tenant, service and tokens for the cache entries of all positions, or of some. */
function cacheScopeOf ({ value, rows }: VerificationBatch, positions?: readonly number[]) {
  const { tenant, service } = coordinatesOf(value)
  const rotated = positions === undefined
    ? rows.rotatedTokens
    : pickRotated(rows.rotatedTokens, positions)
  return { tenant, service, version: value.tokenVersion, rotated }
}

/** All rows of the batch without a verdict, for one reason; `atMs` is Redis time. */
export function allWithout (batch: VerificationBatch, reason: Reason, atMs: number): BatchOutcomes {
  return batch.rows.rows.map((_, position) =>
    withoutVerdict(reason, { atMs, subject: subjectAt(batch, position) }))
}

export type EmitDeps = {
  /** Redis time. */
  readonly clock: Clock
  /** Milliseconds before the rows without an outcome are checked again. */
  readonly retryDelayMs: number
  /** Milliseconds after the first attempt when such rows end without a verdict. */
  readonly retryForMs: number
  /** Milliseconds after a host has put off the first row when such rows end. */
  readonly hostRetryForMs: number
  readonly metrics?: Pick<Metrics, 'count'>
}

/**
 * A block of the rows with an outcome, and a retry of the others. After the deadline the others end
 * without a verdict in the same block. Rows that a vendor has are retried as often as it wants to
 * be asked for them, until its deadline. All retries return after the same delay, so that a
 * partition stays in the order of time; a row that is due later is only carried on until then.
 */
export function batchEmissions (
  batch: VerificationBatch, { outcomes, waiting }: CheckedBatch, deps: EmitDeps
): readonly Emission<'rows.completed' | 'rows.retry'>[] {
  const nowMs = deps.clock.now()
  const { value } = batch
  const open = openIn(outcomes)
  if (open.length === 0) return [blockOf(batch, outcomes)]
  const submitted = submittedOf(batch, open)
  const waits = waitsOf(batch, open, { waiting, nowMs })
  const retryDeadline = retryDeadlineOf(batch, { submitted, waits, nowMs }, deps)
  if (nowMs >= retryDeadline) {
    const ended = [...outcomes]
    for (const position of open) {
      const { reason } = waiting.get(position) ?? NO_PROVIDER
      ended[position] = withoutVerdict(reason, { atMs: nowMs, subject: subjectAt(batch, position) })
    }
    return [blockOf(batch, ended)]
  }
  const unsubmitted = open.filter((position) => batch.submissions?.of(position) === undefined)
  const isForHost = (position: number) =>
    waiting.get(position)?.forHost ?? (batch.rows.waits ?? undefined) !== undefined
  if (!unsubmitted.every(isForHost)) {
    deps.metrics?.count('verification_batches_retried_total', { service: value.service })
  }
  const delays = submitted.map(({ pollMs }) => pollMs)
  if (unsubmitted.length > 0) delays.push(deps.retryDelayMs)
  const notBefore = Math.min(nowMs + Math.min(...delays), retryDeadline)
  const retry = retryOf(batch, { open, waits, times: { notBefore, retryDeadline } })
  return open.length === outcomes.length ? [retry] : [blockOf(batch, outcomes), retry]
}

type OpenRows = {
  readonly submitted: readonly VendorSubmission[]
  readonly waits: RetryRows['waits']
  readonly nowMs: number
}

/** When the open rows of the batch end: that of the job, or the latest of the usual times. */
function retryDeadlineOf (
  { value, rows, deadlineMs }: VerificationBatch, { submitted, waits, nowMs }: OpenRows,
  { retryForMs, hostRetryForMs }: EmitDeps
): number {
  if (deadlineMs !== undefined) return deadlineMs
  const first = value.retryDeadline === 0 ? nowMs + retryForMs : value.retryDeadline
  const isPutOff = (rows.waits ?? null) === null && (waits ?? null) !== null
  return Math.max(
    first, isPutOff ? nowMs + hostRetryForMs : 0, ...submitted.map((task) => task.deadlineMs))
}

type Checked = Pick<CheckedBatch, 'waiting'> & { readonly nowMs: number }

/** What the open rows wait for; null as long as no host has put off any row of the batch. */
function waitsOf (
  { rows }: VerificationBatch, open: readonly number[], { waiting, nowMs }: Checked
): RetryRows['waits'] {
  const before = rows.waits ?? undefined
  if (before === undefined && !open.some((position) => waiting.get(position)?.forHost)) return null
  const [due, tries, reasons]: [number[], number[], string[]] = [[], [], []]
  for (const position of open) {
    const now = waiting.get(position)
    const afterMs = now?.afterMs ?? 0
    const dueBefore = now === undefined ? before?.due[position] ?? 0 : 0
    due.push(afterMs > 0 ? Math.ceil(nowMs + afterMs) : dueBefore)
    const isTry = afterMs > 0 && now?.isForTurn !== true
    tries.push((before?.tries[position] ?? 0) + (isTry ? 1 : 0))
    reasons.push(now?.reason ?? before?.reasons[position] ?? NO_PROVIDER.reason)
  }
  return { due, tries, reasons }
}

/** What vendors have of the rows at these positions. */
export function submittedOf (
  { submissions }: VerificationBatch, open: readonly number[]
): readonly VendorSubmission[] {
  return [...new Set(open.flatMap((position) => submissions?.of(position) ?? []))]
}

function blockOf (batch: VerificationBatch, outcomes: BatchOutcomes): Emission<'rows.completed'> {
  const coordinates = coordinatesOf(batch.value)
  const block = createBlock({ coordinates, batch: numberBlock(batch.value) })
  const { rows } = batch.rows
  for (let position = 0; position < rows.length; position++) {
    const row = rows[position]
    const outcome = outcomes[position]
    if (row !== undefined && outcome !== undefined) block.add(row, outcome)
  }
  return block.emission(laneOf(coordinates.totalRows))
}

/**
 * The batch number of a block: that of the verification batch, plus CHUNK_ROWS for each earlier
 * attempt. A chunk has at most CHUNK_ROWS batches, so all blocks of a chunk have different numbers,
 * which their seals are bound to.
 */
function numberBlock ({ batch, attempt }: Retry): number {
  return batch + CHUNK_ROWS * attempt
}

type RetryTerms = {
  readonly open: readonly number[]
  readonly waits: RetryRows['waits']
  readonly times: Pick<Retry, 'notBefore' | 'retryDeadline'>
}

function retryOf (
  { value, rows }: VerificationBatch, { open, waits = null, times }: RetryTerms
): Emission<'rows.retry'> {
  const { rowsSchema: _schema, sealed: _sealed, ...envelope } = value
  const coordinates = coordinatesOf(value)
  return {
    topic: 'rows.retry',
    lane: laneOf(coordinates.totalRows),
    service: coordinates.service,
    value: { ...envelope, attempt: value.attempt + 1, ...times },
    rows: { ...rowsAt(rows, open), waits },
  }
}

function rowsAt (rows: RetryRows, positions: readonly number[]): Omit<RetryRows, 'waits'> {
  const pick = <T>(values: readonly T[]): T[] => positions.map((position) => values[position] as T)
  return {
    rows: pick(rows.rows),
    duplicates: pick(rows.duplicates),
    canonicals: pick(rows.canonicals),
    tokens: pickTokens(rows.tokens, positions),
    rotatedTokens: pickRotated(rows.rotatedTokens, positions),
  }
}
