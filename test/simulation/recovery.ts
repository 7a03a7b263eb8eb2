import type { Journal } from '../../schemas/types.ts'
import { sleep } from '../../services/runtime/platform/retry.ts'
import { createRecoveryGuards, createWallet } from '../../services/money/wallet.ts'
import { type Funded, payIn } from './inputs.ts'
import { startLeader, type Leader } from './leader.ts'
import type { LeaderOptions } from './leader.ts'
import type { Environment } from './environment.ts'
import type { Redis } from 'ioredis'
import { createEmitter } from '../../services/runtime/engine/stage.ts'
import type { Chaos } from './chaos.ts'
import type { Pipeline } from './pipeline.ts'
import { moneyKeys } from '../../services/money/redis-keys.ts'

/** Recovers a lost Redis: the ledger by itself, operators where it cannot. */
export type Recovery = {
  /** Triggers the remaining planned losses; resolves when Redis is recovered. */
  readonly endOfLosses: () => Promise<void>
  /** Throws a freeze that no loss explains. */
  readonly check: () => void
  readonly deaths: () => number
  /** Movements that only the file of the lost Redis still had. */
  readonly salvaged: () => readonly Journal[]
  readonly stop: () => Promise<void>
}

export type RecoveryOptions = Omit<LeaderOptions, 'onUnlock'> & {
  readonly losses: Environment['losses']
  readonly funded: readonly Funded[]
}

const LEADER_POLL_MS = 100
/** The lease of a crashed leader expires after this many polls: 5 s. */
const POLLS_PER_LEASE = 50
const POLLS_PER_CHECK = 20
const FLUSH_EVERY_MS = 1_000

/** Starts a leader, and operators for what it cannot repair. */
export function startRecovery (options: RecoveryOptions): Recovery {
  const { connect, losses, funded, pipeline } = options
  const redis = connect('state', 'operator')
  const leader = startLeader({ ...options, onUnlock: pipeline.forgetKeys })
  const operators = createOperators({ ...options, redis })
  const stopping = new AbortController()
  const { signal } = stopping
  const tending = [tend({ leader, operators, funded, signal }), flushHeld(pipeline, signal)]
  const unlockOptions = {
    redis, funded, losses, wallet: createWallet(redis), check: operators.throwUnexplained,
  }
  const recovered = () => untilUnlocked(unlockOptions)
  return {
    endOfLosses: async () => {
      losses.hurry()
      do await recovered()
      while (!losses.isOver())
      leader.stopFaults()
      await recovered()
    },
    check: operators.throwUnexplained,
    deaths: leader.deaths,
    salvaged: () => operators.salvaged,
    stop: async () => {
      stopping.abort()
      await Promise.all([...tending, leader.stop()])
    },
  }
}

type Tended = {
  readonly leader: Leader
  readonly operators: Operators
  readonly funded: readonly Funded[]
  readonly signal: AbortSignal
}

async function tend ({ leader, operators, funded, signal }: Tended): Promise<void> {
  for (let polls = 1; !signal.aborted; polls++) {
    await sleep(LEADER_POLL_MS, signal).catch(() => {})
    if (polls % POLLS_PER_LEASE === 0) await leader.forgetDead()
    // Movements in flight reach the journal long before operators check.
    if (polls % POLLS_PER_CHECK !== 0) continue
    for (const { tenant } of funded) await operators.check(tenant)
  }
}

/**
 * Flushes what stages hold, as their engine does every second. A client that sends its request
 * again until it is answered may wait for it: for an accepted job with a chunk that broke since.
 */
async function flushHeld ({ idle }: Pipeline, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await sleep(FLUSH_EVERY_MS, signal).catch(() => {})
    await idle()
  }
}

/** A tenant is frozen for a reason that no loss explains. */
class UnexplainedError extends Error {
  override readonly name = 'UnexplainedError'
}

/** Operators follow the runbook for frozen tenants. */
type Operators = {
  /** Checks a tenant, and repairs it if it is frozen. */
  readonly check: (tenant: string) => Promise<void>
  /** Throws the first unexplained freeze. */
  readonly throwUnexplained: () => void
  /** Movements that only the file of the lost Redis still had. */
  readonly salvaged: readonly Journal[]
}

