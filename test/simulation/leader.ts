import type { Redis } from 'ioredis'
import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { Leader as Election, type LeaderDeps } from '../../services/ledger/leader-election.ts'
import { LEADER_KEY } from '../../services/money/redis-keys.ts'
import { Takeover } from '../../services/ledger/takeover.ts'
import type { Chaos } from './chaos.ts'
import type { Emitter } from '../../services/runtime/engine/stage.ts'
import { createRecoveryStore } from '../../services/ledger/recovery-store.ts'
import { listServers } from '../../services/runtime/platform/redis.ts'
import { InfrastructureError } from '../../services/runtime/platform/errors.ts'
import { sleep } from '../../services/runtime/platform/retry.ts'
import type { JournalCopy } from '../../services/money/journal.ts'
import { createTenants } from '../../services/money/wallet.ts'
import type { Pipeline } from './pipeline.ts'
import { takeoverDeps } from './takeover.ts'
import type { Environment } from './environment.ts'
import type { Snapshot } from '../../schemas/types.ts'
import type { RawMessage } from '../../services/runtime/kafka/bus.ts'
import { createMessageMac, type MessageMac } from '../../services/runtime/crypto/mac.ts'
import type { Codec } from '../../services/runtime/kafka/registry.ts'
import { topicName } from '../../services/runtime/platform/topics.ts'
import type { MemoryBus } from '../support/kafka/memory-bus.ts'
import { createMemoryReader } from '../support/kafka/memory-reader.ts'
import { messageKeysOf, messageMacOf, MESSAGE_KEY_ENV } from '../support/keys/signed.ts'

/** The leader of the ledger: unlocks tenants, takes over, crashes, and the next one replaces it. */
export type Leader = {
  readonly deaths: () => number
  /** Expires the lease of a crashed leader. */
  readonly forgetDead: () => Promise<void>
  /** The leader does not crash from now on. */
  readonly stopFaults: () => void
  readonly stop: () => Promise<void>
}

type LeaderProcess = { readonly stop: () => Promise<void> }

const MAX_DEATHS = 4
const DEATH_PER_COMMAND = 0.004
const TAKEOVER_EVERY_MS = 200

/** Starts the first one. */
export function startLeader (options: LeaderOptions): Leader {
  const { connect, chaos } = options
  let [deaths, isStopped, isOver] = [0, false, false]
  const dies = () => !isStopped && deaths < MAX_DEATHS && chaos.happens(DEATH_PER_COMMAND)
  const nameOf = () => `leader ${deaths}`
  let restarting = Promise.resolve()
  let leader: LeaderProcess
  const start = () => {
    const redis = crashingRedis(connect('state', nameOf()), { dies, chaos, onDeath: follow })
    leader = startProcess(options, redis, nameOf())
  }
  const follow = () => {
    deaths += 1
    // It may have unlocked a tenant before it could report it.
    options.onUnlock()
    restarting = yieldToEventLoop().then(() => leader.stop())
      .then(() => { if (!isOver) start() })
  }
  start()
  return {
    deaths: () => deaths,
    forgetDead: () => forgetAllBut(nameOf(), connect('state', 'operator')),
    stopFaults: () => { isStopped = true },
    stop: async () => {
      isOver = true
      await restarting
      await leader.stop()
    },
  }
}

function startProcess (options: LeaderOptions, redis: Redis, name: string): LeaderProcess {
  const deps = leaderDeps(options, redis, name)
  const election = new Election(deps)
  const takeover = new Takeover(deps)
  const isLeader = () => election.isLeader()
  takeover.start({ isLeader, fatal: deps.fatal, everyMs: TAKEOVER_EVERY_MS })
  return { stop: async () => { await Promise.all([election.stop(), takeover.stop()]) } }
}

/** Deletes the lease of a leader with another name. */
async function forgetAllBut (name: string, redis: Redis): Promise<void> {
  const held = await redis.get(LEADER_KEY)
  if (held !== null && !held.startsWith(`${name} `)) await redis.del(LEADER_KEY)
}

type Death = {
  /** Called before each command. */
  readonly dies: () => boolean
  readonly chaos: Chaos
  readonly onDeath: () => void
}

/** A connection whose process crashes at any command, before or after its execution. */
function crashingRedis (redis: Redis, { dies, chaos, onDeath }: Death): Redis {
  let isDead = false
  const send = (command: never) => redis.sendCommand(command) as Promise<unknown>
  const connection = Object.create(redis) as Redis
  connection.sendCommand = (command: never): Promise<unknown> => {
    if (!isDead && !dies()) return send(command)
    if (!isDead && chaos.happens(0.5)) send(command).catch(() => {})
    if (!isDead) onDeath()
    isDead = true
    return Promise.reject(new Error('this ledger is dead'))
  }
  return connection
}

export type LeaderOptions = {
  readonly pipeline: Pipeline
  readonly chaos: Chaos
  readonly connect: Environment['connect']
  readonly subscriber: Environment['subscriber']
  /** A tenant was unlocked that lost data, or may have. */
  readonly onUnlock: () => void
}

/** No leader lease expires by the clock of Redis within a run. */
const NEVER_MS = 3_600_000

