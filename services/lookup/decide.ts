import { isUndecided, type Reason } from '../../schemas/api/verdicts.ts'
import type { Journal, Normalized } from '../../schemas/types.ts'
import { pickRotated, pickTokens } from '../cache/tokens.ts'
import type { Decision, Emission } from '../runtime/engine/stage.ts'
import type { JobStore } from '../jobs/store.ts'
import type { AcceptRequest, DecidedOutcome, QuoteSample } from '../jobs/job.ts'
import { maxQuoteMicros } from '../money/prices.ts'
import type { Clock } from '../runtime/platform/retry.ts'
import { isOutageOrFatal } from '../runtime/platform/errors.ts'
import { eventLoop } from '../runtime/platform/limits.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import { chooseLane } from '../runtime/platform/topics.ts'
import {
  type BlockOptions, toCoordinates, createBlock, type DuplicateOutcome, listedOutcome, NO_BATCH,
  NO_FIELDS, type RowOutcome, toRowOutcome, withoutVerdict,
} from '../jobs/results/block.ts'
import { SERVICE_DEFINITIONS } from '../jobs/results/columns.ts'
import type { Lane, ServiceSlug } from '../topology.ts'
import {
  type BatchRows, chooseSample, type Chunk, type ChunkLoader, type ChunkMessage, classifyRow,
  type JobMessages, type JobTerms, toJobTerms, findOriginal, type PreflightCounts,
  type ReadableLists, readChunks, type RowKind,
} from './read.ts'

/** What `lookup` needs. */
export type LookupDeps = {
  readonly store: JobStore
  /** Of this stage alone: it holds chunks in memory. */
  readonly loader: ChunkLoader
  /** Redis time. */
  readonly clock: Clock
  readonly lists?: ReadableLists
  readonly policy: (tenant: string) => Promise<TenantPolicy>
  /** Of a row with the chosen options. */
  readonly unitPriceMicros: (
    tenant: string, service: ServiceSlug, options: readonly string[],
  ) => number
  readonly batchRows: BatchRows
  /** Maximum number of messages in one call of `decide`. */
  readonly batch: number
  /** Idle polls, one per second, after which missing chunks are lost. */
  readonly lostAfterIdlePolls: number
  /** Called with the reason when a job cannot be decided, for logs. */
  readonly onUndecidable: (of: { tenant: string, job: string }, error: unknown) => void
}

/**
 * How long a record counts as fresh, how many jobs with fresh rows there may be, and the events
 * before the end of a job that the organization wants to know of.
 */
type TenantPolicy = Pick<AcceptRequest, 'events' | 'lowBalanceMicros'> & {
  readonly freshnessMs: number
  readonly maxActiveJobs: number
  /** Whether the organization was erased. */
  readonly isErased?: boolean
}

/**
 * Decides a job all of whose chunks are there. Rethrows infrastructure errors, which the engine
 * retries; any other error fails the job.
 */
export async function decideJob (
  unit: JobMessages, deps: LookupDeps
): Promise<Decision<'lookup'>> {
  try {
    return await quoteAndAccept(unit, deps)
  } catch (error) {
    if (isOutageOrFatal(error)) throw error
    const { tenant, job } = firstEnvelope(unit)
    deps.onUndecidable({ tenant, job }, error)
    return await failJob(unit, deps)
  }
}

/**
 * Duplicates, hits, quote, `accept`, and what follows from it. A job that was refused, or is
 * closed, emits nothing; one that is accepted already keeps its stored quote, and all it emits is
 * emitted again.
 */
async function quoteAndAccept (
  unit: JobMessages, deps: LookupDeps
): Promise<Decision<'lookup'>> {
  const nothing: Decision<'lookup'> = { completes: unit.members, emits: [] }
  const head = firstEnvelope(unit)
  const policy = await deps.policy(head.tenant)
  if (await refuseIfLate(head, deps, policy.isErased === true)) return nothing
  const terms = toJobTerms(head, policy.freshnessMs, deps.batchRows)
  const { chunks, counts } = await readChunks(unit.messages, {
    terms, loader: deps.loader, lists: deps.lists,
  })
  const sample = head.sample === true && await chooseSample(chunks, terms)
  const acceptance = await accept(head, { ...counts, ...sample && { sample } }, policy, deps)
  if (acceptance.kind === 'refused' || acceptance.job.closed) return nothing
  failpoint('lookup.accepted')
  const { announced, preflight: { freshChecks, cacheHits } } = acceptance.job
  // All rows of an announced job are in Kafka already, and what came first counts.
  const rows = await chunkEmissions(chunks, terms, announced ? Infinity : freshChecks + cacheHits)
  const { entry } = acceptance
  return {
    completes: unit.members,
    // The entry comes first: if Redis loses the reservation, recovery waits only a moment for it.
    emits: [...journalEmissions(entry, terms.lane), ...rows],
    afterProduced: () => announce(head, entry, deps),
  }
}

