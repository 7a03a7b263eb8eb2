import type {
  Bus, ConsumeOptions, Consumption, FetchedBatch, OutgoingMessage, RawMessage,
} from '../../../services/runtime/kafka/bus.ts'
import { partitionsForJob } from '../../../services/runtime/platform/topics.ts'
import { sleep as realSleep, type Sleep } from '../../../services/runtime/platform/retry.ts'
import { seededRandom } from '../random.ts'

export type MemoryBusOptions = {
  /** Decides sizes of deliveries, their order across partitions, and duplicates. */
  readonly seed?: number
  readonly partitionsOf?: (topic: string) => number
  /** Deliveries have from one to this many messages. */
  readonly maxDelivery?: number
  /** Probability that a send arrives twice, as after a lost answer. */
  readonly duplicateSends?: number
  readonly onFatal?: (error: unknown) => void
  /** Waits before a redelivery; a simulation gives its own. */
  readonly sleep?: Sleep
  readonly nowMs?: () => number
}

export type MemoryBus = Bus & {
  /** Resolves when no member of any group has messages to deliver or in progress. */
  readonly idle: () => Promise<void>
  /**
   * The process of a consumption dies: its newest commits are lost, no more are made, its handlers
   * are abandoned.
   */
  readonly crash: (consumption: Consumption) => void
  /** Sets all offsets of a group to 0; its members start over. */
  readonly replay: (group: string) => void
  /** Adds partitions to topics, and rebalances all groups as they find them. */
  readonly grow: (partitionsOf: (topic: string) => number) => void
  /** All messages of a topic, by partition and offset. */
  readonly messages: (topic: string) => readonly RawMessage[]
  readonly committed: (group: string, topic: string, partition: number) => bigint
}

type Place = { readonly topic: string, readonly partition: number }
type Candidate = Place & { readonly member: Member }
type Group = { readonly committed: Map<string, bigint>, readonly members: Member[] }

/** Kafka's promises, and its nuisances by a seed, without Kafka: deterministic, without timers. */
export function createMemoryBus (options: MemoryBusOptions = {}): MemoryBus {
  const broker = new Broker(options)
  return {
    consume: async (consume) => broker.join(consume),
    producer: () => ({
      send: async (messages, signal) => {
        signal?.throwIfAborted()
        if (messages.some(({ key }) => key === '')) throw new Error('A message has no key.')
        broker.append(messages)
      },
      close: async () => {},
    }),
    lastValue: async (topic, key) =>
      broker.logsOf(topic).flat().findLast((message) => String(message.key) === key)?.value ??
        undefined,
    topicNames: async () => broker.topicNames(),
    watchPartitions: () => topic => broker.logsOf(topic).length,
    close: () => broker.close(),
    idle: () => broker.idle(),
    crash: (consumption) => {
      if (!(consumption instanceof Member)) return
      consumption.loseNewestCommits()
      broker.leave(consumption)
    },
    replay: (group) => broker.replay(group),
    grow: (partitionsOf) => broker.grow(partitionsOf),
    messages: (topic) => broker.logsOf(topic).flat(),
    committed: (group, topic, partition) =>
      broker.groupOf(group).committed.get(keyOf({ topic, partition })) ?? 0n,
  }
}

class Broker {
  readonly options: Required<MemoryBusOptions>
  readonly random: () => number
  readonly #topics = new Map<string, RawMessage[][]>()
  readonly #groups = new Map<string, Group>()
  #partitionsOf: (topic: string) => number
  #idleWaiters: (() => void)[] = []
  #isAwake = false

  constructor (options: MemoryBusOptions) {
    this.options = {
      seed: 1,
      partitionsOf: () => 4,
      maxDelivery: 10,
      duplicateSends: 0,
      onFatal: (error) => { throw error },
      sleep: realSleep,
      nowMs: Date.now,
      ...options,
    }
    this.#partitionsOf = this.options.partitionsOf
    this.random = seededRandom(this.options.seed)
  }

