import type { ListAction } from '../../schemas/api/contact-lists.ts'
import type { Retry, RetryRows } from '../../schemas/types.ts'
import { parseTenant } from '../accounts/tenant.ts'
import { type CachedRecord, isCurrent, type RecordCache } from '../cache/cache.ts'
import { pickRotated, pickTokens } from '../cache/tokens.ts'
import { hasOptions } from '../jobs/options.ts'
import { readDomain } from '../mail/owners.ts'
import { CHUNK_ROWS } from '../jobs/submit.ts'
import {
  type CheckedContact, toCoordinates, createBlock, listedOutcome, type RowOutcome, toRowOutcome,
  withoutVerdict,
} from '../jobs/results/block.ts'
import type { Emission } from '../runtime/engine/stage.ts'
import type { Clock, Sleep } from '../runtime/platform/retry.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { chooseLane } from '../runtime/platform/topics.ts'
import { type Checker, type CheckResult, NO_PROVIDER, type Waiting } from './checker.ts'
import {
  NO_ANSWER, type ProviderVerdict, type Submissions, type VendorSubmission,
} from './provider.ts'

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
  /** Redis time of the end of its check. */
  readonly endedAtMs: number
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
  readonly checker: Pick<Checker, 'check' | 'isOffline' | 'takesBatches'>
  /** Redis time. */
  readonly clock: Clock
  readonly sleep: Sleep
  /** Maximum wait for another job's check of the same contact. */
  readonly leaseMs: number
  readonly leasePollMs: number
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
  const check = new BatchCheck(batch, deps, signal)
  await check.run()
  return check
}

/** A row that no answer names was not checked; it is free and not cached. */
const UNCHECKED: ProviderVerdict = { ...NO_ANSWER, evidence: 0 }

type Positions = readonly number[]

/** A batch during its check; `outcomes` and `waiting` have what is known so far. */
class BatchCheck implements CheckedBatch {
  readonly outcomes: (RowOutcome | undefined)[]
  readonly waiting = new Map<number, Waiting>()
  endedAtMs = 0
  readonly #batch: VerificationBatch
  readonly #deps: CheckDeps
  readonly #signal: AbortSignal

  constructor (batch: VerificationBatch, deps: CheckDeps, signal: AbortSignal) {
    this.#batch = batch
    this.#deps = deps
    this.#signal = signal
    this.outcomes = new Array<RowOutcome | undefined>(batch.rows.rows.length).fill(undefined)
  }

  async run (): Promise<void> {
    const { value: { forceFresh } } = this.#batch
    const { clock, leaseMs, leasePollMs, sleep } = this.#deps
    const due = await this.#answerListed(this.#due())
    if (due.length === 0) return
    let open = await this.#answerSubmitted(due)
    if (forceFresh) {
      await this.#answerLive(await this.#answerFromOwnJob(open))
      return
    }
    open = await this.#answerOffline(open)
    const waitUntilMs = clock.now() + leaseMs
    while (open.length > 0) {
      const { mine, leased } = await this.#answerFromCache(open)
      const expired = clock.now() >= waitUntilMs
      const answered = await this.#answerLive(expired ? [...mine, ...leased] : mine)
      await this.#releaseLeases(mine)
      if (!answered || expired || leased.length === 0) break
      await sleep(leasePollMs, this.#signal)
      open = leased
    }
  }

  /** The positions of the rows to check now. */
  #due (): Positions {
    const { rows, waits } = this.#batch.rows
    const positions = [...rows.keys()]
    const nowMs = this.endedAtMs = this.#deps.clock.now()
    return waits == null || this.#isOver(nowMs)
      ? positions
      : positions.filter(position => (waits.due[position] ?? 0) <= nowMs)
  }

