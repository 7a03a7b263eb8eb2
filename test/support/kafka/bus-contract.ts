import { describe, expect, it } from 'vitest'
import type { Bus, FetchedBatch, RawMessage } from '../../../services/runtime/kafka/bus.ts'
import {
  after, distinct, numbered, offsetOf, record, valuesOf, type Handler,
} from './bus-record.ts'
import { eventually } from '../eventually.ts'

/** An adapter of the bus under test, and what the cases need around it. */
export type BusHarness = {
  readonly bus: Bus
  /** What the adapter gave to its `onFatal`. */
  readonly fatal: readonly unknown[]
  readonly createTopic: (partitions: number) => Promise<string>
}

/** What the engine relies on. Every adapter of the bus has to pass it in its environment. */
export function describeBusContract (name: string, harness: BusHarness): void {
  describe(`bus contract: ${name}`, () => {
    describeSending(harness)
    describeMessages(harness)
    describeOffsets(harness)
    describeMembers(harness)
    describeRedelivery(harness)
    describePartitions(harness)
    describeLife(harness)
    describeLastValue(harness)
    describeFailure(harness)
  })
}

/** Consumes so many messages and stops. */
async function readAll (
  bus: Bus, topics: readonly string[], count: number, more?: Parameters<typeof record>[2]
) {
  const run = await record(bus, topics, more)
  await run.until(() => run.seen.length === count)
  await run.consumption.stop()
  return run
}

function describeSending ({ bus, createTopic }: BusHarness): void {
  it('keeps the order of a key and loses nothing', async () => {
    const topic = await createTopic(4)
    const run = await record(bus, [topic])
    const messages = numbered(topic, 300, 10)
    const sends = Array.from({ length: 30 }, (_, index) =>
      bus.producer('order').send(messages.slice(index * 10, index * 10 + 10)))
    await Promise.all(sends)
    await run.until(() => run.seen.length === 300)
    await run.consumption.stop()
    for (let key = 0; key < 10; key++) {
      const ofKey = run.seen.filter((message) => String(message.key) === `key-${key}`)
      const expected = Array.from({ length: 30 }, (_, index) => `${index * 10 + key}`)
      expect(valuesOf(ofKey)).toEqual(expected)
    }
    for (let partition = 0; partition < 4; partition++) {
      const offsets = run.seen.filter((message) => message.partition === partition)
        .map(({ offset }) => offset)
      expect(offsets).toEqual(offsets.map((_, index) => BigInt(index)))
    }
  })

  it('sends one batch to several topics', async () => {
    const topics = [await createTopic(1), await createTopic(2), await createTopic(1)]
    await bus.producer('several').send(topics.flatMap((topic) => numbered(topic, 7)))
    const { seen } = await readAll(bus, topics, 21)
    for (const topic of topics) {
      const values = valuesOf(seen.filter((message) => message.topic === topic))
      expect(values.toSorted()).toEqual(['0', '1', '2', '3', '4', '5', '6'])
    }
  })
}

function describeMessages ({ bus, createTopic }: BusHarness): void {
  it('carries tombstones, bytes and headers as they are', async () => {
    const topic = await createTopic(1)
    const value = Buffer.from([0, 255, 128, 7])
    const headers = { tenant: 'ä tenant', rows: 'AAE=' }
    const beforeMs = Date.now()
    await bus.producer('bytes').send([
      { topic, key: 'first', value: null, headers: {} },
      { topic, key: 'ünd', value, headers },
    ])
    const afterMs = Date.now()
    const run = await record(bus, [topic])
    await run.until(() => run.seen.length === 2)
    await run.consumption.stop()
    const [first, second] = run.seen
    expect(first).toMatchObject({ topic, partition: 0, offset: 0n, value: null, headers: {} })
    expect(second).toMatchObject({ topic, partition: 0, offset: 1n, value, headers })
    expect(String(second?.key)).toBe('ünd')
    expect(second?.timestampMs).toBeGreaterThanOrEqual(beforeMs)
    expect(second?.timestampMs).toBeLessThanOrEqual(afterMs)
  })

  it('refuses a message without a key', async () => {
    const topic = await createTopic(1)
    const send = bus.producer('keyless').send([{ topic, key: '', value: null, headers: {} }])
    await expect(send).rejects.toThrow('no key')
  })
}

