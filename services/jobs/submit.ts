import { randomUUID } from 'node:crypto'
import { deriveHeaderKey, type NewJobKey, type NewJobKeys } from './job-keys.ts'
import { isSafe, notJournaled, type OutcomeWaiter } from './job-waiter.ts'
import {
  type ClaimRequest, type DecidedOutcome, type Feed, type IdempotencyClaim, type Job, newJobId,
  type Refusal,
} from './job.ts'
import { type JobHeader, sealHeader } from './message-codec.ts'
import type { JobStore } from './store.ts'
import type { Emission, Emitter } from '../runtime/engine/stage.ts'
import { chooseLane, type PartitionHeaders } from '../runtime/platform/topics.ts'
import { type Clock, retryForever, withTimeout } from '../runtime/platform/retry.ts'
import {
  InfrastructureError, isInfrastructure, isOutageOrFatal,
} from '../runtime/platform/errors.ts'
import { eventLoop } from '../runtime/platform/limits.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import { inSpan, SpanKind } from '../runtime/platform/tracing.ts'
import type { Lane, ServiceSlug } from '../topology.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'

/**
 * Submits the rows of a job or a quote.
 * @throws NotSubmittedError when nothing was accepted, and will not be.
 * @throws when infrastructure is down or the service stops and the outcome is unknown.
 */
export type Submitter = (submission: Submission) => Promise<SubmitOutcome>

export type Submission = JobHeader & {
  readonly tenant: string
  readonly service: ServiceSlug
  readonly inputs: readonly string[]
  /** ISO 3166 fallback country, empty when none was given. */
  readonly country: string
  readonly forceFresh: boolean
  /** True for a quote: nothing is reserved, and its outcome is the refusal `quoted`. */
  readonly quoteOnly?: boolean
  /** Of a quote: whether to choose the rows that stand for the list. */
  readonly sample?: boolean
  /** Seconds from its claim after which open rows end; absent for none. */
  readonly deadlineSeconds?: number
  /** Empty when the request has none. */
  readonly idempotencyKey: string
  /** HMAC of the canonical body by the active message key. */
  readonly fingerprint: string
  /** The same by the other message keys, one of which was active when an earlier request came. */
  readonly otherFingerprints?: readonly string[]
  /**
   * What the sender gave with each input, kept with its row: the reference of a feed contact, the
   * line of a file, or the id of an input of JSON.
   */
  readonly references?: readonly string[]
  /** Id of the API key of the request; none for a feed job. */
  readonly apiKey?: string
  /** Only of a feed job: the feed that the inputs come from, and one offset per input. */
  readonly feed?: { readonly source: Feed, readonly offsets: readonly number[] }
}

/**
 * `replayed`: the job belongs to an earlier request with the same key. `reused`: the key belongs to
 * a different request.
 */
export type SubmitOutcome =
  | { readonly kind: 'accepted', readonly job: Job, readonly replayed: boolean }
  | { readonly kind: 'refused', readonly refusal: Refusal }
  | { readonly kind: 'reused' }

export type SubmitterOptions = {
  readonly emitter: Pick<Emitter, 'emit'>
  /** Current version of the cache secret. */
  readonly tokenVersion: string
  /** Maximum rows per chunk; default `CHUNK_ROWS`. */
  readonly chunkRows?: number | undefined
  /** The partitions that the messages of new jobs of a lane are spread over. */
  readonly partitionsOf: (lane: Lane) => PartitionHeaders
  readonly store: Pick<JobStore, 'claim' | 'refuse'>
  readonly keys: NewJobKeys
  readonly outcomes: Pick<OutcomeWaiter, 'wait'>
  /** Redis time. */
  readonly clock: Clock
  readonly acceptWithinMs: number
  /** Liveness of this and other processes; without it, dead owners of claims are not detected. */
  readonly liveness?: Pick<Liveness, 'own' | 'isGone'>
}

