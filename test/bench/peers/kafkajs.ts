import { Kafka, logLevel } from 'kafkajs'
import { peerArguments, sayReady } from './arguments.ts'
import { verifyChunk } from './plain-chunk.ts'

/** A plain hop as the documentation of kafkajs writes it: `eachBatch`, all acknowledged. */
const { brokers, from, to } = peerArguments()
const kafka = new Kafka({
  brokers: [...brokers], clientId: 'peer-kafkajs', logLevel: logLevel.NOTHING,
})
const producer = kafka.producer()
const consumer = kafka.consumer({ groupId: `peer.${from}`, maxWaitTimeInMs: 100 })
await producer.connect()
await consumer.connect()
await consumer.subscribe({ topics: [from], fromBeginning: true })
consumer.on(consumer.events.GROUP_JOIN, sayReady)
await consumer.run({
  partitionsConsumedConcurrently: 4,
  eachBatch: async ({ batch, resolveOffset, heartbeat }) => {
    const sent: Promise<unknown>[] = []
    for (const { key, value, headers, offset } of batch.messages) {
      const message = { key, value: verifyChunk(String(value)), headers: headers ?? {} }
      // A message a request, as a batch of results would be larger than brokers take.
      sent.push(producer.send({ topic: to, acks: -1, messages: [message] }))
      resolveOffset(offset)
      await heartbeat()
    }
    await Promise.all(sent)
  },
})
