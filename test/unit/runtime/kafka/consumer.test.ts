import { EventEmitter, once } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import type { Kafka } from 'kafkajs'
import { describe, expect, it } from 'vitest'
import type { ConsumeOptions } from '../../../../services/runtime/kafka/bus.ts'
import {
  consumerDefaults, startConsumer, type ConsumerSettings,
} from '../../../../services/runtime/kafka/consumer.ts'

const events = {
  GROUP_JOIN: 'join',
  HEARTBEAT: 'heartbeat',
  REBALANCING: 'rebalancing',
  STOP: 'stop',
  CRASH: 'crash',
}

type Run = { readonly eachBatch: (payload: unknown) => Promise<void> }

/** A consumer of the client whose events come from the test, and the calls it received. */
function setUp (more: {
  readonly connect?: () => Promise<void>
  readonly settings?: Partial<ConsumerSettings>
  readonly onDelivery?: ConsumeOptions['onDelivery']
  readonly onFailed?: ConsumeOptions['onFailed']
  readonly fetchBatching?: ConsumeOptions['fetchBatching']
} = {}) {
  const client = new EventEmitter()
  const calls: Record<string, unknown> = {}
  const reported = {
    fatal: [] as unknown[],
    retries: [] as unknown[],
    pausesMs: [] as number[],
    assigned: 0,
    disconnected: 0,
  }
  const fake = {
    events,
    on: (name: string, listener: (event: unknown) => void) => client.on(name, listener),
    connect: more.connect ?? (async () => {}),
    subscribe: async (topics: unknown) => { calls.subscribe = topics },
    run: async (run: Run) => {
      calls.run = run
      client.emit('running')
    },
    disconnect: async () => { reported.disconnected++ },
  }
  const consumption = startConsumer({
    kafka: {
      consumer: (options: unknown) => {
        calls.consumer = options
        return fake
      },
    } as unknown as Kafka,
    consume: {
      group: 'settle.small',
      topics: ['rows.completed.small'],
      onAssigned: () => { reported.assigned++ },
      onFailed: more.onFailed,
      fetchBatching: more.fetchBatching,
      onDelivery: more.onDelivery ?? (async () => {}),
    },
    // However slow the machine is, only the test ends a session.
    settings: {
      ...consumerDefaults, sessionTimeoutMs: 600_000, stopTimeoutMs: 5, ...more.settings,
    },
    onFatal: error => { reported.fatal.push(error) },
    onRetry: error => { reported.retries.push(error) },
    sleep: async ms => { reported.pausesMs.push(ms) },
  })
  return { client, calls, reported, consumption, running: once(client, 'running') }
}

const batch = {
  batch: {
    topic: 'rows',
    partition: 0,
    fetchedOffset: '0',
    lastOffset: () => '0',
    messages: [{ offset: '0', key: null, value: null, timestamp: '5' }],
  },
  resolveOffset: () => {},
}