/** A request was not even claimed: no data key can be made. The cause names the root key. */
export class NotSubmittedError extends InfrastructureError {
  override readonly name = 'NotSubmittedError'
}

/** Sends the rows of a request and waits for the outcome. */
export function createSubmitter (options: SubmitterOptions): Submitter {
  const { clock, outcomes, acceptWithinMs } = options
  return async submission => {
    const { tenant, idempotencyKey, fingerprint, otherFingerprints } = submission
    const { apiKey = '', deadlineSeconds, quoteOnly = false } = submission
    const job = newJobId(clock.now())
    const dataKey = await newDataKey(options, tenant, job)
    const { wrapped: wrappedKey } = dataKey
    const request = {
      job,
      idempotencyKey,
      fingerprint,
      otherFingerprints,
      acceptWithinMs,
      apiKey,
      wrappedKey,
      quoteOnly,
      endWithinMs: deadlineSeconds === undefined ? undefined : deadlineSeconds * 1_000,
    }
    failpoint('submit.begun')
    const claim = await claimFor(options, tenant, request)
    if (claim.kind === 'reused') return claim
    failpoint('submit.claimed')
    const outcome = claim.kind === 'new'
      ? await sendAndWait(options, submission, { job, dataKey, ...claim })
      : await outcomes.wait({ tenant, ...claim })
    failpoint('submit.decided')
    if (outcome.kind === 'refused') return outcome
    return { ...outcome, replayed: claim.kind === 'same' }
  }
}

/** Creates the data key of a request before its claim, so that without one nothing is accepted. */
async function newDataKey (
  { keys }: SubmitterOptions, tenant: string, job: string
): Promise<NewJobKey> {
  try {
    return await keys.create(tenant, job)
  } catch (error) {
    if (!isOutageOrFatal(error)) throw error
    throw new NotSubmittedError('cannot make the data key of a job', { cause: error })
  }
}

/**
 * Claims an idempotency key. If its owner is a dead process, refuses the earlier claim and claims
 * the key again. If that process is alive after all, its request ends as refused.
 */
async function claimFor (
  { store, liveness }: SubmitterOptions, tenant: string, request: ClaimRequest
): Promise<IdempotencyClaim> {
  const owned = liveness === undefined ? request : { ...request, owner: liveness.own }
  const claim = await store.claim(tenant, owned)
  if (liveness === undefined || claim.kind !== 'same' || claim.owner === '') return claim
  if (claim.owner === liveness.own || !await liveness.isGone(claim.owner)) return claim
  const { kind } = await store.refuse(tenant, claim.job, 'internal')
  return kind === 'refused' ? await store.claim(tenant, owned) : claim
}

async function sendAndWait (
  options: SubmitterOptions, submission: Submission, claimed: ClaimedJob
): Promise<DecidedOutcome> {
  const { store, outcomes, clock } = options
  const { tenant } = submission
  const { job, acceptByMs } = claimed
  const ends = new AbortController()
  // Sends and waits concurrently: an unavailable broker must not delay the answer.
  const sending = send(options, { submission, claimed, signal: ends.signal })
  try {
    const waiting = outcomes.wait({
      tenant, job, acceptByMs, isNew: true, signal: ends.signal,
    })
    // Sending only ends the race if it fails.
    const outcome = await Promise.race([waiting, sending.then(() => waiting)])
    if (outcome.kind === 'refused') ends.abort()
    // The data key must be in Kafka before the client gets the job.
    else await withTimeout(sending, acceptByMs - clock.now())
    return outcome
  } catch (error) {
    ends.abort()
    const outcome = await store.refuse(tenant, job, 'internal')
    if (outcome.kind === 'open') throw error
    if (outcome.kind === 'accepted' && !isSafe(outcome)) throw notJournaled(job, error)
    if (outcome.kind === 'refused' && outcome.forgotten === true) throw forgotten(job, error)
    // Clients get the same answer in any case. A feed drops contacts that cannot become a job, but
    // an outage does not prove that.
    const isOutage = outcome.kind === 'refused' && isInfrastructure(error)
    if (isOutage && submission.feed !== undefined) throw error
    return outcome
  }
}

