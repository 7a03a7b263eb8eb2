import type { EachBatchPayload } from 'kafkajs'
import { describe, expect, it } from 'vitest'
import type { ConsumeOptions } from '../../../services/kafka/bus.ts'
import { createPartitionReader } from '../../../services/kafka/partition-reader.ts'

type Options = Pick<ConsumeOptions, 'onDelivery'> & {
  readonly maxBufferedBytes?: number
}

/** A reader of one partition, and the part of kafkajs around it. */
function createReader ({ onDelivery, maxBufferedBytes = 1_000 }: Options) {
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
  })
  const batch = (fetchedOffset: number, offsets: readonly number[]) => reader.enqueue({
    batch: {
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
  return { reader, batch, membership, calls, failures }
}

const later = () => new Promise((resolve) => setImmediate(resolve))

describe('a partition reader', () => {
  it('accepts an initial position when two fetches have it', async () => {
    const delivered: bigint[] = []
    const { batch, calls } = createReader({
      onDelivery: async ({ messages }) => {
        delivered.push(...messages.map(({ offset }) => offset))
        return { kind: 'done' }
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
    const { reader, batch, calls } = createReader({
      onDelivery: async ({ messages }) => {
        delivered.push(messages.map(({ offset }) => offset))
        return delivered.length > 1
          ? { kind: 'done' }
          : { kind: 'redeliver', fromOffset: 1n, afterMs: 0 }
      },
    })
    batch(0, [0, 1, 2])
    batch(0, [0, 1, 2])
    await later()
    batch(3, [3, 4])
    batch(1, [1, 2])
    batch(3, [3, 4])
    await reader.ended()
    expect(delivered).toEqual([[0n, 1n, 2n], [1n, 2n, 3n, 4n]])
    expect(calls.slice(0, 3)).toEqual(['resolve 2', 'pause', 'resolve 0'])
    expect(calls).toContain('resume')
  })

  it('pauses at maxBufferedBytes and resumes after the delivery', async () => {
    const gate = Promise.withResolvers<void>()
    const sizes: number[] = []
    const { reader, batch, calls } = createReader({
      maxBufferedBytes: 200,
      onDelivery: async ({ messages }) => {
        sizes.push(messages.length)
        await gate.promise
        return { kind: 'done' }
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