describe('a consumer', () => {
  it('configures the client by its settings, without automatic commits', async () => {
    const { calls, running, consumption } = setUp({ settings: consumerDefaults })
    await running
    expect(calls.consumer).toMatchObject({
      groupId: 'settle.small',
      sessionTimeout: 6_000,
      heartbeatInterval: 2_000,
      rebalanceTimeout: 10_000,
      maxWaitTimeInMs: 100,
      minBytes: 1,
      maxBytesPerPartition: 524_288,
      allowAutoTopicCreation: false,
    })
    expect(calls.subscribe).toEqual({ topics: ['rows.completed.small'], fromBeginning: true })
    expect(calls.run).toMatchObject({ autoCommit: false, eachBatchAutoResolve: false })
    await consumption.stop()
  })

  it('batches fetches as configured', async () => {
    const fetchBatching = { bytes: 9_000, maxWaitMs: 50 }
    const { calls, running, consumption } = setUp({ fetchBatching })
    await running
    expect(calls.consumer).toMatchObject({ maxWaitTimeInMs: 50, minBytes: 9_000 })
    await consumption.stop()
  })

  it('joins as soon as the brokers are available', async () => {
    const away = new Error('no broker')
    const answers = [Promise.reject(away), Promise.resolve()]
    const connect = async () => await answers.shift()
    const { reported, running, consumption } = setUp({ connect })
    await running
    expect([reported.retries, reported.fatal]).toEqual([[away], []])
    await consumption.stop()
  })

  it('is ready and delivers between join and stop', async () => {
    const delivered: bigint[] = []
    const { client, calls, reported, running, consumption } = setUp({
      onDelivery: async ({ messages }) => {
        delivered.push(...messages.map(({ offset }) => offset))
      },
    })
    await running
    expect(consumption.ready()).toBe(false)
    client.emit(events.GROUP_JOIN)
    await turn()
    expect([consumption.ready(), reported.assigned]).toEqual([true, 1])
    const { eachBatch } = calls.run as Run
    await eachBatch(batch)
    await eachBatch(batch)
    await turn()
    expect(delivered).toEqual([0n])
    await consumption.stop()
    expect([consumption.ready(), reported.disconnected]).toEqual([false, 1])
  })

  it('is not ready during a rebalance or after a session timeout', async () => {
    const { client, running, consumption } = setUp({ settings: { sessionTimeoutMs: 0 } })
    await running
    client.emit(events.GROUP_JOIN)
    await turn()
    expect(consumption.ready()).toBe(false)
    const other = setUp()
    await other.running
    other.client.emit(events.GROUP_JOIN)
    await turn()
    other.client.emit(events.REBALANCING)
    expect(other.consumption.ready()).toBe(false)
    other.client.emit(events.GROUP_JOIN)
    await turn()
    expect([other.consumption.ready(), other.reported.assigned]).toEqual([true, 2])
    await Promise.all([consumption.stop(), other.consumption.stop()])
  })

  it('fails only after a crash without a restart of the client', async () => {
    const { client, reported, running, consumption } = setUp()
    await running
    client.emit(events.CRASH, { payload: { restart: true, error: new Error('again') } })
    expect(reported.fatal).toEqual([])
    const error = new Error('for good')
    client.emit(events.CRASH, { payload: { restart: false, error } })
    expect(reported.fatal).toEqual([error])
    await consumption.stop()
  })

  it('restarts after the client lost the coordinator', async () => {
    const { client, reported, running, consumption } = setUp()
    await running
    const error = Object.assign(new Error('no coordinator'), {
      name: 'KafkaJSGroupCoordinatorNotFound', retriable: false,
    })
    const again = once(client, 'running')
    client.emit(events.CRASH, { payload: { restart: false, error } })
    await again
    expect([reported.fatal, reported.pausesMs]).toEqual([[], [300]])
    client.emit(events.GROUP_JOIN)
    await turn()
    expect(consumption.ready()).toBe(true)
    await consumption.stop()
    client.emit(events.CRASH, { payload: { restart: false, error } })
    expect(reported.disconnected).toBe(1)
  })

  it('restarts after an access error and reports it', async () => {
    const { client, reported, running, consumption } = setUp()
    await running
    const error = Object.assign(new Error('no'), { name: 'KafkaJSSASLAuthenticationError' })
    const again = once(client, 'running')
    client.emit(events.CRASH, { payload: { restart: false, error } })
    expect([reported.fatal, reported.retries]).toEqual([[], [error]])
    await again
    expect(reported.pausesMs).toEqual([2_000])
    client.emit(events.GROUP_JOIN)
    await turn()
    expect(consumption.ready()).toBe(true)
    await consumption.stop()
  })

  it('with onFailed does not stop the process', async () => {
    const failed: unknown[] = []
    const onFailed = (error: unknown) => { failed.push(error) }
    const { client, reported, running, consumption } = setUp({ onFailed })
    await running
    const error = new Error('Snappy compression not implemented')
    client.emit(events.CRASH, { payload: { restart: false, error } })
    expect([failed, reported.fatal]).toEqual([[error], []])
    await consumption.stop()
  })

  it('stops once and in time even if a handler never returns', async () => {
    const signals: AbortSignal[] = []
    const { client, calls, reported, running, consumption } = setUp({
      onDelivery: ({ signal }) => {
        signals.push(signal)
        return new Promise(() => {})
      },
    })
    await running
    client.emit(events.GROUP_JOIN)
    const { eachBatch } = calls.run as Run
    await eachBatch(batch)
    await eachBatch(batch)
    await turn()
    await Promise.all([consumption.stop(), consumption.stop()])
    expect([reported.disconnected, signals.map(signal => signal.aborted)]).toEqual([1, [true]])
    client.emit(events.CRASH, { payload: { restart: false, error: new Error('late') } })
    expect(reported.fatal).toEqual([])
  })
})