/** Redis has no record of the claim: its job may have been accepted and closed long ago. */
function forgotten (job: string, cause: unknown): InfrastructureError {
  return new InfrastructureError(`Redis has no record of job ${job} after its claim; retry with ` +
    'the same Idempotency-Key', { cause })
}

/** The claim of a new request; times are Redis time. */
type ClaimedJob = {
  readonly job: string
  readonly dataKey: NewJobKey
  readonly nowMs: number
  readonly acceptByMs: number
}

type Sending = {
  readonly submission: Submission
  readonly claimed: ClaimedJob
  readonly signal: AbortSignal
}

/**
 * Produces the wrapped data key of the job and all chunks; resolves when all are acknowledged. The
 * trace of a feed job starts here, because it has no request.
 */
async function send (options: SubmitterOptions, sending: Sending): Promise<void> {
  const { submission: { tenant, inputs }, claimed: { job } } = sending
  const attributes = {
    'messaging.system': 'kafka',
    'messaging.operation.name': 'send',
    'messaging.operation.type': 'send',
    'messaging.destination.name': 'rows.submitted',
    tenant,
    job,
    rows: inputs.length,
  }
  const plan = { name: 'rows.submitted send', kind: SpanKind.PRODUCER, attributes }
  await inSpan(plan, () => produce(options, sending))
}

async function produce (
  { emitter, tokenVersion, chunkRows, partitionsOf }: SubmitterOptions,
  { submission, claimed, signal }: Sending
): Promise<void> {
  const { tenant } = submission
  const { job, dataKey: { key, wrapped } } = claimed
  const header = sealHeader(deriveHeaderKey(key), { tenant, job }, submission)
  const { references } = submission
  // A reference comes with its length, and with an offset of up to 2^53.
  const contactBytes = references &&
    ((row: number) => Buffer.byteLength(references[row] ?? '') + 12)
  const chunks = splitInputs(submission.inputs, contactBytes, chunkRows)
  const lane = chooseLane(submission.inputs.length)
  const sent: Promise<void>[] = []
  const start = (emissions: readonly Emission[]) => {
    const sending = emitter.emit(emissions, signal)
    // Promise.all below reports the failure; until then it must not count as unhandled.
    sending.catch(() => {})
    sent.push(sending)
  }
  // The rows of a quote are never opened later.
  const keyEmissions: readonly Emission[] = submission.quoteOnly === true
    ? []
    : [{ topic: 'job.keys', lane, value: { tenant, job, wrapped }, rows: undefined }]
  // Read once: all chunks must meet in one partition.
  const partitions = partitionsOf(lane)
  const context = {
    submission, claimed, tokenVersion, chunks: chunks.length, header, partitions,
  }
  for (let from = 0; from < chunks.length; from += CHUNKS_PER_YIELD) {
    const batch = chunks.slice(from, from + CHUNKS_PER_YIELD)
    const emissions = batch.map((chunk, index) => toEmission(context, chunk, from + index))
    start(from === 0 ? [...keyEmissions, ...emissions] : emissions)
    await eventLoop.yield(lane, tenant)
    failpoint('submit.sealed')
  }
  await Promise.all(sent)
  failpoint('submit.sent')
}

/** Sealing a chunk takes about two milliseconds; other requests run between batches. */
const CHUNKS_PER_YIELD = 4