/**
 * Refuses a job that is not accepted after `acceptBy`, and at any time one of an erased
 * organization. Returns whether the job is refused or closed; before `acceptBy`, `accept` decides.
 */
async function refuseIfLate (
  head: Normalized, { store, clock }: LookupDeps, isErased: boolean
): Promise<boolean> {
  if (clock.now() <= head.acceptBy && !isErased) return false
  // `expired` refuses nothing before acceptBy.
  const code = isErased ? 'internal' : 'expired'
  const outcome = await store.refuse(head.tenant, head.job, code)
  return outcome.kind === 'accepted' ? outcome.job.closed : outcome.kind === 'refused'
}

/**
 * Quotes a job and asks for it to be accepted: the whole maximum is reserved, or it is refused. The
 * stored outcome is returned when there is one already, whatever is counted now. `head` is the
 * envelope of chunk 0, which alone carries the job's header.
 */
async function accept (
  head: Normalized, { sample, ...counts }: PreflightCounts & { readonly sample?: QuoteSample },
  policy: TenantPolicy, deps: LookupDeps
): Promise<DecidedOutcome> {
  const { service } = toCoordinates(head)
  const { feed } = head
  const { events, lowBalanceMicros, maxActiveJobs } = policy
  const unitPriceMicros = feed?.unitPriceMicros ??
    deps.unitPriceMicros(head.tenant, service, head.options ?? [])
  return await deps.store.accept(head.tenant, {
    id: head.job,
    service,
    lane: chooseLane(head.totalRows),
    preflight: {
      ...counts,
      maxQuoteMicros: maxQuoteMicros({ ...counts, unitPriceMicros }),
      // Named after the job, so that a job decided twice names the same quote.
      quoteId: `quot_${head.job.slice('job_'.length)}`,
    },
    unitPriceMicros,
    chunks: head.chunks,
    forceFresh: head.forceFresh,
    header: head.header ?? Buffer.alloc(0),
    createdAtMs: head.submittedAt,
    idempotencyKey: head.idempotencyKey,
    acceptByMs: head.acceptBy,
    maxActiveJobs,
    ...events && { events },
    ...lowBalanceMicros !== undefined && { lowBalanceMicros },
    ...sample && { sample },
    ...feed && { feed },
  })
}

type ChunkEmission = Emission<'rows.completed' | 'rows.to-verify'>

/**
 * For each chunk a block with all inputs and all completed rows (invalid, duplicate, hit), then
 * batches of the other rows, which are to be verified. Every row is in exactly one of them. There
 * are more rows to verify than are reserved for only if entries of the organization's lists were
 * removed after the job was accepted: what nothing is reserved for ends without a verdict. Yields
 * to other jobs between chunks.
 */
async function chunkEmissions (
  chunks: readonly Chunk[], terms: JobTerms, reservedRows: number
): Promise<readonly ChunkEmission[]> {
  const emits: ChunkEmission[] = []
  let payable = reservedRows
  for (const chunk of chunks) {
    const { coordinates, rows: { inputs, contacts } } = chunk
    await eventLoop.yield(terms.lane, coordinates.tenant)
    const block = createBlock({ coordinates, batch: NO_BATCH.lookup, inputs, contacts })
    const toVerify: number[] = []
    for (let row = 0; row < coordinates.rows; row++) {
      const kind = classifyRow(chunk, row)
      if (kind === 'toVerify' && toVerify.length < payable) toVerify.push(row)
      else block.add(row, decideOutcome(chunk, row, { kind, terms }))
    }
    payable -= toVerify.length
    emits.push(block.emission(terms.lane), ...verificationBatches(chunk, toVerify, terms))
  }
  return emits
}

/** The outcome of a row that is not verified, with the time of the quote: a replay repeats it. */
function decideOutcome (
  chunk: Chunk, row: number, { kind, terms }: { readonly kind: RowKind, readonly terms: JobTerms }
): RowOutcome | DuplicateOutcome {
  const { coordinates: { service }, rows: { canonicals, reasons } } = chunk
  const { quotedAtMs: atMs, freshnessMs } = terms
  const canonical = canonicals[row] ?? ''
  const subject = { service, canonical, copies: countCopies(chunk, row) }
  if (kind === 'toVerify') return withoutVerdict('internal', { atMs, subject })
  if (kind === 'invalid') return invalidOutcome((reasons[row] ?? '') as Reason, atMs)
  if (kind === 'duplicate') {
    const isEmail = SERVICE_DEFINITIONS[service].kind === 'email'
    return {
      source: 'duplicate',
      // The row number of the result file, from 1.
      duplicateOf: findOriginal(chunk, row) + 1,
      ...isEmail && { email: canonical },
    }
  }
  const action = chunk.listed[row]
  if (action !== undefined) return listedOutcome(action, subject, { atMs, freshnessMs })
  const record = chunk.hits[row]
  if (record === undefined) throw new Error(`row ${row} is a cache hit without a record`)
  return toRowOutcome(record, subject, { source: 'cache', freshnessMs })
}

