import { Consumer, Producer } from '@platformatic/kafka'
import { peerArguments, reportReady, verifyChunk } from './plain-chunk.ts'

/** A plain hop as in the documentation of @platformatic/kafka: a stream of messages, `acks=all`. */
const { brokers, from, to } = peerArguments()
const common = { bootstrapBrokers: [...brokers], clientId: 'peer-platformatic' }
const producer = new Producer(common)
const consumer = new Consumer({ ...common, groupId: `peer.${from}` })
const stream = await consumer.consume({
  topics: [from], mode: 'committed', fallbackMode: 'earliest', autocommit: true, maxWaitTime: 100,
})
reportReady()
for await (const { key, value, headers } of stream) {
  const result = Buffer.from(verifyChunk(String(value)))
  // Not awaited, so that the next chunk does not wait for the broker. A failure ends the process.
  producer.send({ acks: -1, messages: [{ topic: to, key, value: result, headers }] })
    .catch((error: unknown) => { throw error })
}
