import type { EachBatchPayload } from 'kafkajs'
import { describe, expect, it } from 'vitest'
import type { ConsumeOptions } from '../../../../services/runtime/kafka/bus.ts'
import { createPartitionReader } from '../../../../services/runtime/kafka/partition-reader.ts'

type Options = Pick<ConsumeOptions, 'onDelivery' | 'onUndecodable'> & {
  readonly maxBufferedBytes?: number
}

/** A reader of one partition, and the part of kafkajs around it. */
function createReader ({ onDelivery, onUndecodable, maxBufferedBytes = 1_000 }: Options) {
  const membership = new AbortController()
  const calls: string[] = []
  const failures: unknown[] = []
  const reader = createPartitionReader({
    topic: 'rows',
    partition: 0,
    start: Promise.resolve(),
    maxBufferedBytes,
    commits: { add: () => {} },
    signal: membership.signal,
    fail: (error) => { failures.push(error) },
    onDelivery,
    onUndecodable,
  })
  const reject = (fetchedOffset: number, error: unknown) => enqueue(fetchedOffset, [], error)
  const batch = (fetchedOffset: number, offsets: readonly number[]) =>
    enqueue(fetchedOffset, offsets)
  const enqueue = (
    fetchedOffset: number, offsets: readonly number[], error?: unknown
  ) => reader.enqueue({
    batch: {
      error,
      topic: 'rows',
      partition: 0,
      fetchedOffset: `${fetchedOffset}`,
      lastOffset: () => `${offsets.at(-1)}`,
      messages: offsets.map((offset) => ({
        offset: `${offset}`, key: null, value: Buffer.alloc(100), headers: {}, timestamp: '5',
      })),
    },
    resolveOffset: (offset: string) => { calls.push(`resolve ${offset}`) },
    pause: () => {
      calls.push('pause')
      return () => { calls.push('resume') }
    },
  } as unknown as EachBatchPayload)
  return { reader, batch, reject, membership, calls, failures }
}

const later = () => new Promise((resolve) => setImmediate(resolve))

describe('a partition reader', () => {
  it('accepts an initial position when two fetches have it', async () => {
    const delivered: bigint[] = []
    const { batch, calls } = createReader({
      onDelivery: async ({ messages }) => {
        delivered.push(...messages.map(({ offset }) => offset))
      },
    })
    batch(70, [70, 71])
    batch(50, [50, 51])
    batch(50, [50, 51])
    batch(52, [52])
    await later()
    expect(delivered).toEqual([50n, 51n, 52n])
    expect(calls).toEqual(['resolve 51', 'resolve 52'])
  })

  it('seeks back for a redelivery and drops the fetch in flight', async () => {
    const delivered: bigint[][] = []
    const over = Promise.withResolvers<void>()
    const { reader, batch, calls } = createReader({
      onDelivery: async ({ messages, redeliver }) => {
        delivered.push(messages.map(({ offset }) => offset))
        if (delivered.length === 1) redeliver(1n, over.promise)
      },
    })
    batch(0, [0, 1, 2])
    batch(0, [0, 1, 2])
    await later()
    batch(3, [3, 4])
    expect(calls).not.toContain('resume')
    over.resolve()
    await later()
    batch(3, [3, 4])
    batch(1, [1, 2])
    batch(3, [3, 4])
    await reader.ended()
    expect(delivered).toEqual([[0n, 1n, 2n], [1n, 2n, 3n, 4n]])
    expect(calls.slice(0, 4)).toEqual(['resolve 2', 'resolve 0', 'pause', 'resume'])
  })

  it('pauses before an undecodable batch and delivers the messages before it', async () => {
    const delivered: bigint[] = []
    const errors: unknown[] = []
    const over = Promise.withResolvers<void>()
    const { reader, batch, reject, calls, failures } = createReader({
      onDelivery: async ({ messages }) => {
        delivered.push(...messages.map(({ offset }) => offset))
      },
      onUndecodable: (error, { retry }) => {
        errors.push(error)
        retry(over.promise)
      },
    })
    const error = new Error('Snappy compression not implemented')
    batch(0, [0])
    batch(0, [0])
    reject(1, error)
    reject(1, error)
    await reader.ended()
    expect([delivered, errors, failures]).toEqual([[0n], [error], []])
    expect(calls).toEqual(['resolve 0', 'pause'])
    over.resolve()
    await later()
    batch(1, [1])
    await reader.ended()
    expect([delivered, calls.at(-2)]).toEqual([[0n, 1n], 'resume'])
  })

  it('fails at an undecodable batch that nobody handles', () => {
    const { reject, failures } = createReader({ onDelivery: async () => {} })
    const error = new Error('Snappy compression not implemented')
    reject(0, error)
    reject(0, error)
    expect(failures).toEqual([error])
  })

  it('pauses at maxBufferedBytes and resumes after the delivery', async () => {
    const gate = Promise.withResolvers<void>()
    const sizes: number[] = []
    const { reader, batch, calls } = createReader({
      maxBufferedBytes: 200,
      onDelivery: async ({ messages }) => {
        sizes.push(messages.length)
        await gate.promise
      },
    })
    batch(0, [0])
    batch(0, [0])
    await later()
    batch(1, [1])
    expect(calls).not.toContain('pause')
    batch(2, [2])
    expect(calls.at(-1)).toBe('pause')
    gate.resolve()
    await reader.ended()
    expect(sizes).toEqual([1, 2])
    expect(calls.at(-1)).toBe('resume')
  })
})