  /** Whether it is the deadline of the batch, at which its rows are checked for the last time. */
  #isOver (nowMs: number): boolean {
    const { value, deadlineMs } = this.#batch
    const isFirst = value.retryDeadline === 0
    return nowMs >= (deadlineMs ?? (isFirst ? Infinity : value.retryDeadline))
  }

  /**
   * Answers the rows of domains whose mail server is on the organization's lists: nobody is asked
   * about them, and they are free. A row waits if DNS does not answer, as its mail server may be
   * suppressed. Resolves to the other positions.
   */
  async #answerListed (positions: Positions): Promise<Positions> {
    const { value, rows: { canonicals } } = this.#batch
    // Nothing is asked for rows of test keys.
    const mayBeListed = value.service === 'email-validation' &&
      parseTenant(value.tenant).mode === 'live'
    if (!mayBeListed || positions.length === 0) return positions
    const { findListedDomains, clock } = this.#deps
    const domainAt = (position: number) => readDomain(canonicals[position] ?? '')
    const listed = await findListedDomains?.(value.tenant, [...new Set(positions.map(domainAt))])
    if (listed === undefined) return positions
    return positions.filter(position => {
      const action = listed.get(domainAt(position))
      if (action === undefined) return true
      if (action === 'unknown') {
        this.waiting.set(position, { reason: 'dns_error', afterMs: 0, forHost: false })
      } else {
        const terms = { atMs: clock.now(), freshnessMs: value.freshnessMs }
        this.outcomes[position] = listedOutcome(action, subjectAt(this.#batch, position), terms)
      }
      return false
    })
  }

  /**
   * Asks for the answers to rows that vendors have; such a row needs no lease, as it is bought.
   * Resolves to the other positions.
   */
  async #answerSubmitted (positions: Positions): Promise<Positions> {
    const { submissions } = this.#batch
    const isSubmitted = (position: number) => submissions?.of(position) !== undefined
    const submitted = positions.filter(isSubmitted)
    if (submitted.length === 0) return positions
    await this.#answerLive(await this.#answerFromOwnJob(submitted))
    return positions.filter(position => !isSubmitted(position))
  }

  /** Uses the records that an earlier delivery of the batch paid for; resolves to the others. */
  async #answerFromOwnJob (open: Positions): Promise<Positions> {
    if (open.length === 0) return open
    const { tokens } = this.#batch.rows
    const records = await this.#deps.cache.find(toCacheScope(this.#batch), tokens)
    for (const position of open) {
      const record = records[position]
      if (record?.job === this.#batch.value.job) this.#answer(position, record)
    }
    return open.filter(position => this.outcomes[position] === undefined)
  }

  /**
   * Checks rows whose providers are all offline, without a lease: if the cache has a usable record
   * by then, that one counts, else the verdict, so that a tenant pays for a contact once. `unknown`
   * is final, as another check would find no more. Resolves to the positions without an answer or
   * with another job's lease, and to all of them if any provider is not offline.
   *
   * During a rotation of tokens contacts have several tokens, and only leases cover all of them.
   */
  async #answerOffline (positions: Positions): Promise<Positions> {
    const { value, rows: { tokens, rotatedTokens } } = this.#batch
    const { checker, cache } = this.#deps
    const { service, tenant } = value
    const isOffline = checker.isOffline(service, parseTenant(tenant).mode)
    if (!isOffline || rotatedTokens != null) return positions
    const { verdicts } = await this.#checkRows(positions)
    const toRecord = this.#recordMaker()
    const checked: number[] = []
    const records: CachedRecord[] = []
    for (const position of positions) {
      const verdict = verdicts.get(position)
      if (verdict === undefined) continue
      const record = toRecord(verdict)
      if (verdict.status === 'unknown') this.#answer(position, record)
      else {
        checked.push(position)
        records.push(record)
      }
    }
    failpoint('verify.offering')
    const stored = await cache.offer(toCacheScope(this.#batch), pickTokens(tokens, checked), {
      records, usable: record => this.#isUsable(record),
    })
    failpoint('verify.offered')
    for (const [index, position] of checked.entries()) {
      const record = stored[index]
      if (record !== undefined && record !== 'leased') this.#answer(position, record)
    }
    return positions.filter(position => this.outcomes[position] === undefined)
  }

  /** Uses cached records; of the other positions this batch leases `mine`, other jobs `leased`. */
  async #answerFromCache (open: Positions) {
    const { cache, leaseMs } = this.#deps
    const { value: { job }, rows } = this.#batch
    const scope = toCacheScope(this.#batch, open)
    const claimed = await cache.claim(scope, pickTokens(rows.tokens, open), {
      job, leaseMs, usable: record => this.#isUsable(record),
    })
    failpoint('verify.claimed')
    const mine: number[] = []
    const leased: number[] = []
    for (const [index, position] of open.entries()) {
      const entry = claimed[index] ?? 'mine'
      if (entry === 'mine') mine.push(position)
      else if (entry === 'leased') leased.push(position)
      else this.#answer(position, entry)
    }
    return { mine, leased }
  }

  /** Releases the leases of contacts without a verdict; a stored record replaced the others. */
  async #releaseLeases (mine: Positions): Promise<void> {
    const without = mine.filter(position =>
      (this.outcomes[position]?.status ?? 'unknown') === 'unknown')
    if (without.length === 0) return
    const { value: { job }, rows } = this.#batch
    await this.#deps.cache.release(
      toCacheScope(this.#batch, without), pickTokens(rows.tokens, without), job)
  }

  /** Checks rows live; false if some have no verdict yet, which stay open. */
  async #answerLive (positions: Positions): Promise<boolean> {
    if (positions.length === 0) return true
    const { verdicts, open } = await this.#checkRows(positions)
    for (const [position, waiting] of open) this.waiting.set(position, waiting)
    this.endedAtMs = this.#deps.clock.now()
    const waited = this.#waitingVerdicts()
    const ended = [...positions.filter(position => !open.has(position)), ...waited.keys()]
    if (ended.length > 0) await this.#storeVerdicts(ended, new Map([...waited, ...verdicts]))
    return open.size === 0
  }

  /** Once the job is over, the verdicts of rows that wait count. */
  #waitingVerdicts (): Map<number, ProviderVerdict> {
    const verdicts = new Map<number, ProviderVerdict>()
    if (this.endedAtMs < (this.#batch.deadlineMs ?? Infinity)) return verdicts
    for (const [position, { verdict }] of this.waiting) {
      if (verdict !== undefined) verdicts.set(position, verdict)
    }
    for (const position of verdicts.keys()) this.waiting.delete(position)
    return verdicts
  }

  async #checkRows (positions: Positions): Promise<CheckResult> {
    const { submissions, value, rows: { canonicals, waits } } = this.#batch
    const rows = positions.map(position => ({
      row: position,
      canonical: canonicals[position] ?? '',
      tries: waits?.tries[position] ?? 0,
    }))
    const { service, tenant, options } = value
    return await this.#deps.checker.check(rows, {
      service,
      mode: parseTenant(tenant).mode,
      ...options && { options },
      tenant,
      isFirst: value.retryDeadline === 0,
      isLast: this.#isOver(this.#deps.clock.now()),
      submissions,
      signal: this.#signal,
    })
  }

  /** Caches verdicts before anything is emitted: a redelivered batch finds them in the cache. */
  async #storeVerdicts (
    positions: Positions, verdicts: ReadonlyMap<number, ProviderVerdict>
  ): Promise<void> {
    const recordOf = this.#recordMaker()
    const records = new Array<CachedRecord | undefined>(this.outcomes.length).fill(undefined)
    for (const position of positions) {
      records[position] = recordOf(verdicts.get(position) ?? UNCHECKED)
    }
    failpoint('verify.checked')
    await this.#deps.cache.store(toCacheScope(this.#batch), this.#batch.rows.tokens, records)
    failpoint('verify.kept')
    for (const position of positions) {
      const record = records[position]
      if (record !== undefined) this.#answer(position, record)
    }
  }

  /** Rows with an identical verdict share one record object, which the cache serializes once. */
  #recordMaker (): (verdict: ProviderVerdict) => CachedRecord {
    const checkedAtMs = this.#deps.clock.now()
    const { job } = this.#batch.value
    const records = new Map<ProviderVerdict, CachedRecord>()
    return verdict => {
      const shared = records.get(verdict)
      if (shared !== undefined) return shared
      const { status, reason, confidence, fields, evidence } = verdict
      // Written out: V8 would optimize for the result of a spread again in each job.
      const record = { status, reason, confidence, fields, evidence, checkedAtMs, job }
      records.set(verdict, record)
      return record
    }
  }

  /** Whether a cached record is of the same job, or has what it asks for and is new enough. */
  #isUsable (record: CachedRecord): boolean {
    const { job, options, quotedAt, freshnessMs } = this.#batch.value
    return record.job === job || (hasOptions(record.fields, options) &&
      isCurrent(record, { quotedAtMs: quotedAt, freshnessMs }))
  }

  /** A record that this job paid for is charged, also after a redelivery. */
  #answer (position: number, record: CachedRecord): void {
    const { job, freshnessMs } = this.#batch.value
    const source = record.job === job ? 'live' : 'cache'
    this.outcomes[position] =
      toRowOutcome(record, subjectAt(this.#batch, position), { source, freshnessMs })
  }
}

