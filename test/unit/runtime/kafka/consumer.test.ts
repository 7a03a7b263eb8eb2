import { EventEmitter, once } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import type { EachBatchPayload, Kafka, KafkaMessage, Offsets } from 'kafkajs'
import { afterEach, describe, expect, it } from 'vitest'
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
const consumptions: Awaited<ReturnType<typeof startConsumer>>[] = []
afterEach(() => Promise.all(consumptions.splice(0).map(consumption => consumption.stop())))

type Run = { readonly eachBatch: (payload: EachBatchPayload) => Promise<void> }

type Options = Partial<Omit<ConsumeOptions, 'group' | 'topics'>> & {
  readonly connect?: () => Promise<void>
  readonly settings?: Partial<ConsumerSettings>
  /** What the requests with commits meet first. */
  readonly commitFailures?: readonly unknown[]
}

type Fetch = {
  readonly partition?: number
  readonly fetchedOffset?: number
  readonly bytes?: number
  readonly message?: Partial<KafkaMessage>
  readonly error?: unknown
}

/** Makes fetched batches; notes the positions, pauses and commits that the client receives. */
function payloads (noted: string[], commitFailures: readonly unknown[]) {
  const failures = [...commitFailures]
  return (
    offsets: readonly number[],
    { partition = 0, fetchedOffset = offsets[0] ?? 0, bytes = 1, message, error }: Fetch = {}
  ) => ({
    batch: {
      error,
      topic: 'rows',
      partition,
      fetchedOffset: String(fetchedOffset),
      lastOffset: () => String(offsets.at(-1)),
      messages: offsets.map(offset => ({
        offset: String(offset), key: null, value: Buffer.alloc(bytes), timestamp: '5', ...message,
      })),
    },
    resolveOffset: (offset: string) => { noted.push(`resolve ${offset}`) },
    pause: () => {
      noted.push('pause')
      return () => { noted.push('resume') }
    },
    commitOffsetsIfNecessary: async ({ topics }: Offsets) => {
      noted.push(`commit ${topics.flatMap(({ partitions }) => partitions)
        .map(commit => `${commit.partition}:${commit.offset}`).join(' ')}`)
      const failure = failures.shift()
      // While a request is under way, further commits may be added.
      await turn()
      if (failure !== undefined) throw failure
    },
  }) as unknown as EachBatchPayload
}

/** A consumer on a client whose events come from the test. `noted` has what happened, in order. */
async function setUp ({ connect, settings, commitFailures = [], ...consume }: Options = {}) {
  const client = new EventEmitter()
  const calls: Record<string, unknown> = {}
  const noted: string[] = []
  const reported = {
    fatal: [] as unknown[],
    retries: [] as unknown[],
    commits: [] as unknown[],
    pausesMs: [] as number[],
    disconnected: 0,
  }
  const running = once(client, 'running')
  const fake = {
    events,
    on: (name: string, listener: (event: unknown) => void) => client.on(name, listener),
    connect: connect ?? (async () => {}),
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
      topics: ['rows'],
      onAssigned: () => { noted.push('assigned') },
      onDelivery: async ({ partition, messages }) => {
        noted.push(`${partition}: ${messages.map(({ offset }) => offset).join()}`)
      },
      ...consume,
    },
    // However slow the machine is, only the test ends a session.
    settings: {
      ...consumerDefaults, sessionTimeoutMs: 600_000, stopTimeoutMs: 500, ...settings,
    },
    onFatal: error => { reported.fatal.push(error) },
    onRetry: error => { reported.retries.push(error) },
    onCommitFailed: error => { reported.commits.push(error) },
    sleep: async ms => { reported.pausesMs.push(ms) },
  })
  consumptions.push(consumption)
  await running
  const payloadOf = payloads(noted, commitFailures)
  const fetch = (offsets: readonly number[], more?: Fetch) =>
    (calls.run as Run).eachBatch(payloadOf(offsets, more))
  /** The first position of a partition is trusted when two fetches confirm it. */
  const take = async (offsets: readonly number[], more: Fetch = {}) =>
    await Promise.all([fetch(offsets, more), fetch(offsets, more)])
  const join = async () => {
    client.emit(events.GROUP_JOIN)
    await turn()
  }
  const crash = (error: unknown, restart = false) =>
    client.emit(events.CRASH, { payload: { restart, error } })
  return { client, calls, noted, reported, consumption, fetch, take, join, crash }
}

