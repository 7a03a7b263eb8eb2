import { createRequire } from 'node:module'
import { expect, it } from 'vitest'

const load = createRequire(import.meta.url)
const Batch = load('kafkajs/src/consumer/batch')
const Decoder = load('kafkajs/src/protocol/decoder')
const Encoder = load('kafkajs/src/protocol/encoder')
const Record = load('kafkajs/src/protocol/recordBatch/record/v0')
const { RecordBatch } = load('kafkajs/src/protocol/recordBatch/v0')
const decodeMessages = load('kafkajs/src/protocol/requests/fetch/v4/decodeMessages')

const ATTRIBUTES_AT = 21
const SNAPPY = 2

/** A batch with one record, perhaps with the attributes of another codec. */
async function batchOf (offset: number, codec = 0): Promise<Buffer> {
  const record = Record({ offsetDelta: 0, timestampDelta: 0, key: 'k', value: `${offset}` })
  const { buffer } = await RecordBatch({ firstOffset: offset, records: [record] })
  buffer.writeInt16BE(codec, ATTRIBUTES_AT)
  return buffer
}

async function fetched (fetchOffset: number, batches: readonly Buffer[]) {
  const bytes = new Encoder().writeBytes(Buffer.concat(batches)).buffer
  const messages = await decodeMessages(new Decoder(bytes))
  return new Batch('rows', `${fetchOffset}`, {
    partition: 0, highWatermark: '9', abortedTransactions: [], messages,
  })
}

/** This fails without `deploy/patches`: the whole fetch would fail, with all other partitions. */
it('kafkajs, patched, returns what it decodes before an undecodable batch, then its error',
  async () => {
    const first = await fetched(4, [await batchOf(4), await batchOf(5, SNAPPY)])
    expect([first.error, first.lastOffset()]).toEqual([undefined, '4'])
    const second = await fetched(5, [await batchOf(5, SNAPPY), await batchOf(6)])
    expect([second.error?.name, second.isEmpty()]).toEqual(['KafkaJSNotImplemented', true])
  })