/** The positions without an outcome. */
export const openIn = (outcomes: BatchOutcomes): readonly number[] =>
  [...outcomes.keys()].filter((position) => outcomes[position] === undefined)

/** The contact at a position. */
function subjectAt ({ value, rows }: VerificationBatch, position: number): CheckedContact {
  return {
    service: value.service,
    canonical: rows.canonicals[position] ?? '',
    copies: rows.duplicates[position] ?? 0,
  }
}

/** Tenant, service and tokens for the cache entries of all positions, or of some. */
function toCacheScope ({ value, rows }: VerificationBatch, positions?: readonly number[]) {
  const { tenant, service } = toCoordinates(value)
  const rotated = positions === undefined
    ? rows.rotatedTokens
    : pickRotated(rows.rotatedTokens, positions)
  return { tenant, service, version: value.tokenVersion, rotated }
}

/** The batch of a cancelled job: all of its rows end unchecked. `atMs` is Redis time. */
export function cancelledBatch (batch: VerificationBatch, atMs: number): CheckedBatch {
  const outcomes = batch.rows.rows.map((_, position) =>
    withoutVerdict('cancelled', { atMs, subject: subjectAt(batch, position) }))
  return { outcomes, waiting: new Map(), endedAtMs: atMs }
}

export type EmitDeps = {
  /** Redis time. */
  readonly clock: Clock
  /** Milliseconds before the rows without an outcome are checked again. */
  readonly retryDelayMs: number
  /** Milliseconds after the first attempt when such rows end without a verdict. */
  readonly retryForMs: number
  /** Milliseconds after the first row began to wait for a host when such rows end. */
  readonly hostRetryForMs: number
  readonly metrics?: Pick<Metrics, 'count'>
}