/** What was assigned, delivered and paused, without positions. */
const delivered = (noted: readonly string[]) => noted.filter(text => !text.startsWith('resolve'))

describe('a consumer', () => {
  it('joins as soon as the brokers are available, and is ready while it is a member', async () => {
    const away = new Error('no broker')
    const answers = [Promise.reject(away), Promise.resolve()]
    const connect = async () => await answers.shift()
    const { client, reported, consumption, join } = await setUp({ connect })
    expect([reported.retries, reported.fatal, consumption.ready()]).toEqual([[away], [], false])
    await join()
    expect(consumption.ready()).toBe(true)
    client.emit(events.REBALANCING)
    expect(consumption.ready()).toBe(false)
    await join()
    expect(consumption.ready()).toBe(true)
    await consumption.stop()
    expect([consumption.ready(), reported.disconnected]).toEqual([false, 1])
  })

  it('is not ready after a session without a heartbeat', async () => {
    const { client, consumption, join } = await setUp({ settings: { sessionTimeoutMs: -1 } })
    await join()
    client.emit(events.HEARTBEAT)
    expect(consumption.ready()).toBe(false)
  })

  it('fails only after a crash without a restart of the client', async () => {
    const { reported, crash } = await setUp()
    crash(new Error('again'), true)
    expect(reported.fatal).toEqual([])
    crash(new Error('for good'))
    expect(reported.fatal).toEqual([new Error('for good')])
  })

  it.each([true, false])('does not join when it is stopped while it connects: %s', async works => {
    const connecting = Promise.withResolvers<void>()
    const connected = Promise.withResolvers<void>()
    let connections = 0
    const { consumption, calls, reported, crash } = await setUp({
      connect: async () => {
        if (connections++ === 0) return
        connecting.resolve()
        await connected.promise
      },
    })
    delete calls.run
    crash(Object.assign(new Error('no'), { name: 'KafkaJSGroupCoordinatorNotFound' }))
    await connecting.promise
    await consumption.stop()
    if (works) connected.resolve()
    else connected.reject(new Error('no broker'))
    await turn()
    expect([calls.run, reported.disconnected]).toEqual([undefined, 2])
  })

  it.each([
    ['KafkaJSGroupCoordinatorNotFound', 300, 0], ['KafkaJSSASLAuthenticationError', 2_000, 1],
  ])('restarts after %s, in %i ms', async (name, pauseMs, reports) => {
    const { client, reported, consumption, join, crash } = await setUp()
    const again = once(client, 'running')
    crash(Object.assign(new Error('no'), { name, retriable: false }))
    await again
    expect([reported.fatal, reported.pausesMs]).toEqual([[], [pauseMs]])
    expect(reported.retries).toHaveLength(reports)
    await join()
    expect(consumption.ready()).toBe(true)
    await consumption.stop()
    crash(new Error('late'))
    expect([reported.fatal, reported.disconnected]).toEqual([[], 1])
  })

  it('with onFailed does not stop the process', async () => {
    const failed: unknown[] = []
    const { reported, crash } =
      await setUp({ onFailed: error => { failed.push(error) } })
    const error = new Error('Snappy compression not implemented')
    crash(error)
    expect([failed, reported.fatal]).toEqual([[error], []])
  })

  it('stops once and in time even if a handler never returns', async () => {
    const signals: AbortSignal[] = []
    const { reported, consumption, join, take } = await setUp({
      settings: { stopTimeoutMs: 5 },
      onDelivery: ({ signal }) => {
        signals.push(signal)
        return new Promise(() => {})
      },
    })
    await join()
    await take([0])
    await turn()
    await Promise.all([consumption.stop(), consumption.stop()])
    expect([reported.disconnected, signals.map(signal => signal.aborted)]).toEqual([1, [true]])
  })
})

