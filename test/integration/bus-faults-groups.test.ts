import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { describeBusFaults, type OnLink } from '../support/kafka/bus-fault-environment.ts'
import {
  after, distinct, newGroup, numbered, record, valuesOf, type Handler,
} from '../support/kafka/bus-record.ts'
import { eventually } from '../support/eventually.ts'
import type { ProxyFault } from '../support/kafka/proxy.ts'

const commitAll: Handler = async ({ messages, commit }) => {
  commit(after(messages))
}

const JOINS: readonly { readonly name: string, readonly fault: ProxyFault }[] = [
  { name: 'its first request to join', fault: { api: 'JoinGroup', what: 'lose answer' } },
  { name: 'the generation it joined', fault: { api: 'JoinGroup', what: 'lose answer', nth: 2 } },
  { name: 'its partitions', fault: { api: 'SyncGroup', what: 'lose answer' } },
  { name: 'the place of the coordinator', fault: { api: 'FindCoordinator', what: 'lose answer' } },
]

/** No other member joins; the client waits this long plus five seconds for an answer. */
const JOINING = { rebalanceTimeoutMs: 300 }

/** Groups that lose words of their coordinator, members that freeze, work that is taken away. */
function describeGroupFaults (onLink: OnLink): void {
  // The longest case comes first, so that the others run in parallel.
  describeHeartbeats(onLink)
  describeLostHeartbeat(onLink)
  for (const { name, fault } of JOINS) {
    it(`joins although the response with ${name} is lost`, onLink(async link => {
      const topic = await link.createTopic(2)
      await link.bus.producer('joining').send(numbered(topic, 40))
      const lost = link.proxy.inject(fault)
      const run = await record(link.bus, [topic], { handle: commitAll })
      await run.until(() => distinct(run.seen) === 40)
      expect(lost.count()).toBe(1)
      expect(link.fatal).toEqual([])
      await run.consumption.stop()
    }, JOINING))
  }

  it('is no member any more when it was stopped while it joined', onLink(async link => {
    const topic = await link.createTopic(2)
    await link.bus.producer('stopped').send(numbered(topic, 40))
    const { done } = link.proxy.inject({ api: 'SyncGroup', what: 'delay answer', delayMs: 500 })
    const stopped = await record(link.bus, [topic])
    await done
    await stopped.consumption.stop()
    // It gets both partitions.
    const run = await record(link.bus, [topic], { group: stopped.group, handle: commitAll })
    await run.until(() => distinct(run.seen) === 40)
    expect(stopped.events).toEqual([])
    await run.consumption.stop()
  }, JOINING))

  describeMoves(onLink)
  describeTakenWork(onLink)
  describeZombies(onLink)
}

/** It notices a lost heartbeat early; the client leaves only after many. */
const DEAF = { requestTimeoutMs: 300, heartbeatMs: 200 }
const SESSION = { sessionTimeoutMs: 6_000, heartbeatMs: 500 }
/** Longer than the session of every case that lets one end. */
const LONGER_MS = 7_000
/** Nothing but a heartbeat that is lost can end such a session while a test runs. */
const LASTING = { sessionTimeoutMs: 300_000 }

function describeHeartbeats (onLink: OnLink): void {
  it('rejoins when no heartbeat arrived for a whole session', onLink(async link => {
    const topic = await link.createTopic(1)
    const run = await record(link.bus, [topic])
    await run.until(() => run.events.length > 0)
    const untilMs = performance.now() + LONGER_MS
    const joins = () => link.proxy.traffic('JoinGroup').requests
    const joined = joins()
    const deaf = link.proxy.inject({ api: 'Heartbeat', what: 'lose request', times: Infinity })
    let sent = 0
    const send = async () => {
      await link.bus.producer('beating').send(numbered(topic, 1))
      sent += 1
    }
    // A heartbeat goes out with a fetch, and a fetch is answered soon where something comes.
    while (joins() === joined || performance.now() < untilMs) {
      await send()
      await sleep(50)
    }
    expect(deaf.count()).toBeGreaterThan(3)
    deaf.end()
    await send()
    // A late answer is requested again, and what was sent may be there twice.
    await run.until(() => distinct(run.seen) >= sent)
    await eventually(() => expect(run.consumption.ready()).toBe(true))
    expect(link.fatal).toEqual([])
    await run.consumption.stop()
  }, DEAF))

  it('stays in the group while a handler takes longer than the session', onLink(async link => {
    const topic = await link.createTopic(1)
    const aborted: boolean[] = []
    const handle: Handler = async delivery => {
      await sleep(LONGER_MS)
      aborted.push(delivery.signal.aborted)
      return await commitAll(delivery)
    }
    const run = await record(link.bus, [topic], { handle })
    await link.bus.producer('patient').send(numbered(topic, 1))
    await eventually(async () => expect(await link.committed(run.group, topic)).toEqual([1]))
    expect(run.consumption.ready()).toBe(true)
    await run.consumption.stop()
    expect(run.events.filter(event => event === 'assigned')).toHaveLength(1)
    expect(aborted).toEqual([false])
  }, SESSION))
}

