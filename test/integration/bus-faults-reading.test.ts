import { expect, it } from 'vitest'
import {
  describeBusFaults, type FaultLink, type OnLink,
} from '../support/kafka/bus-fault-environment.ts'
import {
  after, distinct, numbered, record, valuesOf, type Handler,
} from '../support/kafka/bus-record.ts'
import { eventually } from '../support/eventually.ts'
import type { ProxyFault } from '../support/kafka/proxy.ts'

/** A fetch that brings messages is larger than this, one without is not. */
const answerBytes = 600

type Case = readonly [name: string, ...faults: readonly ProxyFault[]]

/** A fault at the first request of its kind, or as its other fields say. */
const fault = (
  api: ProxyFault['api'], what: ProxyFault['what'], other?: Partial<ProxyFault>,
): ProxyFault => ({ api, what, ...other })

const LOSSES: readonly Case[] = [
  ['a fetch with messages is lost', fault('Fetch', 'lose answer', { answerBytes })],
  ['two fetches with messages are lost', fault('Fetch', 'lose answer', { answerBytes, times: 2 })],
  ['the request of a fetch is lost', fault('Fetch', 'lose request')],
  ['the connection is reset instead of a fetch',
    fault('Fetch', 'cut before answer', { answerBytes, times: 2 })],
  ['the leader moves', fault('Fetch', 'refuse', { error: 'NOT_LEADER_OR_FOLLOWER' })],
  ['the answer to a commit is lost', fault('OffsetCommit', 'lose answer')],
  ['a commit is lost', fault('OffsetCommit', 'lose request')],
  ['the connection is reset between a commit and its answer',
    fault('OffsetCommit', 'cut before answer')],
  ['the coordinator of the group says once that it is none',
    fault('OffsetCommit', 'refuse', { error: 'NOT_COORDINATOR' })],
  ['the answer with the committed offsets of the group is lost',
    fault('OffsetFetch', 'lose answer')],
]

const MESSAGES = 40

/** Faults by which reads could skip messages and commits could be lost. */
function describeReadingFaults (onLink: OnLink): void {
  for (const [name, ...faults] of LOSSES) {
    it(`delivers and commits everything although ${name}`, onLink(async link => {
      const topic = await link.createTopic(2)
      const handle: Handler = async ({ messages, commit }) => {
        // A commit may be lost when the group rebalanced meanwhile; then all comes again.
        commit(after(messages))
      }
      const injected = faults.map(fault => link.proxy.inject(fault))
      const run = await record(link.bus, [topic], { handle })
      await link.bus.producer('reading').send(numbered(topic, MESSAGES))
      await run.until(() => distinct(run.seen) === MESSAGES)
      await Promise.all(injected.map(({ done }) => done))
      await link.bus.producer('reading').send(numbered(topic, MESSAGES))
      await run.until(() => distinct(run.seen) === 2 * MESSAGES)
      await untilCommitted(link, run.group, topic)
      expectNoGap(run.events)
      expect(link.fatal).toEqual([])
      await run.consumption.stop()
    }))
  }

  describeSlowReads(onLink)
  describeSearches(onLink)
}

/** The broker holds a fetch, and all readers wait for it, longer than any test takes. */
const HELD = {
  maxWaitMs: 3_600_000, requestTimeoutMs: 3_600_000, sessionTimeoutMs: 300_000,
}
const LONE = 10

function describeSlowReads (onLink: OnLink): void {
  it('is handed a lone message by a fetch that waits for it, each by a send of its own',
    onLink(async link => {
      const topic = await link.createTopic(1)
      const run = await record(link.bus, [topic])
      const fetches = () => link.proxy.traffic('Fetch')
      for (const [index, message] of numbered(topic, LONE).entries()) {
        await eventually(() => expect(fetches().requests - fetches().answers).toBe(1))
        await link.bus.producer('lone').send([message])
        await run.until(() => run.seen.length > index)
      }
      expect(valuesOf(run.seen)).toEqual([...Array(LONE).keys()].map(String))
      expect(link.proxy.traffic('Produce').requests).toBe(LONE)
      // A fetch may be answered with nothing a moment before the message may be read.
      expect(fetches().requests).toBeLessThanOrEqual(2 * LONE + 1)
      await run.consumption.stop()
    }, HELD))

  it('fetches no further ahead of a slow handler than is bounded', onLink(async link => {
    const topic = await link.createTopic(1)
    const gate = Promise.withResolvers<void>()
    const run = await record(link.bus, [topic], {
      handle: async () => {
        await gate.promise
      },
    })
    const large = (index: number) =>
      ({ topic, key: 'key', value: Buffer.alloc(100_000, `${index} `), headers: {} })
    for (let index = 0; index < 50; index++) await link.bus.producer('ahead').send([large(index)])
    await run.until(() => run.seen.length > 0)
    await link.bus.producer('ahead').send([large(50)])
    // Nothing reports that no further fetch comes, so a few of the broker's waits are let pass.
    await eventually(() =>
      expect(link.proxy.traffic('Heartbeat').requests).toBeGreaterThan(3))
    expect(link.proxy.traffic('Fetch').answerBytes).toBeLessThan(2_500_000)
    gate.resolve()
    await run.until(() => run.seen.length === 51)
    await run.consumption.stop()
  }))
}

function describeSearches (onLink: OnLink): void {
  for (const api of ['Metadata', 'ListOffsets', 'Fetch'] as const) {
    it(`never takes a value for missing because the answer to ${api} is lost`,
      onLink(async link => {
        const topic = await link.createTopic(2)
        await link.bus.producer('last').send(numbered(topic, MESSAGES, 7))
        const lost = link.proxy.inject({ api, what: 'lose answer', client: 'bus-fault-test.last' })
        expect(String(await link.bus.lastValue(topic, 'key-3'))).toBe('38')
        expect(lost.count()).toBe(1)
      }))
  }

  it('waits for a coordinator that still loads', onLink(async link => {
    const topic = await link.createTopic(2)
    await link.bus.producer('last').send(numbered(topic, MESSAGES, 7))
    const loading = link.proxy.inject(
      { api: 'JoinGroup', what: 'refuse', error: 'COORDINATOR_LOAD_IN_PROGRESS', times: 2 })
    expect(String(await link.bus.lastValue(topic, 'key-3'))).toBe('38')
    expect(loading.count()).toBe(2)
  }))
}

/** Resolves when nothing is left to be read for the group. */
async function untilCommitted (link: FaultLink, group: string, topic: string): Promise<void> {
  const contents = await link.contents(topic)
  const ends = [0, 1].map(partition =>
    contents.filter(message => message.partition === partition).length)
  await eventually(async () => expect(await link.committed(group, topic)).toEqual(ends))
}

/** Within one generation each partition is delivered without gap, repetition or step back. */
function expectNoGap (events: Awaited<ReturnType<typeof record>>['events']): void {
  const positions = new Map<number, bigint>()
  for (const event of events) {
    if (event === 'assigned') positions.clear()
    else {
      const position = positions.get(event.partition)
      if (position !== undefined) expect(event.offset).toBe(position + 1n)
      positions.set(event.partition, event.offset)
    }
  }
}

await describeBusFaults(describeReadingFaults)