/**
 * A block of the rows with an outcome, and a retry of the others. After the deadline the others end
 * without a verdict in the same block. Rows that a vendor has are retried as often as it wants to
 * be asked for them, until its deadline. All retries return after the same delay, so that a
 * partition stays in the order of time; a row that is not due yet only waits on.
 */
export function batchEmissions (
  batch: VerificationBatch, { outcomes, waiting, endedAtMs }: CheckedBatch, deps: EmitDeps
): readonly Emission<'rows.completed' | 'rows.retry'>[] {
  const nowMs = deps.clock.now()
  const { value } = batch
  const open = openIn(outcomes)
  if (open.length === 0) return [toBlock(batch, outcomes)]
  const submitted = listSubmissions(batch, open)
  const waits = listWaits(batch, open, { waiting, nowMs })
  const isWaiting = batch.rows.waits != null
  // The deadline of the job, or the latest of the usual ones.
  const retryDeadline = batch.deadlineMs ?? Math.max(
    value.retryDeadline === 0 ? nowMs + deps.retryForMs : value.retryDeadline,
    !isWaiting && waits !== null ? nowMs + deps.hostRetryForMs : 0,
    ...submitted.map(task => task.deadlineMs))
  // If it passes after the check, another check is the last one, unless none is repeated.
  const judgedAtMs = deps.retryForMs === 0 ? nowMs : endedAtMs
  if (judgedAtMs >= retryDeadline) {
    const ended = [...outcomes]
    for (const position of open) {
      const { reason } = waiting.get(position) ?? NO_PROVIDER
      ended[position] = withoutVerdict(reason, { atMs: nowMs, subject: subjectAt(batch, position) })
    }
    return [toBlock(batch, ended)]
  }
  const unsubmitted = open.filter((position) => batch.submissions?.of(position) === undefined)
  const isForHost = (position: number) => waiting.get(position)?.forHost ?? isWaiting
  if (!unsubmitted.every(isForHost)) {
    deps.metrics?.count('verification_batches_retried_total', {
      service: value.service,
    })
  }
  const delays = submitted.map(({ pollMs }) => pollMs)
  if (unsubmitted.length > 0) delays.push(deps.retryDelayMs)
  const notBefore = Math.min(nowMs + Math.min(...delays), retryDeadline)
  const { rowsSchema: _schema, sealed: _sealed, ...envelope } = value
  const retry: Emission<'rows.retry'> = {
    topic: 'rows.retry',
    lane: chooseLane(value.totalRows),
    service: value.service,
    value: { ...envelope, attempt: value.attempt + 1, notBefore, retryDeadline },
    rows: { ...rowsAt(batch.rows, open), waits },
  }
  return open.length === outcomes.length ? [retry] : [toBlock(batch, outcomes), retry]
}

/** What the open rows wait for; null as long as no row of the batch waits for a host. */
function listWaits (
  { rows }: VerificationBatch, open: Positions,
  { waiting, nowMs }: Pick<CheckedBatch, 'waiting'> & { readonly nowMs: number }
) {
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
export function listSubmissions (
  { submissions }: VerificationBatch, open: readonly number[]
): readonly VendorSubmission[] {
  return [...new Set(open.flatMap((position) => submissions?.of(position) ?? []))]
}

function toBlock (batch: VerificationBatch, outcomes: BatchOutcomes): Emission<'rows.completed'> {
  const coordinates = toCoordinates(batch.value)
  const block = createBlock({ coordinates, batch: numberBlock(batch.value) })
  const { rows } = batch.rows
  for (let position = 0; position < rows.length; position++) {
    const row = rows[position]
    const outcome = outcomes[position]
    if (row !== undefined && outcome !== undefined) block.add(row, outcome)
  }
  return block.emission(chooseLane(coordinates.totalRows))
}

/**
 * The batch number of a block: that of the verification batch, plus CHUNK_ROWS for each earlier
 * attempt. A chunk has at most CHUNK_ROWS batches, so all blocks of a chunk have different numbers,
 * which their seals are bound to.
 */
function numberBlock ({ batch, attempt }: Retry): number {
  return batch + CHUNK_ROWS * attempt
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