  logsOf (topic: string): RawMessage[][] {
    const logs = this.#topics.get(topic) ??
      Array.from({ length: this.#partitionsOf(topic) }, () => [])
    this.#topics.set(topic, logs)
    return logs
  }

  topicNames (): ReadonlySet<string> {
    return new Set(this.#topics.keys())
  }

  groupOf (name: string): Group {
    const group = this.#groups.get(name) ?? { committed: new Map(), members: [] }
    this.#groups.set(name, group)
    return group
  }

  append (messages: readonly OutgoingMessage[]): void {
    const times = this.random() < this.options.duplicateSends ? 2 : 1
    for (let time = 0; time < times; time++) messages.forEach((message) => this.#store(message))
    this.wake()
  }

  join (consume: ConsumeOptions): Member {
    const member = new Member(this, consume)
    this.groupOf(consume.group).members.push(member)
    this.rebalance(consume.group)
    return member
  }

  leave (member: Member): void {
    const { members } = this.groupOf(member.consume.group)
    member.end()
    if (!members.includes(member)) return
    members.splice(members.indexOf(member), 1)
    this.rebalance(member.consume.group)
  }

  rebalance (name: string): void {
    const { members } = this.groupOf(name)
    for (const member of members) member.begin(this.#shareOf(member, members))
    this.wake()
  }

  replay (name: string): void {
    this.groupOf(name).committed.clear()
    this.rebalance(name)
  }

  grow (partitionsOf: (topic: string) => number): void {
    this.#partitionsOf = partitionsOf
    for (const [topic, logs] of this.#topics) {
      while (logs.length < partitionsOf(topic)) logs.push([])
    }
    for (const name of this.#groups.keys()) this.rebalance(name)
  }

  async close (): Promise<void> {
    const members = [...this.#groups.values()].flatMap((group) => [...group.members])
    await Promise.all(members.map((member) => member.stop()))
  }

  idle (): Promise<void> {
    return new Promise((resolve) => {
      this.#idleWaiters.push(resolve)
      this.wake()
    })
  }

  /** One delivery a step, so that the seed decides the order across partitions and groups. */
  wake (): void {
    if (this.#isAwake) return
    this.#isAwake = true
    queueMicrotask(() => {
      this.#isAwake = false
      this.#step()
    })
  }

  #step (): void {
    const members = [...this.#groups.values()].flatMap((group) => group.members)
    const candidates = members.flatMap((member) => member.candidates())
    const chosen = candidates[Math.floor(this.random() * candidates.length)]
    if (chosen !== undefined) {
      chosen.member.deliver(chosen)
      this.wake()
    } else if (members.every((member) => member.isIdle())) {
      for (const resolve of this.#idleWaiters.splice(0)) resolve()
    }
  }

  #shareOf (member: Member, members: readonly Member[]): Place[] {
    return member.consume.topics.flatMap((topic) => {
      const subscribers = members.filter(({ consume }) => consume.topics.includes(topic))
      return this.logsOf(topic).map((_, partition) => ({ topic, partition }))
        .filter(({ partition }) => subscribers[partition % subscribers.length] === member)
    })
  }

  #store ({ topic, key, value, headers, partition: chosen }: OutgoingMessage): void {
    const logs = this.logsOf(topic)
    const count = Math.min(partitionsForJob(topic, headers) ?? Infinity, logs.length)
    const partition = chosen ?? hashOf(key) % count
    const log = logs[partition]
    log?.push({
      topic,
      partition,
      offset: BigInt(log.length),
      key: Buffer.from(key),
      value: value === null ? null : Buffer.from(value),
      headers: { ...headers },
      timestampMs: this.options.nowMs(),
    })
  }
}

class Member implements Consumption {
  readonly consume: ConsumeOptions
  readonly #broker: Broker
  #life = new AbortController()
  #places: readonly Place[] = []
  #started = false
  /** The next message of each partition; unset means the committed one. */
  #positions = new Map<string, number>()
  /** What was committed before the newest commit of each partition. */
  #committedBefore = new Map<string, bigint>()
  /** Partitions whose handler runs. */
  #busy = new Map<string, Promise<void>>()
  /** Partitions that pause before a redelivery. */
  #paused = new Map<string, Promise<void>>()

  constructor (broker: Broker, consume: ConsumeOptions) {
    this.#broker = broker
    this.consume = consume
    this.#life.abort()
  }

  readonly ready = (): boolean => this.#started && !this.#life.signal.aborted

  readonly stop = async (): Promise<void> => {
    this.end()
    await Promise.all(this.#busy.values())
    this.#broker.leave(this)
  }

  end (): void {
    this.#life.abort(new Error('The consumer stopped or has crashed.'))
  }

  loseNewestCommits (): void {
    for (const [key, offset] of this.#committedBefore) this.#committed.set(key, offset)
    this.#committedBefore.clear()
  }

  /** A generation begins once the handlers of the one before have returned. */
  begin (places: readonly Place[]): void {
    this.#life.abort(new Error('The group has a new generation.'))
    const life = new AbortController()
    this.#life = life
    this.#started = false
    Promise.all(this.#busy.values()).then(() => {
      if (life.signal.aborted) return
      this.consume.onAssigned()
      this.#places = places
      this.#positions = new Map()
      this.#paused = new Map()
      this.#committedBefore.clear()
      this.#started = true
      this.#broker.wake()
    }).catch(this.#broker.options.onFatal)
  }

  isIdle (): boolean {
    return this.#life.signal.aborted || (this.#started && this.#busy.size + this.#paused.size === 0)
  }

  candidates (): Candidate[] {
    if (!this.ready()) return []
    return this.#places
      .filter((place) => !this.#busy.has(keyOf(place)) && !this.#paused.has(keyOf(place)))
      .filter((place) => this.#isBehind(place))
      .map((place) => ({ ...place, member: this }))
  }

  deliver ({ topic, partition }: Candidate): void {
    const place = { topic, partition }
    const busy = this.#handle(place, this.#take(place)).finally(() => {
      this.#busy.delete(keyOf(place))
      this.#broker.wake()
    })
    this.#busy.set(keyOf(place), busy)
  }

  async #handle (place: Place, messages: readonly RawMessage[]): Promise<void> {
    const { signal } = this.#life
    const commit: FetchedBatch['commit'] = (nextOffset) => {
      if (signal.aborted) return
      const key = keyOf(place)
      this.#committedBefore.set(key, this.#committed.get(key) ?? 0n)
      this.#committed.set(key, nextOffset)
    }
    try {
      const more = () => signal.aborted ? [] : this.#take(place)
      const redeliver: FetchedBatch['redeliver'] = (fromOffset, after) => {
        if (!signal.aborted) this.#pause(place, fromOffset, after)
      }
      await this.consume.onDelivery({ ...place, messages, more, signal, commit, redeliver })
    } catch (error) {
      if (signal.aborted) return
      this.end()
      this.#broker.options.onFatal(error)
    }
  }

  #pause (place: Place, fromOffset: bigint, after: number | Promise<void>): void {
    const key = keyOf(place)
    const { sleep } = this.#broker.options
    const pause = typeof after === 'number' ? sleep(after, this.#life.signal) : after
    this.#positions.set(key, Number(fromOffset))
    this.#paused.set(key, pause)
    const end = () => {
      if (this.#paused.get(key) !== pause) return
      this.#paused.delete(key)
      this.#broker.wake()
    }
    pause.then(end, end)
  }

  get #committed (): Map<string, bigint> {
    return this.#broker.groupOf(this.consume.group).committed
  }

  #positionOf (place: Place): number {
    return this.#positions.get(keyOf(place)) ?? Number(this.#committed.get(keyOf(place)) ?? 0n)
  }

  #isBehind (place: Place): boolean {
    const { length } = this.#broker.logsOf(place.topic)[place.partition] ?? []
    return length > this.#positionOf(place)
  }

  #take (place: Place): RawMessage[] {
    const most = 1 + Math.floor(this.#broker.random() * this.#broker.options.maxDelivery)
    const log = this.#broker.logsOf(place.topic)[place.partition] ?? []
    const position = this.#positionOf(place)
    const messages = log.slice(position, position + most)
    this.#positions.set(keyOf(place), position + messages.length)
    return messages
  }
}

function keyOf ({ topic, partition }: Place): string {
  return `${topic}|${partition}`
}

/** FNV-1a: any stable spread will do. */
function hashOf (key: string): number {
  return [...Buffer.from(key)]
    .reduce((hash, byte) => Math.imul(hash ^ byte, 16_777_619) >>> 0, 2_166_136_261)
}
