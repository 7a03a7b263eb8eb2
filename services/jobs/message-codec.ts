import { createHash } from 'node:crypto'
import type { Completed, SealedRows } from '../../schemas/types.ts'
import {
  connectJobKeys, JobKeyLostError, type JobKeys, type JobKeysOptions, type KeyConnections,
} from './job-keys.ts'
import {
  type Binding, detachBuffer, openSealed, seal, SealError, subkey, unpack, unpackWith,
} from '../runtime/crypto/seal.ts'
import type { Decoded, Emission, Incoming, MessageCodec } from '../runtime/engine/stage.ts'
import type { OutgoingMessage, RawMessage } from '../runtime/kafka/bus.ts'
import type { Codec } from '../runtime/kafka/registry.ts'
import { emptyBitmap, fullBitmap, set } from '../runtime/platform/bitmap.ts'
import { FatalError, isOutageOrFatal } from '../runtime/platform/errors.ts'
import { logicalTopic, messageKey, topicName } from '../runtime/platform/topics.ts'
import type { TopicName } from '../topology.ts'
import type { RootKeySettings } from '../accounts/connect-organization-keys.ts'

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
type MessageCodecOptions = {
  readonly codec: Codec
  /** The data keys of jobs; left out where no topic with rows is read or written. */
  readonly keys?: JobKeys
}

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

/**
 * The message codec of a stage that reads or writes rows. If the key of a running job is lost, its
 * messages are dead-lettered and its rows end without a verdict.
 */
export function createJobMessageCodec (
  connected: KeyConnections, config: RootKeySettings<'results'>,
  findClosed?: JobKeysOptions['findClosed']
): MessageCodec {
  const keys = connectJobKeys(connected, config, { part: 'results', findClosed })
  return createMessageCodec({ codec: connected.codec, keys })
}

async function decode (options: MessageCodecOptions, raw: RawMessage): Promise<Decoded> {
  const topic = logicalTopic(raw.topic)?.topic
  if (topic === undefined) return { kind: 'dead', reason: 'unknown_topic' }
  if (raw.value === null) return { kind: 'skip', why: 'tombstone' }
  try {
    const value = await options.codec.decode(topic, raw.value)
    if (!hasRows(topic)) return asMessage({ topic, value, raw, rows: () => undefined })
    return await decodeSealedValue(options, { topic, value: value as SealedValue, raw })
  } catch (error) {
    if (isOutageOrFatal(error)) throw error
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
  const key = await requireKeys(keys, topic).get(value.tenant, value.job)
  if (key === undefined) return { kind: 'skip', why: 'no_key' }
  const binding = buildBinding(topic, value, value.rowsSchema)
  const compact = { ...value, sealed: withinMessage(raw, value.sealed) }
  // Proves the seal now; the rows are decoded when they are needed.
  detachBuffer(unsealRows(key, binding, value.sealed))
  const decodeRows = await codec.prepare(`${topic}-rows`, value.rowsSchema)
  const rows = () => unpackWith(unsealRows(key, binding, compact.sealed), decodeRows)
  return asMessage({ topic, value: compact, raw, rows })
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
  const key = await requireKeys(keys, topic).get(rowsValue.tenant, rowsValue.job)
  if (key === undefined) {
    throw new JobKeyLostError(
      `the data key of job ${rowsValue.job} is missing: its rows cannot be sealed`)
  }
  const { schemaId, bytes } = await codec.encodeBare(`${topic}-rows`, emission.rows)
  const binding = buildBinding(topic, rowsValue, schemaId)
  const sealed = seal(subkey(key, topic), blockAad(key, binding), bytes)
  detachBuffer(bytes)
  const envelope = { ...rowsValue, rowsSchema: schemaId, sealed }
  return {
    ...message,
    value: await codec.encode(`${topic}-value`, envelope),
    headers: buildHeaders(emission, rowsValue),
  }
}

function requireKeys (keys: JobKeys | undefined, topic: RowsTopic): JobKeys {
  if (keys !== undefined) return keys
  throw new FatalError(`${topic} has sealed rows, but this process has no keys of jobs`)
}

function buildBinding (topic: RowsTopic, value: RowsValue, rowsSchema: number): RowsBinding {
  const { tenant, job, chunk, chunks, batch = -1 } = value
  const bound = topic === 'rows.completed'
    ? toBoundBytes(value as unknown as Completed)
    : Buffer.alloc(0)
  return { tenant, job, topic, chunk, batch, chunks, rowsSchema, bound }
}

function buildHeaders (emission: Emission, value: RowsValue): Record<string, string> {
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
    rows: buildBitmap(emission, rows).toString('base64'),
    ...emission.topic === 'rows.completed' && { inputs: String(emission.value.inputs) },
    ...emission.topic === 'rows.retry' && { notBefore: String(emission.value.notBefore) },
  }
}

/** Bitmap of the rows of a chunk that a message contains. */
function buildBitmap (emission: Emission, chunkRows: number): Buffer {
  if (emission.topic === 'rows.completed') return emission.value.finished
  const isBatch = emission.topic === 'rows.to-verify' || emission.topic === 'rows.retry'
  if (!isBatch) return fullBitmap(chunkRows)
  const bitmap = emptyBitmap(chunkRows)
  for (const row of emission.rows.rows) set(bitmap, row)
  return bitmap
}

