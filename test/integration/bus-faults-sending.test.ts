import { expect, it } from 'vitest'
import {
  describeBusFaults, type FaultLink, type OnLink,
} from '../support/kafka/bus-fault-environment.ts'
import type { OutgoingMessage, RawMessage } from '../../services/runtime/kafka/bus.ts'
import { valuesOf } from '../support/kafka/bus-record.ts'
import type { ProxyFault } from '../support/kafka/proxy.ts'

type Case = readonly [name: string, ...faults: readonly ProxyFault[]]

/** A fault at the first request of its kind, or as its other fields say. */
const fault = (
  api: ProxyFault['api'], what: ProxyFault['what'], other?: Partial<ProxyFault>,
): ProxyFault => ({ api, what, ...other })

/** After each of them every message is there once, in the order of its key. */
const HEALED: readonly Case[] = [
  ['the answer to a send is lost', fault('Produce', 'lose answer')],
  ['the answer is lost two times, once to the repetition',
    fault('Produce', 'lose answer', { times: 2 })],
  ['a send is lost', fault('Produce', 'lose request')],
  ['a send is lost, and then the answer to its repetition',
    fault('Produce', 'lose request'), fault('Produce', 'lose answer')],
  ['the connection is reset in the middle of a send', fault('Produce', 'cut in request')],
  ['the connection is reset between a send and its answer', fault('Produce', 'cut before answer')],
  ['a broker does not lead the partition any longer',
    fault('Produce', 'refuse', { error: 'NOT_LEADER_OR_FOLLOWER', times: 2 })],
  ['a broker does not know the topic yet',
    fault('Produce', 'refuse', { error: 'UNKNOWN_TOPIC_OR_PARTITION' })],
  ['too few replicas are there for a moment',
    fault('Produce', 'refuse', { error: 'NOT_ENOUGH_REPLICAS', times: 3 })],
]

/** These faults hit the start of a producer, before anything of it is acknowledged. */
const BEGINNING: readonly Case[] = [
  ['the id of a producer', fault('InitProducerId', 'lose answer')],
  ['what a new connection can do', fault('ApiVersions', 'lose answer')],
  ['where the partitions are', fault('Metadata', 'lose answer')],
]

/** Faults by which sends could be lost, duplicated or reordered. */
function describeSendingFaults (onLink: OnLink): void {
  for (const [name, ...faults] of HEALED) {
    it(`keeps one send whole when ${name}`, onLink(async link => {
      const run = await begin(link)
      await run.send('warm')
      const injected = faults.map(fault => link.proxy.inject(fault))
      await run.send('faulty')
      await run.send('after')
      await Promise.all(injected.map(({ done }) => done))
      await run.check(['warm', 'faulty', 'after'])
    }))
  }
  for (const [name, ...faults] of HEALED.slice(0, 6)) {
    it(`keeps overlapping sends whole when ${name}`, onLink(async link => {
      const run = await begin(link)
      await run.send('warm')
      const injected = faults.map(fault => link.proxy.inject(fault))
      await Promise.all(['faulty', 'beside', 'behind'].map(run.send))
      await run.send('after')
      await Promise.all(injected.map(({ done }) => done))
      await run.check(['warm', 'faulty', 'beside', 'behind', 'after'])
    }))
  }
  for (const [name, ...faults] of BEGINNING) {
    it(`starts to send although the response with ${name} is lost`, onLink(async link => {
      const run = await begin(link)
      const injected = faults.map(fault => link.proxy.inject(fault))
      await Promise.all(['first', 'second'].map(run.send))
      await Promise.all(injected.map(({ done }) => done))
      await run.check(['first', 'second'])
    }))
  }
  describeRejections(onLink)
  describeSlowSends(onLink)
}

const KEYS = 5

/** Sends named calls, each with a message for every key, and checks what arrived. */
async function begin (link: FaultLink) {
  const topic = await link.createTopic(3)
  const messages = (call: string): OutgoingMessage[] => Array.from({ length: KEYS }, (_, key) => ({
    topic, key: `key-${key}`, value: Buffer.from(call), headers: {},
  }))
  return {
    topic,
    messages,
    send: (call: string) => link.bus.producer('faulty').send(messages(call)),
    check: async (calls: readonly string[]) => {
      const found = await link.contents(topic)
      for (let key = 0; key < KEYS; key++) {
        expect(valuesOf(ofKey(found, `key-${key}`)), `the messages of key ${key}`).toEqual(calls)
      }
    },
  }
}

const ofKey = (messages: readonly RawMessage[], wanted: string) =>
  messages.filter(({ key }) => String(key) === wanted)

function describeRejections (onLink: OnLink): void {
  it('throws a producer away that was rejected, and loses nothing of what follows',
    onLink(async link => {
      const run = await begin(link)
      await run.send('warm')
      const requestsBefore = link.proxy.traffic('InitProducerId').requests
      const rejected = link.proxy.inject(
        { api: 'Produce', what: 'refuse', error: 'OUT_OF_ORDER_SEQUENCE_NUMBER' })
      await Promise.all(['faulty', 'beside'].map(run.send))
      await run.send('after')
      expect(rejected.count()).toBe(1)
      expect(link.proxy.traffic('InitProducerId').requests).toBe(requestsBefore + 1)
      await run.check(['warm', 'faulty', 'beside', 'after'])
    }))

  it('refuses a message that is too big before it sends anything of it', onLink(async link => {
    const run = await begin(link)
    await run.send('warm')
    const { requests } = link.proxy.traffic('Produce')
    const big = { ...run.messages('big')[0], value: Buffer.alloc(3_000_000) } as OutgoingMessage
    const sent = link.bus.producer('faulty').send([...run.messages('beside'), big])
    await expect(sent).rejects.toThrow(/bytes, (the maximum is|more than the broker accepts)/)
    expect(link.proxy.traffic('Produce').requests).toBe(requests)
    await run.send('after')
    await run.check(['warm', 'after'])
  }))
}

const CALL_BYTES = 100_000
/** One request may be so large, whatever waits. */
const REQUEST_BYTES = 1_100_000

/** A late request is not sent again. */
const PATIENT = { requestTimeoutMs: 300_000 }

function describeSlowSends (onLink: OnLink): void {
  it('holds back what a slow broker has not answered: one request of bounded size at a time',
    onLink(async link => {
      const topic = await link.createTopic(1)
      const slow = link.proxy.inject(
        { api: 'Produce', what: 'delay answer', delayMs: 100, times: Infinity })
      const calls = Array.from({ length: 60 }, (_, call) => `${call}`.padEnd(CALL_BYTES, '.'))
      const aborted = new AbortController()
      const sends = calls.map((call, index) => link.bus.producer('slow').send(
        [{ topic, key: 'key', value: Buffer.from(call), headers: {} }],
        index === 50 ? aborted.signal : undefined))
      aborted.abort(new Error('No longer wanted.'))
      const ends = await Promise.allSettled(sends)
      slow.end()
      const traffic = link.proxy.traffic('Produce')
      expect(traffic.mostWaiting).toBe(1)
      expect(traffic.largestRequestBytes).toBeLessThan(REQUEST_BYTES)
      expect(ends.flatMap(({ status }, index) => status === 'rejected' ? [index] : []))
        .toEqual([50])
      const found = valuesOf(await link.contents(topic)).map(value => Number.parseInt(value, 10))
      expect(found).toEqual([...calls.keys()].filter(call => call !== 50))
    }, PATIENT))
}

await describeBusFaults(describeSendingFaults)