function invalidOutcome (reason: Reason, atMs: number): RowOutcome {
  const isUnknown = isUndecided(reason)
  return {
    status: isUnknown ? 'unknown' : 'invalid',
    reason,
    source: 'preflight',
    confidence: isUnknown ? 0 : 100,
    checkedAtMs: atMs,
    expiresAtMs: atMs,
    fields: NO_FIELDS,
    contact: {},
    copies: 0,
  }
}

/** The number of duplicates of a row. */
function countCopies ({ coordinates, duplicates }: Chunk, row: number): number {
  return duplicates.copies[coordinates.firstRow + row] ?? 0
}

function verificationBatches (
  chunk: Chunk, toVerify: readonly number[], terms: JobTerms
): readonly Emission<'rows.to-verify'>[] {
  const { canonicals, tokens, rotatedTokens } = chunk.rows
  const batches: Emission<'rows.to-verify'>[] = []
  for (let from = 0; from < toVerify.length; from += terms.batchRows) {
    const rows = toVerify.slice(from, from + terms.batchRows)
    batches.push({
      topic: 'rows.to-verify',
      lane: terms.lane,
      service: chunk.coordinates.service,
      value: {
        ...chunk.coordinates,
        batch: batches.length,
        quotedAt: terms.quotedAtMs,
        forceFresh: terms.forceFresh,
        ...terms.options && { options: terms.options },
        tokenVersion: chunk.tokenVersion,
        freshnessMs: terms.freshnessMs,
        attempt: 0,
        notBefore: 0,
        retryDeadline: 0,
      },
      rows: {
        rows,
        duplicates: rows.map(row => countCopies(chunk, row)),
        canonicals: rows.map(row => canonicals[row] ?? ''),
        tokens: pickTokens(tokens, rows),
        rotatedTokens: pickRotated(rotatedTokens, rows),
      },
    })
  }
  return batches
}

/** The journal entry of a reservation, unless it is shipped already. */
function journalEmissions (
  entry: Journal | undefined, lane: Lane
): readonly Emission<'wallet.journal'>[] {
  return entry === undefined
    ? []
    : [{ topic: 'wallet.journal', lane, value: entry, rows: undefined }]
}

/**
 * Only now is everything of the job in Kafka, its reserve entry included: the waiting request may
 * be answered.
 */
async function announce (
  { tenant, job }: Pick<Normalized, 'tenant' | 'job'>, entry: Journal | undefined,
  { store }: LookupDeps
): Promise<void> {
  await store.announce(tenant, job, entry?.seq)
  failpoint('lookup.announced')
}

/**
 * Fails a job. Before `accept` it is refused. After it every row is emitted as `unknown`, free,
 * with the inputs of each readable chunk. The verification batches of a rebuilt job may be in
 * progress: its rows are left to them, and `ledger` ends what stays open. The job is announced only
 * after its reservation is in the journal, because a Redis that loses its last writes would lose
 * the acceptance too. After such a loss the rows may have verdicts that are still to be recounted,
 * so the blocks replace lost ones (`NO_BATCH.substitute`), which waits for the recount. They have
 * the time of the request, so that a replay stores the same rows again.
 */
export async function failJob (
  unit: JobMessages, deps: LookupDeps
): Promise<Decision<'lookup'>> {
  const { store } = deps
  const { tenant, job, totalRows, submittedAt: atMs } = firstEnvelope(unit)
  const refused = { completes: unit.members, emits: [], dead: 'undecidable' }
  const outcome = await store.refuse(tenant, job, 'internal')
  if (outcome.kind !== 'accepted' || outcome.job.closed) return refused
  const { entry, job: { rebuilt } } = outcome
  const blocks = unit.messages.map(message => unknownBlock(message, { atMs, withRows: !rebuilt }))
  return {
    ...refused,
    emits: [...journalEmissions(entry, chooseLane(totalRows)), ...blocks],
    afterProduced: () => announce({ tenant, job }, entry, deps),
  }
}

function unknownBlock (
  message: ChunkMessage, { atMs, withRows }: { readonly atMs: number, readonly withRows: boolean }
): Emission<'rows.completed'> {
  const coordinates = toCoordinates(message.value)
  const block = createBlock({ coordinates, batch: NO_BATCH.substitute, ...readInputs(message) })
  const rows = withRows ? coordinates.rows : 0
  for (let row = 0; row < rows; row++) block.add(row, withoutVerdict('internal', { atMs }))
  return block.emission(chooseLane(coordinates.totalRows))
}

function readInputs (message: ChunkMessage): Pick<BlockOptions, 'inputs' | 'contacts'> {
  try {
    const { inputs, contacts } = message.rows()
    return { inputs, contacts }
  } catch {
    return { inputs: new Array<string>(message.value.rows).fill('') }
  }
}

/** The envelope of chunk 0, which alone carries the job's header. */
function firstEnvelope (unit: JobMessages): Normalized {
  const [first] = unit.messages
  if (first === undefined) throw new Error('a complete job has no chunk 0')
  return first.value
}
