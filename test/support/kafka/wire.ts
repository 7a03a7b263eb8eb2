/** The APIs of Kafka's protocol that the product's clients speak, by their keys on the wire. */
const API_KEYS = {
  Produce: 0,
  Fetch: 1,
  ListOffsets: 2,
  Metadata: 3,
  OffsetCommit: 8,
  OffsetFetch: 9,
  FindCoordinator: 10,
  JoinGroup: 11,
  Heartbeat: 12,
  LeaveGroup: 13,
  SyncGroup: 14,
  ApiVersions: 18,
  CreateTopics: 19,
  InitProducerId: 22,
} as const

export type KafkaApi = keyof typeof API_KEYS

export type KafkaRequest = {
  /** Undefined for an API that nothing here asks for by name. */
  readonly api: KafkaApi | undefined
  readonly version: number
  readonly correlationId: number
  readonly clientId: string
  /** The whole frame with its length, and what follows its header. */
  readonly frame: Buffer
  readonly body: Buffer
}

const names = new Map<number, KafkaApi>(
  Object.entries(API_KEYS).map(([name, key]) => [key, name as KafkaApi]))

const LENGTH_BYTES = 4
const MAX_FRAME_BYTES = 64 * 1024 * 1024

/**
 * Cuts a stream into frames, each with its length in front; throws at what can't be a frame, which
 * is a client of another protocol.
 */
export function createSplitter (onFrame: (frame: Buffer) => void): (chunk: Buffer) => void {
  let chunks: Buffer[] = []
  let bytes = 0
  let wanted = LENGTH_BYTES
  return (chunk) => {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes < wanted) return
    let rest = Buffer.concat(chunks)
    for (;;) {
      wanted = LENGTH_BYTES + (rest.length < LENGTH_BYTES ? 0 : rest.readInt32BE(0))
      if (wanted < LENGTH_BYTES || wanted > MAX_FRAME_BYTES) {
        throw new Error('not a Kafka frame')
      }
      if (rest.length < LENGTH_BYTES || rest.length < wanted) break
      onFrame(rest.subarray(0, wanted))
      rest = rest.subarray(wanted)
    }
    chunks = [rest]
    bytes = rest.length
  }
}

/** Reads the header of a request: key, version, correlation id and the client's name. */
export function readRequest (frame: Buffer): KafkaRequest {
  const reader = createReader(frame, LENGTH_BYTES)
  return {
    api: names.get(reader.int16()),
    version: reader.int16(),
    correlationId: reader.int32(),
    clientId: reader.text(),
    frame,
    body: frame.subarray(reader.at()),
  }
}

/** The correlation id of an answer, which identifies its request. */
export const correlationIdOf = (frame: Buffer): number => frame.readInt32BE(LENGTH_BYTES)

/** Where the body of an answer begins. */
const ANSWER_HEADER_BYTES = LENGTH_BYTES + 4

/** A frame that answers a request. */
function answerFrame (correlationId: number, body: Buffer): Buffer {
  return Buffer.concat([int32(ANSWER_HEADER_BYTES - LENGTH_BYTES + body.length),
    int32(correlationId), body])
}

/** Reads the types of Kafka's protocol that came before the compact ones, one after another. */
function createReader (buffer: Buffer, start = 0) {
  let offset = start
  const skip = (bytes: number) => {
    offset += bytes
    return offset - bytes
  }
  const int16 = () => buffer.readInt16BE(skip(2))
  const int32 = () => buffer.readInt32BE(skip(4))
  const text = () => {
    const bytes = Math.max(0, int16())
    return buffer.toString('utf8', skip(bytes), offset)
  }
  const list = <T> (item: () => T): T[] => Array.from({ length: Math.max(0, int32()) }, item)
  return { at: () => offset, skip, int16, int32, text, list }
}

export const int16 = (value: number): Buffer => number(2, buffer => buffer.writeInt16BE(value))
export const int32 = (value: number): Buffer => number(4, buffer => buffer.writeInt32BE(value))
const int64 = (value: bigint): Buffer => number(8, buffer => buffer.writeBigInt64BE(value))
const text = (value: string): Buffer =>
  Buffer.concat([int16(Buffer.byteLength(value)), Buffer.from(value)])
const list = (items: readonly Buffer[]): Buffer =>
  Buffer.concat([int32(items.length), ...items])

function number (bytes: number, write: (buffer: Buffer) => void): Buffer {
  const buffer = Buffer.alloc(bytes)
  write(buffer)
  return buffer
}