describe('a generation of a group', () => {
  /** A consumer whose first delivery lasts until `free`. */
  async function setUpHeld () {
    const held = Promise.withResolvers<void>()
    const consumer = await setUp({
      settings: { maxBufferedBytes: 1_000 },
      onDelivery: async ({ partition, messages }) => {
        consumer.noted.push(`${partition}: ${messages.map(({ offset }) => offset).join()}`)
        await held.promise
      },
    })
    await consumer.join()
    await consumer.take([0])
    await turn()
    return { ...consumer, free: () => { held.resolve() } }
  }

  it('starts after the previous one has ended, and delivers nothing before', async () => {
    const { consumption, noted, join, take, free } = await setUpHeld()
    await join()
    await take([7], { partition: 1 })
    await turn()
    expect([delivered(noted), consumption.ready()]).toEqual([['assigned', '0: 0'], false])
    free()
    await turn()
    expect(delivered(noted)).toEqual(['assigned', '0: 0', 'assigned', '1: 7'])
    expect(consumption.ready()).toBe(true)
  })

  it('that ends before it starts assigns and delivers nothing', async () => {
    const { client, noted, reported, join, take, free } = await setUpHeld()
    await join()
    await take([7], { partition: 1 })
    client.emit(events.REBALANCING)
    free()
    await turn()
    expect([delivered(noted), reported.fatal]).toEqual([['assigned', '0: 0'], []])
  })

  it('ends when its handlers have returned, and resumes its partitions', async () => {
    const { consumption, noted, fetch, free } = await setUpHeld()
    await fetch([1], { bytes: 1_000 })
    const stopped = consumption.stop().then(() => { noted.push('stopped') })
    await turn()
    expect(delivered(noted)).toEqual(['assigned', '0: 0', 'pause'])
    free()
    await stopped
    expect(delivered(noted)).toEqual(['assigned', '0: 0', 'pause', 'resume', 'stopped'])
  })

  it('fails once when handlers reject, or onAssigned throws', async () => {
    const failure = new Error('It cannot heal.')
    const { reported, consumption, join, take } =
      await setUp({ onDelivery: () => Promise.reject(failure) })
    await join()
    await take([0])
    await take([0], { partition: 1 })
    await turn()
    expect([reported.fatal, consumption.ready()]).toEqual([[failure], false])
    await consumption.stop()
    const other = await setUp({ onAssigned: () => { throw failure } })
    await other.join()
    expect([other.reported.fatal, other.consumption.ready()]).toEqual([[failure], false])
    await other.consumption.stop()
  })

  it('ignores a rejection of a handler after its end', async () => {
    const { client, reported, join, take } = await setUp({
      onDelivery: async ({ signal }) => {
        client.emit(events.REBALANCING)
        throw signal.reason
      },
    })
    await join()
    await take([0])
    await turn()
    expect(reported.fatal).toEqual([])
  })
})

