import type { Completed } from '../../schemas/types.ts'
import { emptyBitmap, fullBitmap, set } from '../platform/bitmap.ts'
import type { OutgoingMessage, RawMessage } from '../kafka/bus.ts'
import { FatalError, isInfrastructure } from '../platform/errors.ts'
import type { Codec } from '../kafka/registry.ts'
import { SealError, unpackWith } from '../crypto/seal.ts'
import type { Emission, Incoming } from '../engine/stage.ts'
import { logicalTopic, messageKey, topicName } from '../platform/topics.ts'
import type { Decoded, MessageCodec } from '../engine/message-codec.ts'
import type { TopicName } from '../topology.ts'
import { JobKeyLostError, type JobKeys } from './job-keys.ts'
import {
  blockAad, boundOf, checkRows, openHeader, openRows, sealHeader, sealRows,
  type JobHeader, type RowsPlace, type RowsTopic,
} from './rows-seal.ts'

export { blockAad, boundOf, openHeader, sealHeader, sealRows }
export type { JobHeader, RowsPlace, RowsTopic }

/** The fields all values that carry rows have in common, and those only some have. */
type RowsValue = {
  readonly tenant: string
  readonly job: string
  readonly service: string
  readonly chunk: number
  readonly part?: number
  readonly chunks: number
  readonly firstRow: number
  readonly rows: number
  readonly totalRows: number
}
type SealedValue = RowsValue & { readonly rowsSchema: number, readonly sealed: Buffer }
type MessageCodecOptions = { readonly codec: Codec, readonly keys: Pick<JobKeys, 'get'> }

/**
 * What Kafka carries of a job: readable envelopes in Avro, and rows sealed under the job's data
 * key, bound to their place. Headers repeat what names the rows, so that even undecodable bytes do.
 */
export function createMessageCodec (options: MessageCodecOptions): MessageCodec {
  return {
    decode: raw => open(options, raw),
    encode: emission => close(options, emission),
  }
}

async function open (options: MessageCodecOptions, raw: RawMessage): Promise<Decoded> {
  const topic = logicalTopic(raw.topic)?.topic
  if (topic === undefined) return { kind: 'dead', reason: 'unknown_topic' }
  if (raw.value === null) return { kind: 'skip', why: 'tombstone' }
  try {
    const value = await options.codec.decode(topic, raw.value)
    if (!hasRows(topic)) return messageOf({ topic, value, raw, rows: () => undefined })
    return await openSealedValue(options, { topic, value: value as SealedValue, raw })
  } catch (error) {
    if (isInfrastructure(error) || error instanceof FatalError) throw error
    return { kind: 'dead', reason: reasonOf(error) }
  }
}

async function openSealedValue (
  { codec, keys }: MessageCodecOptions,
  { topic, value, raw }: {
    readonly topic: RowsTopic, readonly value: SealedValue, readonly raw: RawMessage,
  }
): Promise<Decoded> {
  const key = await keys.get(value.tenant, value.job)
  if (key === undefined) return { kind: 'skip', why: 'no_key' }
  const place = placeOf(topic, value, value.rowsSchema)
  const lean = { ...value, sealed: withinMessage(raw, value.sealed) }
  checkRows(key, place, value.sealed)
  const decode = await codec.prepare(`${topic}-rows`, value.rowsSchema)
  const rows = () => unpackWith(openRows(key, place, lean.sealed), decode)
  return messageOf({ topic, value: lean, raw, rows })
}

/** More than the nonce that tells sealed bytes from all others. */
const TELLING_BYTES = 32

/**
 * The sealed bytes where they stand in the message: many messages are held for long, and neither a
 * copy nor the opened content of them is worth its memory.
 */
function withinMessage ({ value }: RawMessage, sealed: Buffer): Buffer {
  const at = value?.indexOf(sealed.subarray(0, TELLING_BYTES)) ?? -1
  const within = at < 0 ? undefined : value?.subarray(at, at + sealed.length)
  return within?.equals(sealed) === true ? within : sealed
}

async function close (
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
    throw new JobKeyLostError(`no data key to seal rows of ${rowsValue.job} with`)
  }
  const { schemaId, bytes } = await codec.encodeBare(`${topic}-rows`, emission.rows)
  const sealed = sealRows(key, placeOf(topic, rowsValue, schemaId), bytes)
  const envelope = { ...rowsValue, rowsSchema: schemaId, sealed }
  return {
    ...message,
    value: await codec.encode(`${topic}-value`, envelope),
    headers: headersOf(emission, rowsValue),
  }
}

function placeOf (topic: RowsTopic, value: RowsValue, rowsSchema: number): RowsPlace {
  const { tenant, job, chunk, chunks, part = -1 } = value
  const bound = topic === 'rows.completed'
    ? boundOf(value as unknown as Completed)
    : Buffer.alloc(0)
  return { tenant, job, topic, chunk, part, chunks, rowsSchema, bound }
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
    rows: aboutOf(emission, rows).toString('base64'),
    ...emission.topic === 'rows.completed' && { inputs: String(emission.value.inputs) },
  }
}

/** The rows of its chunk that a message is about. */
function aboutOf (emission: Emission, chunkRows: number): Buffer {
  if (emission.topic === 'rows.completed') return emission.value.finished
  const part = emission.topic === 'rows.to-verify' || emission.topic === 'rows.retry'
  if (!part) return fullBitmap(chunkRows)
  const about = emptyBitmap(chunkRows)
  for (const row of emission.rows.rows) set(about, row)
  return about
}

const ROWS_TOPICS: ReadonlySet<string> = new Set<RowsTopic>(
  ['rows.submitted', 'rows.normalized', 'rows.to-verify', 'rows.retry', 'rows.completed'])

const hasRows = (topic: TopicName): topic is RowsTopic => ROWS_TOPICS.has(topic)

/**
 * A decoded value has the type of its topic's schema, which the compiler can't see through the
 * union.
 */
const messageOf = (message: object): Decoded =>
  ({ kind: 'message', message: message as Incoming })

function reasonOf (error: unknown): string {
  if (error instanceof JobKeyLostError) return 'job_key_lost'
  return error instanceof SealError ? 'seal_broken' : 'undecodable'
}
