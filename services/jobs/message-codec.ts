import type { Completed } from '../../schemas/types.ts'
import { emptyBitmap, fullBitmap, set } from '../runtime/platform/bitmap.ts'
import type { OutgoingMessage, RawMessage } from '../runtime/kafka/bus.ts'
import { FatalError, isInfrastructure } from '../runtime/platform/errors.ts'
import type { Codec } from '../runtime/kafka/registry.ts'
import { SealError, unpackWith } from '../runtime/crypto/seal.ts'
import type { Emission, Incoming, Decoded, MessageCodec } from '../runtime/engine/stage.ts'
import { logicalTopic, messageKey, topicName } from '../runtime/platform/topics.ts'
import type { TopicName } from '../topology.ts'
import { JobKeyLostError, type JobKeys } from './job-keys.ts'
import {
  boundOf, checkRows, unsealRows, sealRows, type RowsBinding, type RowsTopic,
} from './rows-seal.ts'

/** The fields of all values with rows; `batch` only in some. */
type RowsValue = {
  readonly tenant: string
  readonly job: string
  readonly service: string
  readonly chunk: number
  readonly batch?: number
  readonly chunks: number
  readonly firstRow: number
  readonly rows: number
  readonly totalRows: number
}
type SealedValue = RowsValue & { readonly rowsSchema: number, readonly sealed: Buffer }
type MessageCodecOptions = { readonly codec: Codec, readonly keys: Pick<JobKeys, 'get'> }

/**
 * Encodes the messages of a job: a readable Avro envelope, and rows that are sealed under the data
 * key of the job and bound to their coordinates. Headers repeat the coordinates, so that the rows
 * of an undecodable message are known.
 */
export function createMessageCodec (options: MessageCodecOptions): MessageCodec {
  return {
    decode: raw => decode(options, raw),
    encode: emission => encode(options, emission),
  }
}

async function decode (options: MessageCodecOptions, raw: RawMessage): Promise<Decoded> {
  const topic = logicalTopic(raw.topic)?.topic
  if (topic === undefined) return { kind: 'dead', reason: 'unknown_topic' }
  if (raw.value === null) return { kind: 'skip', why: 'tombstone' }
  try {
    const value = await options.codec.decode(topic, raw.value)
    if (!hasRows(topic)) return messageOf({ topic, value, raw, rows: () => undefined })
    return await decodeSealedValue(options, { topic, value: value as SealedValue, raw })
  } catch (error) {
    if (isInfrastructure(error) || error instanceof FatalError) throw error
    if (error instanceof JobKeyLostError) return { kind: 'dead', reason: 'job_key_lost' }
    return { kind: 'dead', reason: error instanceof SealError ? 'seal_broken' : 'undecodable' }
  }
}

async function decodeSealedValue (
  { codec, keys }: MessageCodecOptions,
  { topic, value, raw }: {
    readonly topic: RowsTopic, readonly value: SealedValue, readonly raw: RawMessage,
  }
): Promise<Decoded> {
  const key = await keys.get(value.tenant, value.job)
  if (key === undefined) return { kind: 'skip', why: 'no_key' }
  const binding = bindingOf(topic, value, value.rowsSchema)
  const compact = { ...value, sealed: withinMessage(raw, value.sealed) }
  checkRows(key, binding, value.sealed)
  const decodeRows = await codec.prepare(`${topic}-rows`, value.rowsSchema)
  const rows = () => unpackWith(unsealRows(key, binding, compact.sealed), decodeRows)
  return messageOf({ topic, value: compact, raw, rows })
}

/** Enough to find sealed bytes: longer than their random nonce. */
const SEARCH_BYTES = 32

/**
 * The sealed bytes as a view of the message. Stages hold many messages for long, so neither a copy
 * nor the decrypted rows stay in memory.
 */
function withinMessage ({ value }: RawMessage, sealed: Buffer): Buffer {
  const at = value?.indexOf(sealed.subarray(0, SEARCH_BYTES)) ?? -1
  const within = at < 0 ? undefined : value?.subarray(at, at + sealed.length)
  return within?.equals(sealed) === true ? within : sealed
}

async function encode (
  { codec, keys }: MessageCodecOptions, emission: Emission
): Promise<OutgoingMessage> {
  const { topic, value, lane, service } = emission
  const message = {
    topic: topicName(topic, { lane, ...(service === undefined ? {} : { service }) }),
    key: messageKey(topic, value),
  }
  if (!hasRows(topic)) {
    const { tenant } = value
    const headers = { tenant, ...'job' in value ? { job: value.job } : {} }
    return { ...message, value: await codec.encode(`${topic}-value`, value), headers }
  }
  const rowsValue = value as RowsValue
  const key = await keys.get(rowsValue.tenant, rowsValue.job)
  if (key === undefined) {
    throw new JobKeyLostError(
      `the data key of job ${rowsValue.job} is missing: its rows cannot be sealed`)
  }
  const { schemaId, bytes } = await codec.encodeBare(`${topic}-rows`, emission.rows)
  const sealed = sealRows(key, bindingOf(topic, rowsValue, schemaId), bytes)
  const envelope = { ...rowsValue, rowsSchema: schemaId, sealed }
  return {
    ...message,
    value: await codec.encode(`${topic}-value`, envelope),
    headers: headersOf(emission, rowsValue),
  }
}

function bindingOf (topic: RowsTopic, value: RowsValue, rowsSchema: number): RowsBinding {
  const { tenant, job, chunk, chunks, batch = -1 } = value
  const bound = topic === 'rows.completed'
    ? boundOf(value as unknown as Completed)
    : Buffer.alloc(0)
  return { tenant, job, topic, chunk, batch, chunks, rowsSchema, bound }
}

function headersOf (emission: Emission, value: RowsValue): Record<string, string> {
  const { tenant, job, service, chunk, chunks, firstRow, rows, totalRows } = value
  return {
    tenant,
    job,
    service,
    lane: emission.lane,
    chunk: String(chunk),
    chunks: String(chunks),
    firstRow: String(firstRow),
    chunkRows: String(rows),
    totalRows: String(totalRows),
    rows: bitmapOf(emission, rows).toString('base64'),
    ...emission.topic === 'rows.completed' && { inputs: String(emission.value.inputs) },
    ...emission.topic === 'rows.retry' && { notBefore: String(emission.value.notBefore) },
  }
}

/** Bitmap of the rows of a chunk that a message contains. */
function bitmapOf (emission: Emission, chunkRows: number): Buffer {
  if (emission.topic === 'rows.completed') return emission.value.finished
  const isBatch = emission.topic === 'rows.to-verify' || emission.topic === 'rows.retry'
  if (!isBatch) return fullBitmap(chunkRows)
  const bitmap = emptyBitmap(chunkRows)
  for (const row of emission.rows.rows) set(bitmap, row)
  return bitmap
}

const ROWS_TOPICS: ReadonlySet<string> = new Set<RowsTopic>(
  ['rows.submitted', 'rows.normalized', 'rows.to-verify', 'rows.retry', 'rows.completed'])

const hasRows = (topic: TopicName): topic is RowsTopic => ROWS_TOPICS.has(topic)

/** Casts: the codec validates each value by the schema of its topic. */
const messageOf = (message: object): Decoded =>
  ({ kind: 'message', message: message as Incoming })