/** Topics whose messages carry sealed rows; each topic has its own subkey. */
type RowsTopic = keyof SealedRows

const ROWS_TOPICS: ReadonlySet<string> = new Set<RowsTopic>(
  ['rows.submitted', 'rows.normalized', 'rows.to-verify', 'rows.retry', 'rows.completed'])

const hasRows = (topic: TopicName): topic is RowsTopic => ROWS_TOPICS.has(topic)

/** Casts: the codec validates each value by the schema of its topic. */
const asMessage = (message: object): Decoded =>
  ({ kind: 'message', message: message as Incoming })

/** What sealed rows are bound to: with another binding they cannot be opened. */
type RowsBinding = {
  readonly tenant: string
  readonly job: string
  readonly topic: RowsTopic
  readonly chunk: number
  /** Verification batch; -1 in topics without batches. */
  readonly batch: number
  readonly chunks: number
  /** Registry id of the schema of the rows. */
  readonly rowsSchema: number
  /** `toBoundBytes` of a block; empty for other topics. */
  readonly bound: Buffer
}

/** Version of the layout; it is part of the binding. */
const VERSION = 1

/**
 * The Avro bytes of rows, checked but still compressed: `unpackWith` reads them.
 * @throws SealError when key, binding or bytes differ from those sealed.
 */
export function unsealRows (dataKey: Buffer, binding: RowsBinding, sealed: Buffer): Buffer {
  return openSealed(subkey(dataKey, binding.topic), blockAad(dataKey, binding), sealed)
}

/**
 * The additional authenticated data of sealed rows: version, key id, tenant, job, topic, chunk,
 * batch, chunks, schema id, bound bytes. The key id is derived from the data key, so
 * wrapping the data key under another key changes no seal.
 */
function blockAad (dataKey: Buffer, binding: RowsBinding): Binding {
  const { tenant, job, topic, chunk, batch, chunks, rowsSchema, bound } = binding
  return [VERSION, toKeyId(dataKey), tenant, job, topic, chunk, batch, chunks, rowsSchema, bound]
}

/**
 * SHA-256 of everything in a block that affects charges and which rows count: bitmaps, duplicates,
 * whether it has inputs, and its first row. The seal is bound to it. It does not cover verdicts, as
 * older releases, which do not know them, open blocks of newer ones.
 */
export function toBoundBytes (
  block: Pick<Completed,
    'finished' | 'cached' | 'live' | 'invalid' | 'unknown' | 'cancelled' | 'duplicates' | 'inputs' |
    'firstRow'>
): Buffer {
  const hash = createHash('sha256')
  const { finished, cached, live, invalid, unknown, cancelled } = block
  for (const bitmap of [finished, cached, live, invalid, unknown, cancelled]) {
    hash.update(`${bitmap.length}:`).update(bitmap)
  }
  const duplicates = block.duplicates.map(({ row, count }) => `${row}x${count}`).join(',')
  return hash.update(`${duplicates};${block.inputs};${block.firstRow}`).digest()
}

/** What a job is labelled with and asks for; visible only to its organization. */
export type JobHeader = {
  readonly metadata: Readonly<Record<string, string>>
  /** Empty without a webhook. */
  readonly webhookUrl: string
  /** Names of the customer's own columns, which the references of the rows hold; only of a file. */
  readonly columns?: readonly string[]
  /** By which the cells of that file were separated, unless it was a comma; not of a workbook. */
  readonly delimiter?: string
  /** Whether the references of the rows are ids that the caller gave them. */
  readonly ids?: true
  /** The options that the job has chosen, sorted. */
  readonly options?: readonly string[]
}

/** Of a job without labels and webhook, or whose header cannot be read any more. */
export const NO_HEADER: JobHeader = { metadata: {}, webhookUrl: '' }

/** Seals the header under `deriveHeaderKey` the data key; returns no bytes for an empty one. */
export function sealHeader (
  headerKey: Buffer, owner: { readonly tenant: string, readonly job: string }, header: JobHeader
): Buffer {
  const { metadata, webhookUrl, columns, delimiter, ids, options } = header
  const isEmpty = webhookUrl === '' && Object.keys(metadata).length === 0 &&
    columns === undefined && ids === undefined && options === undefined
  if (isEmpty) return Buffer.alloc(0)
  const plain = Buffer.from(JSON.stringify({
    metadata, webhookUrl, columns, delimiter, ids, options,
  }))
  return seal(headerKey, headerAad(headerKey, owner), plain)
}

/**
 * Opens a sealed header; no bytes are an empty header.
 * @throws SealError when key, owner or bytes differ from those sealed.
 */
export function openHeader (
  headerKey: Buffer, owner: { readonly tenant: string, readonly job: string }, sealed: Buffer
): JobHeader {
  if (sealed.length === 0) return NO_HEADER
  const packed = openSealed(headerKey, headerAad(headerKey, owner), sealed)
  return JSON.parse(unpack(packed).toString('utf8')) as JobHeader
}

const headerAad = (
  headerKey: Buffer, { tenant, job }: { readonly tenant: string, readonly job: string }
): Binding =>
  [VERSION, toKeyId(headerKey), tenant, job, 'header']

/** AES-GCM does not commit to its key; a value derived from the key, bound into the seal, does. */
function toKeyId (key: Buffer): Buffer {
  return subkey(key, 'key-id').subarray(0, 8)
}
