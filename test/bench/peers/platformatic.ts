import { Consumer, Producer } from '@platformatic/kafka'
import { peerArguments, sayReady } from './arguments.ts'
import { verifyChunk } from './plain-chunk.ts'

/** A plain hop as the documentation of @platformatic/kafka writes it: a stream of messages. */
const { brokers, from, to } = peerArguments()
const common = { bootstrapBrokers: [...brokers], clientId: 'peer-platformatic' }
const producer = new Producer(common)
const consumer = new Consumer({ ...common, groupId: `peer.${from}` })
const stream = await consumer.consume({
  topics: [from], mode: 'committed', fallbackMode: 'earliest', autocommit: true, maxWaitTime: 100,
})
sayReady()
for await (const { key, value, headers } of stream) {
  const result = Buffer.from(verifyChunk(String(value)))
  // Not awaited: the next chunk is worked on while brokers store this one. A failure ends all.
  producer.send({ acks: -1, messages: [{ topic: to, key, value: result, headers }] })
    .catch((error: unknown) => { throw error })
}