function describeOffsets ({ bus, createTopic }: BusHarness): void {
  it('starts a new group at the beginning', async () => {
    const topic = await createTopic(2)
    await bus.producer('early').send(numbered(topic, 20))
    expect((await readAll(bus, [topic], 20)).seen).toHaveLength(20)
  })

  it('moves no offset without a commit', async () => {
    const topic = await createTopic(1)
    await bus.producer('uncommitted').send(numbered(topic, 12))
    const { group } = await readAll(bus, [topic], 12)
    const { seen } = await readAll(bus, [topic], 12, { group })
    expect(offsetOf(seen[0])).toBe(0n)
  })

  it('continues after a restart from an explicit lower commit', async () => {
    const topic = await createTopic(1)
    await bus.producer('lower').send(numbered(topic, 12))
    let committed = false
    const handle: Handler = async ({ messages, commit }) => {
      if (after(messages) !== 12n) return
      commit(4n)
      committed = true
    }
    const first = await record(bus, [topic], { handle })
    await first.until(() => committed)
    await bus.producer('lower').send(numbered(topic, 1))
    await first.until(() => first.seen.length === 13)
    await first.consumption.stop()
    expect(first.seen.map(({ offset }) => Number(offset))).toEqual([...Array(13).keys()])
    const { seen } = await readAll(bus, [topic], 9, { group: first.group })
    expect(offsetOf(seen[0])).toBe(4n)
  })
}

function describeMembers ({ bus, createTopic }: BusHarness): void {
  it('shares partitions with a second member and hands it what was not committed', async () => {
    const topic = await createTopic(4)
    const handle: Handler = async ({ messages, commit }) => {
      commit(after(messages))
    }
    const first = await record(bus, [topic])
    await bus.producer('shared').send(numbered(topic, 40))
    await first.until(() => first.seen.length === 40)
    const second = await record(bus, [topic], { group: first.group, handle })
    const half = () => new Set(second.seen.map(({ partition }) => partition)).size === 2
    await second.until(() => half() && second.events[0] === 'assigned')
    const generations = () => first.events.filter((event) => event === 'assigned').length
    await first.until(() => generations() > 1)
    await first.consumption.stop()
    const keys = () => new Set(second.seen.map(({ headers }) => headers.index)).size
    await second.until(() => keys() === 40)
    await second.consumption.stop()
    expect(keys()).toBe(40)
  })
}

function describeRedelivery ({ bus, createTopic }: BusHarness): void {
  it('hands over again from an offset, not before the pause is over', async () => {
    const topic = await createTopic(1)
    const afterMs = 300
    const times: number[] = []
    let fromOffset = 0n
    const handle: Handler = ({ messages, redeliver }) => {
      times.push(performance.now())
      if (times.length > 1) return
      fromOffset = messages.length > 2 ? 2n : 0n
      redeliver(fromOffset, afterMs)
    }
    await bus.producer('again').send(numbered(topic, 40))
    const run = await record(bus, [topic], { handle })
    await run.until(() => times.length > 1 && distinct(run.seen) === 40)
    await run.consumption.stop()
    const offsets = run.seen.map(({ offset }) => offset)
    const redelivered = offsets.slice(offsets.lastIndexOf(fromOffset))
    expect(redelivered).toEqual(redelivered.map((_, index) => fromOffset + BigInt(index)))
    // A timer may end a part of a millisecond early.
    expect((times[1] ?? 0) - (times[0] ?? 0)).toBeGreaterThan(afterMs - 2)
  })

  it('redelivers after the end of a delivery too', async () => {
    const topic = await createTopic(1)
    const deliveries: FetchedBatch[] = []
    const handle: Handler = (delivery) => { deliveries.push(delivery) }
    await bus.producer('later').send(numbered(topic, 5))
    const run = await record(bus, [topic], { handle })
    await run.until(() => run.seen.length === 5)
    deliveries.at(-1)?.redeliver(1n, 0)
    await run.until(() => run.seen.length === 9)
    await run.consumption.stop()
    expect(run.seen.slice(5).map(({ offset }) => Number(offset))).toEqual([1, 2, 3, 4])
  })
}