describe('a partition', () => {
  it('accepts an initial position when two fetches have it', async () => {
    const { noted, join, fetch, take } = await setUp()
    await join()
    await Promise.all([fetch([70, 71]), take([50, 51]), fetch([52])])
    await turn()
    expect(noted).toEqual(['assigned', 'resolve 51', 'resolve 52', '0: 50,51,52'])
  })

  it('seeks back for a redelivery and drops the fetch in flight', async () => {
    const over = Promise.withResolvers<void>()
    const all: bigint[][] = []
    const { noted, join, fetch, take } = await setUp({
      onDelivery: async ({ messages, redeliver }) => {
        all.push(messages.map(({ offset }) => offset))
        if (all.length === 1) redeliver(1n, over.promise)
      },
    })
    await join()
    await take([0, 1, 2])
    await turn()
    await fetch([3, 4])
    expect(noted).not.toContain('resume')
    over.resolve()
    await turn()
    await fetch([3, 4])
    await fetch([1, 2])
    await fetch([3, 4])
    await turn()
    expect(all).toEqual([[0n, 1n, 2n], [1n, 2n], [3n, 4n]])
    expect(noted.slice(0, 5)).toEqual(['assigned', 'resolve 2', 'resolve 0', 'pause', 'resume'])
  })

  it('pauses before an undecodable batch and delivers the messages before it', async () => {
    const errors: unknown[] = []
    const over = Promise.withResolvers<void>()
    const { noted, reported, join, fetch, take } = await setUp({
      onUndecodable: (error, { retry }) => {
        errors.push(error)
        retry(over.promise)
      },
    })
    await join()
    const error = new Error('Snappy compression not implemented')
    await Promise.all([take([0]), take([], { fetchedOffset: 1, error })])
    await turn()
    expect([errors, reported.fatal]).toEqual([[error], []])
    expect(noted).toEqual(['assigned', 'resolve 0', 'pause', '0: 0'])
    over.resolve()
    await turn()
    await fetch([1])
    await turn()
    expect(noted.slice(4)).toEqual(['resume', 'resolve 1', '0: 1'])
  })

  it.each([
    ['values', { value: Buffer.alloc(900) }, 1],
    ['headers', { value: null, headers: { sender: 'x'.repeat(900) } }, 1],
    ['many empty messages', { value: null }, 4],
  ])('fetches no further while %s wait for a slow handler', async (_, message, count) => {
    const { noted, join, fetch, take } = await setUp({
      settings: { maxBufferedBytes: 1_000 }, onDelivery: () => new Promise(() => {}),
    })
    await join()
    await take([0])
    await turn()
    await fetch(Array.from({ length: count }, (_value, at) => at + 1), { message })
    expect(noted.at(-1)).toBe('pause')
  })

  it('fails at an undecodable batch that nobody handles', async () => {
    const { reported, join, take } = await setUp()
    await join()
    const error = new Error('Snappy compression not implemented')
    await take([], { error })
    expect(reported.fatal).toEqual([error])
  })
})

describe('the commits of a generation', () => {
  const lost = Object.assign(new Error('connection'), { retriable: true })
  const illegal = Object.assign(new Error('gone'), { type: 'ILLEGAL_GENERATION' })

  /** A consumer that has committed offset 1 and 2 of partition 0, and offset 6 of partition 1. */
  async function committing (options: Options = {}) {
    const consumer = await setUp({
      onDelivery: async ({ messages, commit }) => {
        for (const { offset } of messages) commit(offset + 1n)
      },
      ...options,
    })
    await consumer.join()
    await consumer.take([0, 1])
    await consumer.take([5], { partition: 1 })
    await turn()
    const commits = () => consumer.noted.filter(text => text.startsWith('commit'))
    const committed = async (count: number) => {
      while (commits().length < count) await turn()
      await turn()
    }
    return { ...consumer, commits, committed }
  }

  it('share a request, with the newest offset of each partition', async () => {
    const { commits, committed, fetch } = await committing()
    await committed(1)
    expect(commits()).toEqual(['commit 0:2 1:6'])
    await fetch([6], { partition: 1 })
    await committed(2)
    expect(commits()).toEqual(['commit 0:2 1:6', 'commit 1:7'])
  })

  it('are repeated after a failure, unless a newer offset has replaced them', async () => {
    const { reported, commits, committed, fetch } =
      await committing({ commitFailures: [lost, new Error('refused')] })
    while (commits().length < 1) await turn()
    await fetch([2])
    await committed(3)
    expect(commits()).toEqual(['commit 0:2 1:6', 'commit 0:3 1:6', 'commit 0:3 1:6'])
    expect(reported.commits).toEqual([lost, new Error('refused')])
  })

  it('are sent at once when the generation ends, and none is added afterwards', async () => {
    const late = Promise.withResolvers<void>()
    const { client, consumption, commits } = await committing({
      onDelivery: async ({ messages, commit }) => {
        commit((messages[0]?.offset ?? 0n) + 1n)
        await late.promise
        commit(9n)
      },
    })
    client.emit(events.REBALANCING)
    await turn()
    expect(commits()).toEqual(['commit 0:1 1:6'])
    late.resolve()
    await consumption.stop()
    expect(commits()).toHaveLength(1)
  })

  it('are not repeated after the end of the generation, which a refusal shows', async () => {
    const { consumption, reported, commits, committed } =
      await committing({ commitFailures: [illegal] })
    await committed(1)
    expect([commits().length, reported.commits, consumption.ready()]).toEqual([1, [], false])
  })
})
