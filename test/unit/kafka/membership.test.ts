import { setImmediate as turn } from 'node:timers/promises'
import type { EachBatchPayload } from 'kafkajs'
import { describe, expect, it } from 'vitest'
import type { ConsumeOptions } from '../../../services/kafka/bus.ts'
import { beginMembership } from '../../../services/kafka/membership.ts'

/** A generation with the part of kafkajs around it; `events` tells what happened, in order. */
function setUp (more: {
  readonly formerEnded?: Promise<void>
  readonly onDelivery?: ConsumeOptions['onDelivery']
  readonly onAssigned?: () => void
} = {}) {
  const events: string[] = []
  const failures: unknown[] = []
  const membership = beginMembership({
    consume: {
      group: 'stage',
      topics: ['rows'],
      onAssigned: more.onAssigned ?? (() => { events.push('assigned') }),
      onDelivery: more.onDelivery ?? (async ({ partition, messages }) => {
        events.push(`${partition}: ${messages.map(({ offset }) => offset).join()}`)
        return { go: 'next' }
      }),
    },
    aheadBytes: 10,
    onFatal: error => { failures.push(error) },
  }, more.formerEnded ?? Promise.resolve())
  const fetch = (partition: number, offset = 0, bytes = 1) => membership.take({
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
  /** A reader believes its first position when two fetches name it. */
  const take = (partition: number) => {
    fetch(partition)
    fetch(partition)
  }
  return { membership, events, failures, take, fetch }
}

describe('a generation', () => {
  it('begins once the former one has ended, and delivers nothing before', async () => {
    const former = Promise.withResolvers<void>()
    const { membership, events, take } = setUp({ formerEnded: former.promise })
    take(0)
    take(1)
    await turn()
    expect([events, membership.started()]).toEqual([[], false])
    former.resolve()
    await turn()
    expect(events).toEqual(['assigned', '0: 0', '1: 0'])
    expect(membership.started()).toBe(true)
  })

  it('that is over before it began assigns and delivers nothing', async () => {
    const former = Promise.withResolvers<void>()
    const { membership, events, failures, take } = setUp({ formerEnded: former.promise })
    take(0)
    membership.abort('The group rebalances.')
    take(1)
    former.resolve()
    await membership.ended()
    expect([events, failures, membership.started()]).toEqual([[], [], false])
    expect(membership.signal.reason).toEqual(new Error('The group rebalances.'))
  })

  it('has ended when its handlers have returned, and leaves no partition paused', async () => {
    const handler = Promise.withResolvers<{ go: 'next' }>()
    const { membership, events, take, fetch } = setUp({ onDelivery: () => handler.promise })
    take(0)
    await turn()
    fetch(0, 1, 10)
    membership.abort('The consumer stops.')
    const ended = membership.ended().then(() => { events.push('ended') })
    await turn()
    expect(events).toEqual(['assigned'])
    handler.resolve({ go: 'next' })
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

  it('may be lost under a handler, whose rejection then counts for nothing', async () => {
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

  it('fails when what it is told of its beginning throws', async () => {
    const failure = new Error('A stage can not forget.')
    const { membership, failures } = setUp({ onAssigned: () => { throw failure } })
    await membership.ended()
    expect([failures, membership.started()]).toEqual([[failure], false])
  })
})
