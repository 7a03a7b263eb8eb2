import type { ProducerBatch } from 'kafkajs'
import { describe, expect, it } from 'vitest'
import type { OutgoingMessage } from '../../../../services/runtime/kafka/bus.ts'
import {
  createSafeProducer, type SafeProducerOptions,
} from '../../../../services/runtime/kafka/safe-producer.ts'

type Answer = { readonly resolve: () => void, readonly reject: (error: Error) => void }

/** A Kafka client whose requests are answered by the test, one after another. */
function createClients (options: Partial<SafeProducerOptions> = {}) {
  const requests: (Answer & { readonly client: number, readonly values: string[] })[] = []
  let arrived = () => {}
  let clients = 0
  let disconnected = 0
  const build = () => {
    const client = ++clients
    const sendBatch = ({ topicMessages = [] }: ProducerBatch) => {
      const { promise, resolve, reject } = Promise.withResolvers<never[]>()
      const values = topicMessages.flatMap(({ topic, messages }) =>
        messages.map(({ value }) => `${topic}:${value}`))
      requests.push({ client, values, resolve: () => resolve([]), reject })
      arrived()
      return promise
    }
    return { connect: async () => {}, sendBatch, disconnect: async () => { disconnected++ } }
  }
  const request = async (index: number) => {
    while (requests.length <= index) await new Promise<void>((resolve) => { arrived = resolve })
    const found = requests[index]
    if (found === undefined) throw new Error('unreachable')
    return found
  }
  const producer = createSafeProducer({ build, ...options })
  return { producer, request, requests, counts: () => ({ clients, disconnected }) }
}

const message = (value: string, more: Partial<OutgoingMessage> = {}): OutgoingMessage =>
  ({ topic: 'rows', key: 'key', value: Buffer.from(value), headers: {}, ...more })

const rejected = (type: string) => Object.assign(new Error(type), { type })

describe('the safe producer', () => {
  it('sends a single message at once and batches those that wait', async () => {
    const { producer, request, requests } = createClients()
    const first = producer.send([message('a')])
    const { values, resolve } = await request(0)
    const others = ['b', 'c'].map((value) => producer.send([message(value)]))
    const other = producer.send([message('d', { topic: 'later' }), message('e')])
    await new Promise((resolve) => setImmediate(resolve))
    expect(values).toEqual(['rows:a'])
    expect(requests).toHaveLength(1)
    resolve()
    await first
    const second = await request(1)
    expect(second.values).toEqual(['rows:b', 'rows:c', 'rows:e', 'later:d'])
    second.resolve()
    await Promise.all([...others, other])
    expect(requests).toHaveLength(2)
  })

  it('resolves a send only when all its requests are acknowledged', async () => {
    const { producer, request } = createClients({ batchBytes: 200 })
    let isDone = false
    const send = producer.send([message('a'.repeat(100)), message('b'.repeat(100))])
      .then(() => { isDone = true })
    const first = await request(0)
    expect(first.values).toHaveLength(1)
    first.resolve()
    const second = await request(1)
    expect(isDone).toBe(false)
    second.resolve()
    await send
  })

  it('splits a batch that is too large for the broker, and rejects a single message', async () => {
    const { producer, request, requests } = createClients()
    const small = producer.send([message('a')])
    const first = await request(0)
    const big = producer.send([message('big')])
    const last = producer.send([message('c')])
    await new Promise((resolve) => setImmediate(resolve))
    first.resolve()
    const joined = await request(1)
    expect(joined.values).toEqual(['rows:big', 'rows:c'])
    joined.reject(rejected('MESSAGE_TOO_LARGE'))
    const alone = await request(2)
    expect(alone.values).toEqual(['rows:big'])
    alone.reject(rejected('MESSAGE_TOO_LARGE'))
    await expect(big).rejects.toThrow('bytes, more than the broker accepts (max.message.bytes)')
    const rest = await request(3)
    expect(rest.values).toEqual(['rows:c'])
    rest.resolve()
    await Promise.all([small, last])
    expect(requests).toHaveLength(4)
  })

  it('queues sends in order while the queue is full', async () => {
    const { producer, request } = createClients({ queueBytes: 250 })
    const sends = ['a', 'b', 'c'].map((value) => producer.send([message(value.repeat(100))]))
    for (const [index, value] of ['a', 'b', 'c'].entries()) {
      const { values, resolve } = await request(index)
      expect(values).toEqual([`rows:${value.repeat(100)}`])
      resolve()
      await sends[index]
    }
  })

  it('stops waiting after an abort, and never sends queued messages of it', async () => {
    const { producer, request, requests } = createClients()
    const first = producer.send([message('a')])
    const running = await request(0)
    const controller = new AbortController()
    const second = producer.send([message('b')], controller.signal)
    const third = producer.send([message('c')])
    await new Promise((resolve) => setImmediate(resolve))
    controller.abort(new Error('The partition is lost.'))
    await expect(second).rejects.toThrow('The partition is lost.')
    running.resolve()
    const next = await request(1)
    expect(next.values).toEqual(['rows:c'])
    next.resolve()
    await Promise.all([first, third])
    expect(requests).toHaveLength(2)
  })

  it('sends a rejected request again without the sends that were aborted meanwhile', async () => {
    const { producer, request, requests } = createClients()
    const first = producer.send([message('a')])
    const running = await request(0)
    const controller = new AbortController()
    const aborted = producer.send([message('b')], controller.signal)
    const other = producer.send([message('c', { topic: 'other' })])
    await new Promise((resolve) => setImmediate(resolve))
    running.resolve()
    await first
    const both = await request(1)
    expect(both.values).toEqual(['rows:b', 'other:c'])
    controller.abort(new Error('The partition is lost.'))
    await expect(aborted).rejects.toThrow('The partition is lost.')
    both.reject(rejected('NOT_ENOUGH_REPLICAS'))
    const again = await request(2)
    expect(again.values).toEqual(['other:c'])
    again.resolve()
    await other
    expect(requests).toHaveLength(3)
  })

  it('flushes when it closes and then rejects sends', async () => {
    const { producer, request, counts } = createClients()
    const sends = [producer.send([message('a')]), producer.send([message('b')])]
    const closed = producer.close()
    const first = await request(0)
    expect(first.values).toEqual(['rows:a'])
    first.resolve()
    const second = await request(1)
    expect(second.values).toEqual(['rows:b'])
    second.resolve()
    await Promise.all([closed, ...sends])
    expect(counts()).toEqual({ clients: 1, disconnected: 1 })
    await expect(producer.send([message('c')])).rejects.toThrow('the producer is closed')
  })

  it('rejects sends that are not acknowledged in time when it closes', async () => {
    const { producer, request } = createClients({ closeTimeoutMs: 20 })
    const sends = [producer.send([message('a')])]
    await request(0)
    sends.push(producer.send([message('b')]))
    const outcomes = Promise.allSettled(sends)
    await producer.close()
    expect((await outcomes).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  })
})
