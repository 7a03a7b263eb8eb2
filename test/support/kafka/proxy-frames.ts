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
export const ANSWER_HEADER_BYTES = LENGTH_BYTES + 4

/** A frame that answers a request. */
export function answerFrame (correlationId: number, body: Buffer): Buffer {
  return Buffer.concat([int32(ANSWER_HEADER_BYTES - LENGTH_BYTES + body.length),
    int32(correlationId), body])
}

/** Reads the types of Kafka's protocol that came before the compact ones, one after another. */
export function createReader (buffer: Buffer, start = 0) {
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
export const int64 = (value: bigint): Buffer => number(8, buffer => buffer.writeBigInt64BE(value))
export const text = (value: string): Buffer =>
  Buffer.concat([int16(Buffer.byteLength(value)), Buffer.from(value)])
export const list = (items: readonly Buffer[]): Buffer =>
  Buffer.concat([int32(items.length), ...items])

function number (bytes: number, write: (buffer: Buffer) => void): Buffer {
  const buffer = Buffer.alloc(bytes)
  write(buffer)
  return buffer
}
