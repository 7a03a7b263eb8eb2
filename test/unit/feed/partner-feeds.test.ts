import { describe, expect, it } from 'vitest'
import type { Partner } from '../../../services/accounts/partners.ts'
import { startPartnerFeeds, type PartnerFeed } from '../../../services/feed/partner-feeds.ts'
import type { ConsumeOptions, FetchedBatch } from '../../../services/runtime/kafka/bus.ts'
import { InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import { chooseFeedGroup } from '../../../services/runtime/platform/topics.ts'
import { eventually } from '../../support/eventually.ts'

const partnerOf = (name: string, revokedAtMs = 0) => ({ name, revokedAtMs }) as Partner
const topicOf = (name: string) => `feeds.${name}.submitted`
/** Names of one group, and one of another. */
const [first, second, third] = Array.from({ length: 100 }, (_, index) => `p${index}`)
  .filter(name => chooseFeedGroup(name) === chooseFeedGroup('p0')) as [string, string, string]
const other = Array.from({ length: 100 }, (_, index) => `q${index}`)
  .find(name => chooseFeedGroup(name) !== chooseFeedGroup(first)) as string

function environment () {
  const state = {
    partners: [] as Partner[],
    topics: new Set<string>(),
    fails: undefined as Error | undefined,
    nowMs: 0,
  }
  let lists = 0
  const events: string[] = []
  const delivered: string[] = []
  const consumers: ConsumeOptions[] = []
  const feeds = startPartnerFeeds({
    partners: {
      list: async () => {
        lists++
        return state.partners
      },
      version: async () => {
        if (state.fails !== undefined) throw state.fails
        return JSON.stringify(state.partners)
      },
    },
    createFeed: ({ name }): PartnerFeed => ({
      name,
      topic: topicOf(name),
      state: () => name === third ? 'paused' : 'running',
      onAssigned: () => { events.push(`assigned ${name}`) },
      onDelivery: async () => { delivered.push(name) },
      onUndecodable: () => { events.push(`undecodable ${name}`) },
      stop: () => { events.push(`stop ${name}`) },
    }),
    bus: {
      consume: async options => {
        consumers.push(options)
        events.push(`consume ${options.topics.length}`)
        return { ready: () => true, stop: async () => { events.push('leave') } }
      },
      topicNames: async () => state.topics,
    },
    pollMs: 1,
    now: () => state.nowMs,
    log: { info: () => {}, warn: () => {}, error: () => {} },
    fail: error => { events.push(`fail ${String(error)}`) },
  })
  const register = (...names: readonly string[]) => {
    state.partners = names.map(name => partnerOf(name))
    for (const name of names) state.topics.add(topicOf(name))
  }
  return { state, events, delivered, consumers, feeds, register, lists: () => lists }
}

const count = (feeds: ReturnType<typeof startPartnerFeeds>, state: string) =>
  [...feeds.states().values()].filter(current => current === state).length

describe('the partner feeds', () => {
  it('read the topics of many partners with few consumers', async () => {
    const { consumers, feeds, register, lists } = environment()
    const names = Array.from({ length: 200 }, (_, index) => `p${index}`)
    register(...names)
    await eventually(() => expect(feeds.ready() && count(feeds, 'running')).toBe(199))
    expect(consumers.length).toBe(8)
    // Of a poll each, the one that found them and the one before.
    expect(lists()).toBeLessThanOrEqual(2)
    expect(consumers.flatMap(({ topics }) => topics).toSorted())
      .toEqual(names.map(topicOf).toSorted())
    await feeds.stop()
  })

  it('subscribe again only where a partner is new or revoked', async () => {
    const { state, events, consumers, feeds, register } = environment()
    register(first, other)
    await eventually(() => expect(events).toEqual(['consume 1', 'consume 1']))
    state.nowMs = 10
    register(first, other, third)
    await eventually(() => expect(events.slice(2)).toEqual(['leave', 'consume 2']))
    expect([feeds.ready(), count(feeds, 'running'), count(feeds, 'paused')]).toEqual([true, 2, 1])
    state.partners = [partnerOf(first), partnerOf(third, 5), partnerOf(other)]
    await eventually(() => expect(events.slice(4)).toEqual([`stop ${third}`]))
    const pauses: unknown[] = []
    await consumers.at(-1)?.onDelivery({
      topic: topicOf(third),
      messages: [{ offset: 3n }],
      redeliver: (offset: bigint) => { pauses.push(offset) },
    } as unknown as FetchedBatch)
    expect(pauses).toEqual([3n])
    state.nowMs = 20
    await eventually(() => expect(events.slice(5)).toEqual(['leave', 'consume 1']))
    await feeds.stop()
  })

  it('batch changes that follow each other', async () => {
    const { state, events, feeds, register } = environment()
    register(first)
    await eventually(() => expect(events).toEqual(['consume 1']))
    register(first, second)
    await eventually(() => expect(count(feeds, 'failing')).toBe(1))
    register(first, second, third)
    await eventually(() => expect(count(feeds, 'failing')).toBe(2))
    expect(events).toEqual(['consume 1'])
    state.nowMs = 10
    await eventually(() => expect(events).toEqual(['consume 1', 'leave', 'consume 3']))
    await feeds.stop()
  })

  it('leave out a missing topic until it exists', async () => {
    const { state, events, feeds, register } = environment()
    register(first, second)
    state.topics.delete(topicOf(second))
    await eventually(() => expect(events).toEqual(['consume 1']))
    expect([feeds.ready(), count(feeds, 'running'), count(feeds, 'failing')]).toEqual([true, 1, 1])
    state.topics.add(topicOf(second))
    state.nowMs = 10
    await eventually(() => expect(events).toEqual(['consume 1', 'leave', 'consume 2']))
    expect(count(feeds, 'failing')).toBe(0)
    await feeds.stop()
  })

  it('start a failed consumer again, and no other one', async () => {
    const { state, events, consumers, feeds, register } = environment()
    register(first, other)
    await eventually(() => expect(consumers).toHaveLength(2))
    consumers.find(({ group }) => group === chooseFeedGroup(first))?.onFailed?.(new Error('crash'))
    expect([feeds.ready(), count(feeds, 'failing'), count(feeds, 'running')]).toEqual([true, 1, 1])
    state.nowMs = 1_000
    await eventually(() => expect(events.slice(2)).toEqual(['leave', 'consume 1']))
    expect(count(feeds, 'running')).toBe(2)
    await feeds.stop()
  })

  it('are not ready while Redis is unavailable, and recover', async () => {
    const { state, events, feeds } = environment()
    state.fails = new InfrastructureError('away')
    await eventually(() => expect(feeds.ready()).toBe(false))
    state.fails = undefined
    await eventually(() => expect(feeds.ready()).toBe(true))
    await feeds.stop()
    expect(events).toEqual([])
  })
})
