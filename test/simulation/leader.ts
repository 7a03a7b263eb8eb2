import type { Redis } from 'ioredis'
import { setImmediate as turn } from 'node:timers/promises'
import { startLeading } from '../../services/ledger/leader-election.ts'
import { LEADER_KEY } from '../../services/ledger/redis-keys.ts'
import { startReaper } from '../../services/ledger/reaping.ts'
import { leaderDeps, type LeaderOptions } from './leader-parts.ts'
import { mortal } from './mortal.ts'

/** The ledger's other half: it leads, lets tenants in, sweeps, dies, and another one follows it. */
export type Leader = {
  readonly deaths: () => number
  /** What a leader that is gone still holds is let go, as time has passed. */
  readonly forgetDead: () => Promise<void>
  /** From now on it lives. */
  readonly calm: () => void
  readonly stop: () => Promise<void>
}

type Life = { readonly stop: () => Promise<void> }

const MAX_DEATHS = 4
const DEATH_PER_COMMAND = 0.004
const SWEEP_EVERY_MS = 200

/** Starts the first one. */
export function startLeader (options: LeaderOptions): Leader {
  const { connect, chaos } = options
  let [deaths, isCalm, isOver] = [0, false, false]
  const dies = () => !isCalm && deaths < MAX_DEATHS && chaos.happens(DEATH_PER_COMMAND)
  const nameOf = () => `leader ${deaths}`
  let restarting = Promise.resolve()
  let life: Life
  const start = () => {
    const redis = mortal(connect('state', nameOf()), { dies, chaos, onDeath: follow })
    life = startLife(options, redis, nameOf())
  }
  const follow = () => {
    deaths += 1
    // It may have let somebody in, and nobody heard of it.
    options.onLetIn()
    restarting = turn().then(() => life.stop()).then(() => { if (!isOver) start() })
  }
  start()
  return {
    deaths: () => deaths,
    forgetDead: () => forgetAllBut(nameOf(), connect('state', 'operator')),
    calm: () => { isCalm = true },
    stop: async () => {
      isOver = true
      await restarting
      await life.stop()
    },
  }
}

function startLife (options: LeaderOptions, redis: Redis, name: string): Life {
  const deps = leaderDeps(options, redis, name)
  const noStage = { ready: () => true, stop: async () => {} }
  const leading = startLeading(deps)
  const sweeping = startReaper(noStage, deps, SWEEP_EVERY_MS)
  return { stop: async () => { await Promise.all([leading.stop(), sweeping.stop()]) } }
}

/** Ends the lead of whoever has another name. */
async function forgetAllBut (name: string, redis: Redis): Promise<void> {
  const held = await redis.get(LEADER_KEY)
  if (held !== null && !held.startsWith(`${name} `)) await redis.del(LEADER_KEY)
}
