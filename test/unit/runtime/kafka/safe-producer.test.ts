import type { ProducerBatch } from 'kafkajs'
import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { OutgoingMessage } from '../../../../services/runtime/kafka/bus.ts'
import {
  SafeProducer, type SafeProducerOptions,
} from '../../../../services/runtime/kafka/safe-producer.ts'

type Answer = { readonly resolve: () => void, readonly reject: (error: Error) => void }

/** A Kafka client whose requests are answered by the test, one after another. */
function createClients (options: Partial<SafeProducerOptions> = {}) {
  const requests: (Answer & { readonly client: number, readonly values: string[] })[] = []
  const counts = { clients: 0, disconnected: 0 }
  let arrived = () => {}
  const build = () => {
    const client = ++counts.clients
    const sendBatch = ({ topicMessages = [] }: ProducerBatch) => {
      const { promise, resolve, reject } = Promise.withResolvers<never[]>()
      const values = topicMessages.flatMap(({ topic, messages }) =>
        messages.map(({ value }) => `${topic}:${value}`))
      requests.push({ client, values, resolve: () => resolve([]), reject })
      arrived()
      return promise
    }
    const disconnect = async () => { counts.disconnected++ }
    return { connect: async () => {}, sendBatch, disconnect }
  }
  /** The request at this index, once it has come, with these values. */
  const request = async (index: number, ...values: readonly string[]) => {
    while (requests.length <= index) await new Promise<void>(resolve => { arrived = resolve })
    expect(requests[index]?.values).toEqual(values)
    return requests[index]!
  }
  /** Acknowledges that request. */
  const acknowledge = async (index: number, ...values: readonly string[]) =>
    (await request(index, ...values)).resolve()
  const producer = new SafeProducer({ build, ...options })
  const send = (text: string, topic = 'rows', signal?: AbortSignal) =>
    producer.send([message(text, topic)], signal)
  return { producer, send, request, acknowledge, requests, counts }
}

const message = (value: string, topic = 'rows'): OutgoingMessage =>
  ({ topic, key: 'key', value: Buffer.from(value), headers: {} })

const rejected = (type: string) => Object.assign(new Error(type), { type })

describe('the safe producer', () => {
  it('resolves a send only when all its requests are acknowledged', async () => {
    const { producer, acknowledge } = createClients({ batchBytes: 200 })
    const texts = ['a'.repeat(100), 'b'.repeat(100)] as const
    let isDone = false
    const sent = producer.send(texts.map(text => message(text))).then(() => { isDone = true })
    await acknowledge(0, `rows:${texts[0]}`)
    await turn()
    expect(isDone).toBe(false)
    await acknowledge(1, `rows:${texts[1]}`)
    await sent
  })

  it('splits a batch that is too large for the broker, and rejects a single message', async () => {
    const { send, request, acknowledge, requests } = createClients()
    const small = send('a')
    await request(0, 'rows:a')
    const [big, last] = [send('big'), send('c')]
    await turn()
    await acknowledge(0, 'rows:a')
    const both = await request(1, 'rows:big', 'rows:c')
    both.reject(rejected('MESSAGE_TOO_LARGE'))
    const alone = await request(2, 'rows:big')
    alone.reject(rejected('MESSAGE_TOO_LARGE'))
    await expect(big).rejects.toThrow('bytes, more than the broker accepts (max.message.bytes)')
    await acknowledge(3, 'rows:c')
    await Promise.all([small, last])
    expect(requests).toHaveLength(4)
  })

  it('queues sends in order while the queue is full', async () => {
    const { send, acknowledge } = createClients({ queueBytes: 250 })
    const texts = ['a', 'b', 'c'].map(letter => letter.repeat(100))
    const sends = texts.map(text => send(text))
    for (const [index, text] of texts.entries()) {
      await acknowledge(index, `rows:${text}`)
      await sends[index]
    }
  })

  it('stops waiting after an abort, and never sends queued messages of it', async () => {
    const { send, request, acknowledge, requests } = createClients()
    const first = send('a')
    await request(0, 'rows:a')
    const controller = new AbortController()
    const [second, third] = [send('b', 'rows', controller.signal), send('c')]
    await turn()
    controller.abort(new Error('The partition is lost.'))
    await expect(second).rejects.toThrow('The partition is lost.')
    await acknowledge(0, 'rows:a')
    await acknowledge(1, 'rows:c')
    await Promise.all([first, third])
    expect(requests).toHaveLength(2)
  })

  it('sends a rejected request again without the sends that were aborted meanwhile', async () => {
    const { send, request, acknowledge, requests } = createClients()
    const first = send('a')
    await request(0, 'rows:a')
    const controller = new AbortController()
    const [aborted, other] = [send('b', 'rows', controller.signal), send('c', 'other')]
    await turn()
    await acknowledge(0, 'rows:a')
    await first
    const both = await request(1, 'rows:b', 'other:c')
    controller.abort(new Error('The partition is lost.'))
    await expect(aborted).rejects.toThrow('The partition is lost.')
    both.reject(rejected('NOT_ENOUGH_REPLICAS'))
    await acknowledge(2, 'other:c')
    await other
    expect(requests).toHaveLength(3)
  })

  it('flushes when it closes and then rejects sends', async () => {
    const { producer, send, acknowledge, counts } = createClients()
    const sends = [send('a'), send('b')]
    const closed = producer.close()
    await acknowledge(0, 'rows:a')
    await acknowledge(1, 'rows:b')
    await Promise.all([closed, ...sends])
    expect(counts).toEqual({ clients: 1, disconnected: 1 })
    await expect(send('c')).rejects.toThrow('the producer is closed')
  })

  it('rejects sends that are not acknowledged in time when it closes', async () => {
    const { producer, send, request } = createClients({ closeTimeoutMs: 20 })
    const sends = [send('a')]
    await request(0, 'rows:a')
    sends.push(send('b'))
    const outcomes = Promise.allSettled(sends)
    await producer.close()
    expect((await outcomes).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  })
})
