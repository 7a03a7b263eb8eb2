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
    describeAgain(harness)
    describePauses(harness)
    describeSlowness(harness)
    describeLife(harness)
    describeLastValue(harness)
    describeFailure(harness)
  })
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
    const run = await record(bus, topics)
    await run.until(() => run.seen.length === 21)
    await run.consumption.stop()
    for (const topic of topics) {
      const values = valuesOf(run.seen.filter((message) => message.topic === topic))
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
    const run = await record(bus, [topic])
    await run.until(() => run.seen.length === 20)
    await run.consumption.stop()
    expect(run.seen).toHaveLength(20)
  })

  it('moves no offset without a commit', async () => {
    const topic = await createTopic(1)
    await bus.producer('uncommitted').send(numbered(topic, 12))
    const first = await record(bus, [topic])
    await first.until(() => first.seen.length === 12)
    await first.consumption.stop()
    const second = await record(bus, [topic], { group: first.group })
    await second.until(() => second.seen.length === 12)
    await second.consumption.stop()
    expect(offsetOf(second.seen[0])).toBe(0n)
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
    const second = await record(bus, [topic], { group: first.group })
    await second.until(() => second.seen.length === 9)
    await second.consumption.stop()
    expect(offsetOf(second.seen[0])).toBe(4n)
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

function describeAgain ({ bus, createTopic }: BusHarness): void {
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
}

function describePauses ({ bus, createTopic }: BusHarness): void {
  it('continues with other partitions while one pauses', async () => {
    const topic = await createTopic(2)
    let paused = -1
    let pauses = 0
    const over = Promise.withResolvers<void>()
    const handle: Handler = ({ partition, redeliver }) => {
      if (paused === -1) paused = partition
      if (partition !== paused) return
      pauses += 1
      if (pauses === 1) redeliver(0n, over.promise)
    }
    await bus.producer('beside').send(numbered(topic, 40))
    const run = await record(bus, [topic], { handle })
    await run.until(() => paused !== -1)
    await bus.producer('beside').send(numbered(topic, 40))
    const all = await record(bus, [topic])
    await all.until(() => all.seen.length === 80)
    await all.consumption.stop()
    const others = (messages: readonly RawMessage[]) =>
      messages.filter(({ partition }) => partition !== paused).length
    await run.until(() => others(run.seen) === others(all.seen))
    expect(others(run.seen)).toBeGreaterThan(0)
    expect(pauses).toBe(1)
    over.resolve()
    await run.until(() => distinct(run.seen) === 80)
    await run.consumption.stop()
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

function describeSlowness ({ bus, createTopic }: BusHarness): void {
  it('does not let a slow partition stop the others', async () => {
    const topic = await createTopic(2)
    const gate = Promise.withResolvers<void>()
    let slow = -1
    const handle: Handler = async ({ partition }) => {
      if (slow === -1) slow = partition
      if (partition === slow) await gate.promise
    }
    await bus.producer('slow').send(numbered(topic, 20))
    const run = await record(bus, [topic], { handle })
    await run.until(() => slow !== -1)
    await bus.producer('slow').send(numbered(topic, 20))
    const all = await record(bus, [topic])
    await all.until(() => all.seen.length === 40)
    await all.consumption.stop()
    const others = (messages: readonly RawMessage[]) =>
      messages.filter(({ partition }) => partition !== slow).length
    await run.until(() => others(run.seen) === others(all.seen))
    expect(others(run.seen)).toBeGreaterThan(0)
    expect(run.seen.length).toBeLessThan(40)
    gate.resolve()
    await run.until(() => run.seen.length === 40)
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
    const second = await record(bus, [topic], { group: run.group })
    await second.until(() => second.seen.length === 3)
    await second.consumption.stop()
    expect(second.events[0]).toBe('assigned')
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
    const second = await record(bus, [topic], { group: run.group })
    await second.until(() => second.seen.length === 3)
    await second.consumption.stop()
    expect(offsetOf(second.seen[0])).toBe(0n)
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
