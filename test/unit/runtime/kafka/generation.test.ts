import { setImmediate as turn } from 'node:timers/promises'
import type { EachBatchPayload } from 'kafkajs'
import { describe, expect, it } from 'vitest'
import type { ConsumeOptions } from '../../../../services/runtime/kafka/bus.ts'
import { startGeneration } from '../../../../services/runtime/kafka/consumer.ts'

/** A generation with the part of kafkajs around it; `events` records what happened, in order. */
function setUp (more: {
  readonly formerEnded?: Promise<void>
  readonly onDelivery?: ConsumeOptions['onDelivery']
  readonly onAssigned?: () => void
} = {}) {
  const events: string[] = []
  const failures: unknown[] = []
  const membership = startGeneration({
    consume: {
      group: 'stage',
      topics: ['rows'],
      onAssigned: more.onAssigned ?? (() => { events.push('assigned') }),
      onDelivery: more.onDelivery ?? (async ({ partition, messages }) => {
        events.push(`${partition}: ${messages.map(({ offset }) => offset).join()}`)
      }),
    },
    maxBufferedBytes: 10,
    onFatal: error => { failures.push(error) },
  }, more.formerEnded ?? Promise.resolve())
  const fetch = (partition: number, offset = 0, bytes = 1) => membership.enqueue({
    batch: {
      topic: 'rows',
      partition,
      fetchedOffset: `${offset}`,
      lastOffset: () => `${offset}`,
      messages: [{ offset: `${offset}`, key: null, value: Buffer.alloc(bytes), timestamp: '5' }],
    },
    resolveOffset: () => {},
    pause: () => () => { events.push(`${partition} resumed`) },
  } as unknown as EachBatchPayload)
  /** A reader trusts its first position when two fetches confirm it. */
  const take = (partition: number) => {
    fetch(partition)
    fetch(partition)
  }
  return { membership, events, failures, take, fetch }
}

describe('a generation of a group', () => {
  it('starts after the previous one has ended, and delivers nothing before', async () => {
    const former = Promise.withResolvers<void>()
    const { membership, events, take } = setUp({ formerEnded: former.promise })
    take(0)
    take(1)
    await turn()
    expect([events, membership.isStarted()]).toEqual([[], false])
    former.resolve()
    await turn()
    expect(events).toEqual(['assigned', '0: 0', '1: 0'])
    expect(membership.isStarted()).toBe(true)
  })

  it('that ends before it starts assigns and delivers nothing', async () => {
    const former = Promise.withResolvers<void>()
    const { membership, events, failures, take } = setUp({ formerEnded: former.promise })
    take(0)
    membership.abort('The group rebalances.')
    take(1)
    former.resolve()
    await membership.ended()
    expect([events, failures, membership.isStarted()]).toEqual([[], [], false])
    expect(membership.signal.reason).toEqual(new Error('The group rebalances.'))
  })

  it('ends when its handlers have returned, and resumes its partitions', async () => {
    const handler = Promise.withResolvers<void>()
    const { membership, events, take, fetch } = setUp({ onDelivery: () => handler.promise })
    take(0)
    await turn()
    fetch(0, 1, 10)
    membership.abort('The consumer stops.')
    const ended = membership.ended().then(() => { events.push('ended') })
    await turn()
    expect(events).toEqual(['assigned'])
    handler.resolve()
    await ended
    expect(events).toEqual(['assigned', '0 resumed', 'ended'])
  })

  it('fails once when a handler rejects', async () => {
    const failure = new Error('It cannot heal.')
    const { membership, failures, take } = setUp({ onDelivery: () => Promise.reject(failure) })
    take(0)
    take(1)
    await membership.ended()
    expect(failures).toEqual([failure])
    expect(membership.signal.reason).toBe(failure)
  })

  it('ignores a rejection of a handler after its end', async () => {
    const { membership, failures, take } = setUp({
      onDelivery: async ({ signal }) => {
        membership.abort('The group rebalances.')
        throw signal.reason
      },
    })
    take(0)
    await membership.ended()
    expect(failures).toEqual([])
  })

  it('fails when onAssigned throws', async () => {
    const failure = new Error('A stage can not forget.')
    const { membership, failures } = setUp({ onAssigned: () => { throw failure } })
    await membership.ended()
    expect([failures, membership.isStarted()]).toEqual([[failure], false])
  })
})
