import {
  ANSWER_HEADER_BYTES, answerFrame, createReader, int16, int32, int64, list, text,
  type KafkaRequest,
} from './proxy-frames.ts'

/** Error codes of Kafka's protocol, by the names that it gives them. */
const ERRORS = {
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
