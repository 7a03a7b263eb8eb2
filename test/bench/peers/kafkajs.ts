import { Kafka, logLevel } from 'kafkajs'
import { peerArguments, reportReady, verifyChunk } from './plain-chunk.ts'

/** A plain hop as in the documentation of kafkajs: `eachBatch`, `acks=all`. */
const { brokers, from, to } = peerArguments()
const kafka = new Kafka({
  brokers: [...brokers], clientId: 'peer-kafkajs', logLevel: logLevel.NOTHING,
})
const producer = kafka.producer()
const consumer = kafka.consumer({ groupId: `peer.${from}`, maxWaitTimeInMs: 100 })
await producer.connect()
await consumer.connect()
await consumer.subscribe({ topics: [from], fromBeginning: true })
consumer.on(consumer.events.GROUP_JOIN, reportReady)
await consumer.run({
  partitionsConsumedConcurrently: 4,
  eachBatch: async ({ batch, resolveOffset, heartbeat }) => {
    const sent: Promise<unknown>[] = []
    for (const { key, value, headers, offset } of batch.messages) {
      const message = { key, value: verifyChunk(String(value)), headers: headers ?? {} }
      // One message per request: the results of a batch exceed the maximum request size.
      sent.push(producer.send({ topic: to, acks: -1, messages: [message] }))
      resolveOffset(offset)
      await heartbeat()
    }
    await Promise.all(sent)
  },
})