/** Error codes of Kafka's protocol, by the names that it gives them. */
const ERRORS = {
  UNKNOWN_SERVER_ERROR: -1,
  UNKNOWN_TOPIC_OR_PARTITION: 3,
  NOT_LEADER_OR_FOLLOWER: 6,
  COORDINATOR_LOAD_IN_PROGRESS: 14,
  NOT_COORDINATOR: 16,
  NOT_ENOUGH_REPLICAS: 19,
  UNKNOWN_MEMBER_ID: 25,
  OUT_OF_ORDER_SEQUENCE_NUMBER: 45,
} as const

export type KafkaError = keyof typeof ERRORS

const NONE = int64(-1n)
type Partitions = readonly { readonly topic: string, readonly partitions: readonly number[] }[]

/** The response of a broker that did not execute a request: every partition has the error. */
export function refusal (request: KafkaRequest, error: KafkaError): Buffer {
  const code = int16(ERRORS[error])
  return answerFrame(request.correlationId, bodyOf(request, code))
}

function bodyOf ({ api, version, body }: KafkaRequest, code: Buffer): Buffer {
  const reader = createReader(body)
  if (api === 'Produce' && version === 7) return refusedProduce(reader, code)
  if (api === 'Fetch' && version === 11) return refusedFetch(reader, code)
  if (api === 'OffsetCommit' && version === 5) return refusedCommit(reader, code)
  if (api === 'Heartbeat' && version === 3) return Buffer.concat([int32(0), code])
  if (api === 'SyncGroup' && version === 3) return Buffer.concat([int32(0), code, int32(0)])
  if (api === 'JoinGroup' && version === 5) {
    return Buffer.concat([int32(0), code, int32(-1), text(''), text(''), text(''), int32(0)])
  }
  throw new Error(`The proxy can't refuse ${api} in version ${version}; teach it.`)
}

type Reader = ReturnType<typeof createReader>

function partitionsOf (reader: Reader, readPartition: () => number): Partitions {
  return reader.list(() => ({ topic: reader.text(), partitions: reader.list(readPartition) }))
}

const perPartition = (topics: Partitions, more: readonly Buffer[]): Buffer =>
  list(topics.map(({ topic, partitions }) => Buffer.concat([text(topic),
    list(partitions.map(partition => Buffer.concat([int32(partition), ...more])))])))

function refusedProduce (reader: Reader, code: Buffer): Buffer {
  reader.text()
  reader.skip(2 + 4)
  const topics = partitionsOf(reader, () => {
    const partition = reader.int32()
    reader.skip(reader.int32())
    return partition
  })
  return Buffer.concat([perPartition(topics, [code, NONE, NONE, NONE]), int32(0)])
}

function refusedFetch (reader: Reader, code: Buffer): Buffer {
  reader.skip(4 + 4 + 4 + 4 + 1 + 4 + 4)
  const topics = partitionsOf(reader, () => {
    const partition = reader.int32()
    reader.skip(4 + 8 + 8 + 4)
    return partition
  })
  const nothing = [code, NONE, NONE, NONE, int32(0), int32(-1), int32(0)]
  return Buffer.concat([int32(0), int16(0), int32(0), perPartition(topics, nothing)])
}

function refusedCommit (reader: Reader, code: Buffer): Buffer {
  reader.text()
  reader.int32()
  reader.text()
  // Up to version 4 a retention time follows.
  const topics = partitionsOf(reader, () => {
    const partition = reader.int32()
    reader.skip(8)
    reader.text()
    return partition
  })
  return Buffer.concat([int32(0), perPartition(topics, [code])])
}

/**
 * Replaces the brokers' ports by the proxy's in an answer that names brokers, so that the client
 * stays on the proxy.
 */
export function renamePorts (
  { api, version }: Pick<KafkaRequest, 'api' | 'version'>, answer: Buffer,
  portOf: (brokerPort: number) => number
): void {
  if (api !== 'Metadata' && api !== 'FindCoordinator') return
  const isKnown = api === 'Metadata' ? version >= 3 && version <= 8 : version >= 1 && version <= 2
  if (!isKnown) throw new Error(`The proxy can't read ${api} in version ${version}; teach it.`)
  const reader = createReader(answer, ANSWER_HEADER_BYTES)
  reader.skip(4)
  const rename = () => {
    reader.skip(4)
    reader.text()
    const at = reader.skip(4)
    answer.writeInt32BE(portOf(answer.readInt32BE(at)), at)
  }
  if (api === 'Metadata') {
    reader.list(() => {
      rename()
      reader.text()
    })
    return
  }
  reader.int16()
  reader.text()
  rename()
}