/** As the `main` of the ledger wires them, without Kafka, ClickHouse and the stage. */
function leaderDeps (options: LeaderOptions, redis: Redis, name: string) {
  const { pipeline, chaos, subscriber, onUnlock } = options
  const { bus, messageCodec, codec, stores: { blocks, journal } } = pipeline
  const takeover = takeoverDeps(pipeline, redis)
  return {
    ...takeover,
    emitter: { emit: halfWritten(takeover.emitter.emit, chaos) },
    redis,
    messageCodec,
    codec,
    blocks,
    journal,
    name,
    sleep,
    accountsProducer: bus.producer('accounts'),
    recoveryStore: createRecoveryStore(redis),
    servers: () => listServers(redis),
    reader: topicReader({ bus, codec, chaos, journal }),
    history: { listAll: async () => [] },
    subscriptions: async () => [],
    deliverLags: async () => [],
    backlog: { mayContain: async () => true },
    tenants: createTenants(redis),
    metrics: metricsOf(onUnlock),
    subscriber: subscriber(),
    graceMs: 1_000,
    leaseMs: NEVER_MS,
    pollMs: 1_000,
    checkEveryMs: 5_000,
    snapshotEveryMs: 20,
    snapshotBehindMs: 10,
    orphanAgeMs: 100,
    stalledAfterMs: NEVER_MS,
    fatal: (error: unknown) => { throw error },
  }
}

const SNAPSHOTS_HALF_WRITTEN = 0.3

/** Writes only some of the snapshots at times, as a ledger that crashes meanwhile. */
function halfWritten (emit: Emitter['emit'], chaos: Chaos): Emitter['emit'] {
  return async emissions => {
    const areSnapshots = emissions.every(({ topic }) => topic === 'wallet.snapshots')
    if (!areSnapshots || !chaos.happens(SNAPSHOTS_HALF_WRITTEN)) return await emit(emissions)
    await emit(emissions.slice(0, chaos.below(emissions.length)))
    throw new InfrastructureError('the other snapshots were not written')
  }
}

/** Ignores all metrics except the one that counts unlocked tenants. */
function metricsOf (onUnlock: () => void) {
  return {
    count: (_: string, labels: object) => {
      if ('kind' in labels && labels.kind === 'tenant') onUnlock()
    },
    watch: () => {},
  }
}

const KAFKA_UNAVAILABLE = 0.03
const SNAPSHOTS_DAMAGED = 0.6
const SNAPSHOT_FORGED = 0.3

const serviceMac = messageMacOf(MESSAGE_KEY_ENV)
const adversaryMac = createMessageMac({
  ...messageKeysOf(), MESSAGE_KEYS: { 1: Buffer.alloc(32, 2).toString('base64') },
})

type Damaged = {
  readonly journal: Pick<JournalCopy, 'lengths'>
  readonly bus: Pick<MemoryBus, 'messages'>
  readonly codec: Pick<Codec, 'decode' | 'encode'>
  readonly chaos: Chaos
}

/**
 * Reads topics of the bus; at times Kafka is unavailable, or snapshots are deleted, old or forged.
 */
function topicReader ({ bus, codec, chaos, journal }: Damaged): LeaderDeps['reader'] {
  const { read } = createMemoryReader(bus, async topic => {
    await yieldToEventLoop()
    if (chaos.happens(KAFKA_UNAVAILABLE)) throw new InfrastructureError(`${topic} is unavailable`)
  })
  return {
    read: async (topic, onMessages, limits) => {
      if (topic !== topicName('wallet.snapshots')) return await read(topic, onMessages, limits)
      const isDamaged = chaos.happens(SNAPSHOTS_DAMAGED)
      const isLeft = isDamaged
        ? await damage(bus.messages(topic), { codec, chaos, journal })
        : () => true
      return await read(topic, async messages => {
        const found: RawMessage[] = []
        for (const message of messages) {
          const signed = signedBy(serviceMac, message)
          if (chaos.happens(SNAPSHOT_FORGED)) found.push(await forge(signed, { codec, chaos }))
          if (isLeft(message)) found.push(signed)
        }
        await onMessages(found.filter(serviceMac.isAuthentic))
      }, limits)
    },
  }
}

/**
 * Of one tenant all snapshots are deleted but an old one, or that as well: what a writer to the
 * brokers can do by sending it again until compaction removes the others. The copy of the journal
 * refutes what is left: where it is as old, a file of Redis that is, too, looks as if nothing had
 * been lost (ADR 7).
 */
async function damage (
  messages: readonly RawMessage[], { codec, chaos, journal }: Omit<Damaged, 'bus'>
): Promise<(message: RawMessage) => boolean> {
  if (messages.length === 0) return () => true
  const { key } = chaos.pick(messages)
  const own = messages.filter(message => message.key.equals(key))
  const copied = (await journal.lengths()).get(String(key)) ?? 0
  const seqs = await Promise.all(own.map(async ({ value }) =>
    value === null ? 0 : (await codec.decode('wallet.snapshots', value) as Snapshot).seq))
  if (copied === 0) return () => true
  const newest = Math.max(...seqs)
  const refuted = own.filter((_, at) => seqs[at] === newest || (seqs[at] ?? 0) < copied)
  const left = chaos.happens(0.5) ? chaos.pick(refuted) : undefined
  return message => message === left || !message.key.equals(key)
}

/** A snapshot with more money, which a writer to the brokers who lacks the keys has made of one. */
async function forge (
  message: RawMessage, { codec, chaos }: Pick<Damaged, 'codec' | 'chaos'>
): Promise<RawMessage> {
  if (message.value === null) return message
  const snapshot = await codec.decode('wallet.snapshots', message.value) as Snapshot
  const richer = {
    ...snapshot,
    availableMicros: snapshot.availableMicros + 1_000_000,
    fundedMicros: snapshot.fundedMicros + 1_000_000,
  }
  const forged = { ...message, value: await codec.encode('wallet.snapshots-value', richer) }
  return chaos.happens(0.5) ? forged : signedBy(adversaryMac, forged)
}

function signedBy (mac: MessageMac, message: RawMessage): RawMessage {
  return { ...message, ...mac.sign({ ...message, key: String(message.key) }), key: message.key }
}
