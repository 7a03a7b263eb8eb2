import type { Journal } from '../../schemas/types.ts'
import { sleep } from '../../services/runtime/platform/retry.ts'
import { createWallet } from '../../services/money/wallet.ts'
import type { Funded } from './funding.ts'
import { startLeader, type Leader } from './leader.ts'
import type { LeaderOptions } from './leader-deps.ts'
import { untilUnlocked } from './unlocking.ts'
import { createOperators, type Operators } from './operators.ts'
import type { Environment } from './environment.ts'

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

/** Starts a leader, and operators for what it cannot repair. */
export function startRecovery (options: RecoveryOptions): Recovery {
  const { connect, losses, funded, pipeline } = options
  const redis = connect('state', 'operator')
  const leader = startLeader({ ...options, onUnlock: pipeline.forgetKeys })
  const operators = createOperators({ ...options, redis })
  const stopping = new AbortController()
  const tending = tend({ leader, operators, funded, signal: stopping.signal })
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
      await Promise.all([tending, leader.stop()])
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
