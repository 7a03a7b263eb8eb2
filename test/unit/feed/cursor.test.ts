import { describe, expect, it } from 'vitest'
import {
  createPartition, type FeedJobRequest, type JobOutcome, type PartitionDeps,
} from '../../../services/feed/intake.ts'
import type { FetchedBatch } from '../../../services/runtime/kafka/bus.ts'
import { createCapacity } from '../../../services/runtime/platform/limits.ts'
import { eventually } from '../../support/eventually.ts'

const terms = { service: 'whatsapp', country: '', forceFresh: false } as const
const topicPartition = { topic: 'feeds.acme.submitted', partition: 0 }
const contact = (offset: number) => ({ offset, reference: `c${offset}`, input: `i${offset}` })
const nextTurn = () => new Promise(resolve => setImmediate(resolve))

/** A partition whose requests have the given outcomes, in order; waits end at once. */
async function createScenario (
  outcomes: readonly ('taken' | 'failed' | 'late' | 'lost')[] = [],
  change: Partial<PartitionDeps> = {}
) {
  const requests: FeedJobRequest[] = []
  const failed: number[] = []
  const errors: unknown[] = []
  const commits: bigint[] = []
  const rest = [...outcomes]
  const stopping = new AbortController()
  const partition = await createPartition({
    topicPartition,
    batchLimits: { contacts: 4, ageMs: 0 },
    positions: async () => new Map(),
    marks: {
      read: async () => ({ offset: -1, senders: new Map() }),
      write: async () => true,
      writeDead: async () => {},
    },
    reportReplays: async () => {},
    clock: { now: () => 0 },
    buffered: createCapacity(10_000),
    submit: async (request): Promise<JobOutcome> => {
      requests.push(request)
      return { kind: rest.shift() ?? 'taken' }
    },
    failContact: async ({ offset }) => { failed.push(offset) },
    pause: async () => {},
    fail: error => { errors.push(error) },
    signal: stopping.signal,
    now: () => 0,
    sleep: async () => {},
    ...change,
  })
  const add = (...offsets: readonly number[]) => {
    partition.begin({
      messages: offsets.map(offset => ({ ...topicPartition, offset: BigInt(offset) })),
      commit: (next: bigint) => { commits.push(next) },
    } as unknown as FetchedBatch)
    for (const offset of offsets) partition.take(contact(offset), terms)
  }
  /** The sizes of the first jobs, once all contacts up to this number have passed. */
  const pass = async (count: number) => {
    add(...Array(count).keys())
    await eventually(() => expect(commits.at(-1)).toBe(BigInt(count)))
    return requests.map(({ inputs }) => inputs.length).slice(0, 4)
  }
  return { partition, requests, failed, errors, stopping, add, pass }
}

describe('a feed cursor', () => {
  it('closes a batch at its maximum number or age of contacts, and on close', async () => {
    const waits: number[] = []
    let nowMs = 0
    let wake = () => {}
    const { partition, requests, add: take } = await createScenario([], {
      batchLimits: { contacts: 3, ageMs: 100 },
      now: () => nowMs,
      sleep: ms => {
        waits.push(ms)
        return new Promise(resolve => { wake = () => resolve(undefined) })
      },
    })
    const add = async (atMs: number, ...offsets: readonly number[]) => {
      nowMs = atMs
      take(...offsets)
      await nextTurn()
      return [waits.splice(0), requests.splice(0).map(request => request.offsets)]
    }
    expect(await add(0, 1)).toEqual([[100], []])
    expect(await add(50, 2)).toEqual([[], []])
    partition.close()
    expect(await add(60)).toEqual([[], [[1, 2]]])
    expect(await add(70, 5)).toEqual([[100], []])
    // What is above the maximum waits from its own arrival on.
    expect(await add(80, 6, 7, 8)).toEqual([[100], [[5, 6, 7]]])
    nowMs = 180
    wake()
    expect(await add(180)).toEqual([[], [[8]]])
  })

  it('isolates a contact that no job can be created for, and fails only that one', async () => {
    const { failed, pass } = await createScenario(Array(10).fill('failed'))
    expect([await pass(4), failed]).toEqual([[4, 2, 1, 1], [0]])
  })

  it('requests smaller jobs while the pipeline is slow, and fails no contact', async () => {
    const { failed, pass } = await createScenario(
      Array(12).fill('late'), { batchLimits: { contacts: 4_000, ageMs: 0 } })
    expect([await pass(4_000), failed]).toEqual([[4_000, 2_000, 1_000, 1_000], []])
  })

  it.each([[false, 1], [true, 0]])(
    'reports an error without retries (its partition is lost: %s)', async (isLost, count) => {
      let reads = 0
      const { requests, errors, stopping, add } = await createScenario(['lost'], {
        positions: async () => {
          if (reads++ === 0) return new Map()
          if (isLost) stopping.abort()
          throw new Error('no position')
        },
      })
      add(0)
      await eventually(() => expect(requests).toHaveLength(1))
      await nextTurn()
      expect(errors).toHaveLength(count)
    })
})
