import type { Redis } from 'ioredis'
import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { Leader as Election } from '../../services/ledger/leader-election.ts'
import { LEADER_KEY } from '../../services/money/redis-keys.ts'
import { Takeover } from '../../services/ledger/takeover.ts'
import type { Chaos } from './chaos.ts'
import { leaderDeps, type LeaderOptions } from './leader-deps.ts'

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