function describeLostHeartbeat (onLink: OnLink): void {
  it('stays a member although a heartbeat is lost', onLink(async link => {
    const topic = await link.createTopic(1)
    const run = await record(link.bus, [topic], { handle: commitAll })
    await run.until(() => run.events.length > 0)
    await link.proxy.inject({ api: 'Heartbeat', what: 'lose answer' }).done
    await link.bus.producer('beating').send(numbered(topic, 10))
    await run.until(() => run.seen.length === 10)
    expect(run.events.filter(event => event === 'assigned')).toHaveLength(1)
    await run.consumption.stop()
  }, LASTING))
}

function describeMoves (onLink: OnLink): void {
  it('finds the coordinator when it has moved', onLink(async link => {
    const topic = await link.createTopic(1)
    const run = await record(link.bus, [topic], { handle: commitAll })
    await link.bus.producer('moved').send(numbered(topic, 10))
    await eventually(async () => expect(await link.committed(run.group, topic)).toEqual([10]))
    const requestsBefore = link.proxy.traffic('FindCoordinator').requests
    const moved = (['Heartbeat', 'OffsetCommit'] as const).map(api => link.proxy.inject(
      { api, what: 'refuse', error: 'NOT_COORDINATOR', times: Infinity }))
    await link.bus.producer('moved').send(numbered(topic, 10))
    await eventually(() =>
      expect(link.proxy.traffic('FindCoordinator').requests).toBeGreaterThan(requestsBefore))
    for (const fault of moved) fault.end()
    await eventually(async () => expect(await link.committed(run.group, topic)).toEqual([20]))
    expect(distinct(run.seen)).toBe(20)
    await eventually(() => expect(run.consumption.ready()).toBe(true))
    await run.consumption.stop()
  }))

  for (const [does, api, error] of [
    ['loads', 'JoinGroup', 'COORDINATOR_LOAD_IN_PROGRESS'],
    ['stops', 'SyncGroup', 'UNKNOWN_SERVER_ERROR'],
  ] as const) {
    it(`rejoins as a new member although the coordinator ${does} meanwhile`, onLink(async link => {
      const topic = await link.createTopic(1)
      const run = await record(link.bus, [topic], { handle: commitAll })
      await run.until(() => run.events.length > 0)
      const refused = link.proxy.inject({ api, what: 'refuse', error })
      link.proxy.inject({ api: 'Heartbeat', what: 'refuse', error: 'UNKNOWN_MEMBER_ID' })
      await refused.done
      await run.until(() => run.events.filter(event => event === 'assigned').length === 2)
      await link.bus.producer('loading').send(numbered(topic, 10))
      await eventually(async () => expect(await link.committed(run.group, topic)).toEqual([10]))
      expect(link.fatal).toEqual([])
      await run.consumption.stop()
    }, { ...JOINING, heartbeatMs: 200 }))
  }

  it('recovers when every connection is reset repeatedly', onLink(async link => {
    const topic = await link.createTopic(2)
    const run = await record(link.bus, [topic], { handle: commitAll })
    for (let round = 1; round <= 3; round++) {
      const sent = link.bus.producer('reset').send(numbered(topic, 10))
      link.proxy.cutAll()
      await sent
      await run.until(() => distinct(run.seen) === 10 * round)
    }
    expect(link.fatal).toEqual([])
    await run.consumption.stop()
  }))
}

function describeTakenWork (onLink: OnLink): void {
  it('aborts a handler whose partitions were revoked, and ignores its commit',
    onLink(async link => {
      const topic = await link.createTopic(1)
      await link.bus.producer('taken').send(numbered(topic, 10))
      let aborted = false
      const handle: Handler = async ({ signal, messages, commit }) => {
        if (aborted) return commitAll({ signal, messages, commit } as never)
        await new Promise(resolve => signal.addEventListener('abort', resolve))
        aborted = true
        commit(after(messages))
      }
      const group = newGroup()
      const first = await record(link.bus, [topic], { group, handle })
      await first.until(() => first.seen.length > 0)
      const second = await record(link.bus, [topic], { group, handle: commitAll })
      await first.until(() => aborted)
      await eventually(async () => expect(await link.committed(group, topic)).toEqual([10]))
      const again = [...first.seen.slice(10), ...second.seen]
      expect(valuesOf(again).slice(0, 10)).toEqual(valuesOf(first.seen.slice(0, 10)))
      await Promise.all([first, second].map(({ consumption }) => consumption.stop()))
    }))
}

function describeZombies (onLink: OnLink): void {
  it('takes no commit of a member that was frozen while others went on', onLink(async link => {
    const topic = await link.createTopic(1)
    await link.bus.producer('frozen').send(numbered(topic, 10))
    const group = newGroup()
    const zombie = link.startMember(group, topic)
    try {
      expect(await zombie.heard('delivered')).toMatchObject({ offsets: [...Array(10).keys()] })
      zombie.freeze()
      const successor = await record(link.bus, [topic], { group, handle: commitAll })
      await successor.until(() => distinct(successor.seen) === 10)
      await eventually(async () => expect(await link.committed(group, topic)).toEqual([10]))
      // It finds the request to commit when it resumes, before any other message.
      zombie.commit(5)
      zombie.thaw()
      await zombie.heard('aborted')
      expect(await link.committed(group, topic)).toEqual([10])
      await successor.consumption.stop()
    } finally {
      await zombie.stop()
    }
  }))
}

await describeBusFaults(describeGroupFaults)
