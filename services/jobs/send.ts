import { failpoint } from '../runtime/platform/failpoint.ts'
import { type NewJobKey, headerKeyOf } from './job-keys.ts'
import type { Feed } from './job.ts'
import type { Emitter } from '../runtime/engine/emit.ts'
import type { PartitionHeaders } from '../runtime/kafka/partitioning.ts'
import type { Emission } from '../runtime/engine/stage.ts'
import { inSpan, SpanKind } from '../runtime/platform/tracing.ts'
import { eventLoop } from '../runtime/platform/event-loop.ts'
import { laneOf } from '../runtime/platform/topics.ts'
import type { Lane, ServiceSlug } from '../topology.ts'
import { sealHeader, type JobHeader } from './rows-seal.ts'

export type Submission = JobHeader & {
  readonly tenant: string
  readonly service: ServiceSlug
  readonly inputs: readonly string[]
  /** ISO 3166 fallback country, empty when none was given. */
  readonly country: string
  readonly forceFresh: boolean
  /** Of a quote: whether to choose the rows that stand for the list. */
  readonly sample?: boolean
  /** Seconds from its claim after which open rows end; absent for none. */
  readonly deadlineSeconds?: number
  /** Empty when the request has none. */
  readonly idempotencyKey: string
  /** HMAC of the canonical body. */
  readonly fingerprint: string
  /**
   * What the sender gave with each input, kept with its row: the reference of a feed contact, the
   * line of a file, or the id of an input of JSON.
   */
  readonly references?: readonly string[]
  /** Id of the API key of the request; none for a feed job. */
  readonly apiKey?: string
  /** Only of a feed job. */
  readonly feed?: SubmittedFeed
}

/** The feed that the inputs come from; one offset per input. */
export type SubmittedFeed = { readonly source: Feed, readonly offsets: readonly number[] }

export type SendOptions = {
  readonly emitter: Pick<Emitter, 'emit'>
  /** Current version of the cache secret. */
  readonly tokenVersion: string
  /** Maximum rows per chunk; default `CHUNK_ROWS`. */
  readonly chunkRows?: number | undefined
  /** The partitions that the messages of new jobs of a lane are spread over. */
  readonly partitionsOf?: ((lane: Lane) => PartitionHeaders) | undefined
}

/** The claim of a new request; times are Redis time. */
export type ClaimedJob = {
  readonly job: string
  readonly dataKey: NewJobKey
  readonly nowMs: number
  readonly acceptByMs: number
  /** True for a quote: its data key is not sent to Kafka. */
  readonly quoteOnly?: boolean
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
export async function send (options: SendOptions, sending: Sending): Promise<void> {
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
  { emitter, tokenVersion, chunkRows, partitionsOf }: SendOptions,
  { submission, claimed, signal }: Sending
): Promise<void> {
  const { tenant } = submission
  const { job, dataKey: { key, wrapped } } = claimed
  const header = sealHeader(headerKeyOf(key), { tenant, job }, submission)
  const { references } = submission
  // A reference comes with its length, and with an offset of up to 2^53.
  const contactBytes = references &&
    ((row: number) => Buffer.byteLength(references[row] ?? '') + 12)
  const chunks = splitInputs(submission.inputs, contactBytes, chunkRows)
  const lane = laneOf(submission.inputs.length)
  const sent: Promise<void>[] = []
  const start = (emissions: readonly Emission[]) => {
    const sending = emitter.emit(emissions, signal)
    // Promise.all below reports the failure; until then it must not count as unhandled.
    sending.catch(() => {})
    sent.push(sending)
  }
  const keyEmissions: readonly Emission[] = claimed.quoteOnly === true
    ? []
    : [{ topic: 'job.keys', lane, value: { tenant, job, wrapped }, rows: undefined }]
  // Read once: all chunks must meet in one partition.
  const partitions = partitionsOf?.(lane) ?? {}
  const context = {
    submission, claimed, tokenVersion, chunks: chunks.length, header, partitions,
  }
  for (let from = 0; from < chunks.length; from += CHUNKS_PER_YIELD) {
    const batch = chunks.slice(from, from + CHUNKS_PER_YIELD)
    const emissions = batch.map((chunk, index) => emissionOf(context, chunk, from + index))
    start(from === 0 ? [...keyEmissions, ...emissions] : emissions)
    await eventLoop.yield(lane, tenant)
    failpoint('submit.sealed')
  }
  await Promise.all(sent)
  failpoint('submit.sent')
}

/** Sealing a chunk takes about two milliseconds; other requests run between batches. */
const CHUNKS_PER_YIELD = 4

function emissionOf (
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
  return { topic: 'rows.submitted', lane: laneOf(totalRows), service, value, rows, partitions }
}

/** Consecutive inputs of a job that one message carries. */
type InputChunk = { readonly firstRow: number, readonly inputs: readonly string[] }

export const CHUNK_ROWS = 2_000
/** Sealed chunks stay within 256 KiB; 1 KiB is reserved for seal, envelope and headers. */
const CHUNK_BYTES = 256 * 1_024 - 1_024
/** Upper bound of the length that Avro puts before a string. */
const LENGTH_BYTES = 3

/**
 * Splits inputs into chunks of at most `maxRows` rows and 256 KiB, counted before compression:
 * sealing never makes them larger. A single larger input has its own chunk. `extraBytes` are sent
 * along with an input, by row. Tests pass a smaller `maxRows`, for small jobs with many chunks.
 */
function splitInputs (
  inputs: readonly string[], extraBytes: (row: number) => number = () => 0,
  maxRows: number = CHUNK_ROWS
): InputChunk[] {
  const chunks: InputChunk[] = []
  let firstRow = 0
  let bytes = 0
  for (let row = 0; row < inputs.length; row += 1) {
    const size = Buffer.byteLength(inputs[row]!) + LENGTH_BYTES + extraBytes(row)
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