type OperatorsOptions = {
  readonly redis: Redis
  readonly pipeline: Pipeline
  readonly chaos: Chaos
  readonly losses: Pick<Environment['losses'], 'lost'>
}

/** The numbers of the first and the last entry that are missing. */
type Gap = { readonly first: number, readonly last: number }

const GAP = /^entries (\d+) to (\d+) are missing before entry \d+(?=$|; )/

/** At times the operators trust the journal; otherwise they restore the missing entries. */
function createOperators ({ redis, pipeline, chaos, losses }: OperatorsOptions): Operators {
  const guards = createRecoveryGuards(redis)
  const ship = shipperOf(pipeline)
  const salvaged: Journal[] = []
  const trusted = new Set<string>()
  let unexplained: UnexplainedError | undefined
  /** Trusts the journal at most once, and only about a single movement. */
  const isTrusted = (name: string, gap: Gap): boolean => {
    if (gap.first !== gap.last || trusted.has(name) || !chaos.happens(0.5)) return false
    trusted.add(name)
    return true
  }
  const repair = async (tenant: string, frozen: string): Promise<void> => {
    const gap = gapOf(frozen)
    if (gap !== undefined && isTrusted(`${tenant} ${frozen}`, gap)) {
      return await guards.thaw(tenant, true)
    }
    const missing = gap && missingOf(losses.lost, tenant, gap)
    if (missing === undefined) {
      unexplained = new UnexplainedError(`${tenant} is frozen: ${frozen}`)
      return
    }
    await ship(missing)
    salvaged.push(...missing)
    await guards.thaw(tenant, false)
  }
  return {
    check: async tenant => {
      const { frozen } = await guards.read(tenant)
      if (frozen !== '' && unexplained === undefined) await repair(tenant, frozen)
    },
    throwUnexplained: () => { if (unexplained !== undefined) throw unexplained },
    salvaged,
  }
}

function gapOf (frozen: string): Gap | undefined {
  const found = GAP.exec(frozen)
  return found === null ? undefined : { first: Number(found[1]), last: Number(found[2]) }
}

/** The missing entries from the file of the lost Redis; undefined unless all are there. */
function missingOf (
  lost: readonly Journal[], tenant: string, { first, last }: Gap
): readonly Journal[] | undefined {
  const found = Array.from({ length: last - first + 1 }, (_, index) => lost.findLast(entry =>
    entry.tenant === tenant && entry.seq === first + index))
  const entries = found.filter(entry => entry !== undefined)
  return entries.length < found.length ? undefined : entries
}

function shipperOf ({ messageCodec, bus }: Pipeline) {
  const emitter = createEmitter({
    messageCodec, producerOf: name => bus.producer(`operator.${name}`),
  })
  return async (entries: readonly Journal[]): Promise<void> => {
    await emitter.emit(entries.map(value =>
      ({ topic: 'wallet.journal', lane: 'small', value, rows: undefined })))
  }
}

type UnlockOptions = {
  readonly redis: Redis
  readonly wallet: ReturnType<typeof createWallet>
  readonly funded: readonly Funded[]
  readonly losses: Pick<Environment['losses'], 'runId'>
  /** Throws when waiting is pointless. */
  readonly check: () => void
}

/** Resolves when every tenant is unlocked for the current run of Redis. */
async function untilUnlocked (options: UnlockOptions): Promise<void> {
  const { redis, funded } = options
  const marks = funded.map(({ tenant }) => moneyKeys(tenant).recounts)
  for (;;) {
    const areUnlocked = await Promise.all(funded.map(one => isUnlocked(one, options)))
    if (!areUnlocked.includes(false) && await redis.exists(...marks) === 0) return
    await sleep(LEADER_POLL_MS)
  }
}

async function isUnlocked (
  one: Funded, { redis, wallet, losses, check }: UnlockOptions
): Promise<boolean> {
  check()
  try {
    // A lost payment is made again: with the same id it counts once.
    await payIn(wallet, one)
  } catch (error) {
    if (/^the wallet of \S+ is (locked|frozen)/.test((error as Error).message)) return false
    throw error
  }
  return await redis.hget(moneyKeys(one.tenant).wallet, 'run') === losses.runId()
}