/** The first partition that is delivered waits for a gate, in its handler or for a redelivery. */
function describePartitions ({ bus, createTopic }: BusHarness): void {
  it.each(['a slow handler', 'a redelivery'] as const)(
    'continues with other partitions while one waits for %s', async cause => {
      const topic = await createTopic(2)
      const gate = Promise.withResolvers<void>()
      let waiting = -1
      let deliveries = 0
      const handle: Handler = async ({ partition, redeliver }) => {
        if (waiting === -1) waiting = partition
        if (partition !== waiting) return
        deliveries += 1
        if (cause === 'a slow handler') await gate.promise
        else if (deliveries === 1) redeliver(0n, gate.promise)
      }
      await bus.producer('beside').send(numbered(topic, 40))
      const run = await record(bus, [topic], { handle })
      await run.until(() => waiting !== -1)
      await bus.producer('beside').send(numbered(topic, 40))
      const all = await readAll(bus, [topic], 80)
      const others = (messages: readonly RawMessage[]) =>
        messages.filter(({ partition }) => partition !== waiting).length
      await run.until(() => others(run.seen) === others(all.seen))
      expect([others(run.seen) > 0, deliveries]).toEqual([true, 1])
      expect(run.seen.length).toBeLessThan(80)
      gate.resolve()
      await run.until(() => distinct(run.seen) === 80)
      await run.consumption.stop()
    })
}

function describeLife ({ bus, createTopic, fatal }: BusHarness): void {
  it('announces a generation before its first delivery, and again after a restart', async () => {
    const topic = await createTopic(1)
    await bus.producer('assigned').send(numbered(topic, 3))
    const run = await record(bus, [topic])
    await run.until(() => run.seen.length === 3)
    expect(run.events.indexOf('assigned')).toBe(0)
    expect(run.consumption.ready()).toBe(true)
    await run.consumption.stop()
    expect(run.consumption.ready()).toBe(false)
    const { events } = await readAll(bus, [topic], 3, { group: run.group })
    expect(events[0]).toBe('assigned')
  })

  it('aborts the signal when it stops, waits for the handler, and commits no more', async () => {
    const topic = await createTopic(1)
    await bus.producer('stop').send(numbered(topic, 3))
    const before = fatal.length
    let returned = false
    const handle: Handler = async ({ signal, commit }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      commit(3n)
      returned = true
      throw new Error('A handler whose partition is lost may throw.')
    }
    const run = await record(bus, [topic], { handle })
    await run.until(() => run.seen.length > 0)
    await run.consumption.stop()
    expect(returned).toBe(true)
    expect(fatal.length).toBe(before)
    const { seen } = await readAll(bus, [topic], 3, { group: run.group })
    expect(offsetOf(seen[0])).toBe(0n)
  })
}

function describeFailure ({ bus, createTopic, fatal }: BusHarness): void {
  it('calls a rejected handler fatal and delivers nothing more', async () => {
    const topic = await createTopic(1)
    const failure = new Error('It cannot heal.')
    const handle: Handler = () => { throw failure }
    const run = await record(bus, [topic], { handle })
    await bus.producer('fatal').send(numbered(topic, 3))
    await eventually(() => expect(fatal).toContain(failure))
    const delivered = run.seen.length
    await bus.producer('fatal').send(numbered(topic, 3))
    expect(run.consumption.ready()).toBe(false)
    await run.consumption.stop()
    expect(run.seen.length).toBe(delivered)
  })
}

function describeLastValue ({ bus, createTopic }: BusHarness): void {
  it('finds the newest value of a key, whatever partition it is in', async () => {
    const topic = await createTopic(3)
    expect(await bus.lastValue(topic, 'key-1')).toBeUndefined()
    await bus.producer('last').send([
      ...numbered(topic, 40, 7),
      { topic, key: 'gone', value: Buffer.from('was'), headers: {} },
      { topic, key: 'gone', value: null, headers: {} },
    ])
    const keys = ['key-0', 'key-1', 'key-4', 'key-5', 'gone', 'never']
    const found = await Promise.all(keys.map((key) => bus.lastValue(topic, key)))
    expect(found.map((value) => value?.toString()))
      .toEqual(['35', '36', '39', '33', undefined, undefined])
    await bus.producer('last').send([
      { topic, key: 'key-1', value: Buffer.from('new'), headers: {} },
    ])
    expect(String(await bus.lastValue(topic, 'key-1'))).toBe('new')
  })
}