function toEmission (
  context: {
    readonly submission: Submission
    readonly claimed: ClaimedJob
    readonly tokenVersion: string
    readonly chunks: number
    readonly header: Buffer
    readonly partitions: PartitionHeaders
  },
  { firstRow, inputs }: InputChunk,
  chunk: number
): Emission<'rows.submitted'> {
  const { submission, claimed, tokenVersion, chunks, header, partitions } = context
  const { tenant, service, country, forceFresh, sample = false, options } = submission
  const { idempotencyKey, feed } = submission
  const totalRows = submission.inputs.length
  const value = {
    tenant,
    job: claimed.job,
    service,
    chunk,
    chunks,
    firstRow,
    rows: inputs.length,
    totalRows,
    country,
    submittedAt: claimed.nowMs,
    acceptBy: claimed.acceptByMs,
    forceFresh,
    ...options && { options },
    sample,
    tokenVersion,
    idempotencyKey,
    header: chunk === 0 && header.length > 0 ? header : null,
    ...feed && { feed: feed.source },
  }
  const { references } = submission
  const end = firstRow + inputs.length
  const contacts = references && {
    offsets: feed?.offsets.slice(firstRow, end) ?? [], references: references.slice(firstRow, end),
  }
  const rows = { inputs, ...contacts && { contacts } }
  return { topic: 'rows.submitted', lane: chooseLane(totalRows), service, value, rows, partitions }
}

/** Consecutive inputs of a job that one message carries. */
type InputChunk = { readonly firstRow: number, readonly inputs: readonly string[] }

export const CHUNK_ROWS = 2_000
/** Sealed chunks have about 256 KiB at most; 1 KiB is for seal, envelope and headers. */
const CHUNK_BYTES = 256 * 1_024 - 1_024
/** What the JSON of the inputs has beside each: two quotes and a comma. */
const DELIMITER_BYTES = 3

/**
 * Splits inputs into chunks of at most `maxRows` rows and about 256 KiB. That is an estimate, which
 * leaves out escapes in the JSON of the inputs: once compressed, random control characters have a
 * quarter more, far from the limit of a message. A single larger input has its own chunk.
 * `extraBytes` are sent along with an input, by row. Tests pass a smaller `maxRows`, for small jobs
 * with many chunks.
 */
function splitInputs (
  inputs: readonly string[], extraBytes: (row: number) => number = () => 0,
  maxRows: number = CHUNK_ROWS
): InputChunk[] {
  const chunks: InputChunk[] = []
  let firstRow = 0
  let bytes = 0
  for (let row = 0; row < inputs.length; row += 1) {
    const size = Buffer.byteLength(inputs[row]!) + DELIMITER_BYTES + extraBytes(row)
    const full = row - firstRow === maxRows || bytes + size > CHUNK_BYTES
    if (full && row > firstRow) {
      chunks.push({ firstRow, inputs: inputs.slice(firstRow, row) })
      firstRow = row
      bytes = 0
    }
    bytes += size
  }
  if (firstRow < inputs.length) chunks.push({ firstRow, inputs: inputs.slice(firstRow) })
  return chunks
}

/** The heartbeat of this process, and a check of the heartbeats of others. */
type Liveness = Awaited<ReturnType<typeof startLiveness>>

const EXPIRES_AFTER_MS = 5_000
const HEARTBEAT_MS = 1_500

const aliveKey = (name: string) => `alive:${name}`

/**
 * Starts a heartbeat: a key in Redis that expires. Resolves after the first one. A process without
 * a connection to Redis counts as gone too, so recovery of its work must be safe while it runs.
 */
export async function startLiveness (redis: RedisClient, id: string = randomUUID()) {
  const beat = async () => { await redis.set(aliveKey(id), '1', 'PX', EXPIRES_AFTER_MS) }
  await retryForever(beat, { when: isInfrastructure })
  const timer = setInterval(() => { beat().catch(() => {}) }, HEARTBEAT_MS).unref()
  return {
    /** The id of this process; a restarted process has another one. */
    own: id,
    /** Whether the heartbeat of a process has expired: it may have crashed. */
    isGone: async (name: string): Promise<boolean> => await redis.exists(aliveKey(name)) === 0,
    stop: (): void => clearInterval(timer),
  }
}
