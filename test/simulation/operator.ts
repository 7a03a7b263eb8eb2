import type { Journal } from '../../schemas/types.ts'
import { sleep } from '../../services/platform/retry.ts'
import { createWallet } from '../../services/money/wallet.ts'
import type { Funded } from './funding.ts'
import { startLeader, type Leader } from './leader.ts'
import type { LeaderOptions } from './leader-parts.ts'
import { allLetIn } from './letting-in.ts'
import { createPeople, type People } from './people.ts'
import type { World } from './world.ts'

/** Sees to it that a lost Redis is mended: the ledger by itself, people where they have to. */
export type Operator = {
  /** What is planned and has not come yet comes now; resolves when it is mended. */
  readonly endOfLosses: () => Promise<void>
  /** Throws what nobody can explain, and nobody will mend. */
  readonly check: () => void
  readonly deaths: () => number
  /** Movements that were nowhere but in a file of the Redis that was lost. */
  readonly salvaged: () => readonly Journal[]
  readonly stop: () => Promise<void>
}

export type OperatorOptions = Omit<LeaderOptions, 'onLetIn'> & {
  readonly losses: World['losses']
  readonly funded: readonly Funded[]
}

const LEADER_POLL_MS = 100
/** A lead that nobody holds any more ends after so many looks: 5 s. */
const LOOKS_A_LEASE = 50
const LOOKS_OF_PEOPLE = 20

/** A ledger that leads, and people who look after what it cannot know. */
export function startOperator (options: OperatorOptions): Operator {
  const { connect, losses, funded, pipeline } = options
  const redis = connect('state', 'operator')
  const leader = startLeader({ ...options, onLetIn: pipeline.forgetKeys })
  const people = createPeople({ ...options, redis })
  const stopping = new AbortController()
  const tending = tend({ leader, people, funded, signal: stopping.signal })
  const lettingIn = {
    redis, funded, losses, wallet: createWallet(redis), check: people.throwUnexplained,
  }
  const recovered = () => allLetIn(lettingIn)
  return {
    endOfLosses: async () => {
      losses.hurry()
      do await recovered()
      while (!losses.isOver())
      leader.calm()
      await recovered()
    },
    check: people.throwUnexplained,
    deaths: leader.deaths,
    salvaged: () => people.salvaged,
    stop: async () => {
      stopping.abort()
      await Promise.all([tending, leader.stop()])
    },
  }
}

type Tended = {
  readonly leader: Leader
  readonly people: People
  readonly funded: readonly Funded[]
  readonly signal: AbortSignal
}

async function tend ({ leader, people, funded, signal }: Tended): Promise<void> {
  for (let looks = 1; !signal.aborted; looks++) {
    await sleep(LEADER_POLL_MS, signal).catch(() => {})
    if (looks % LOOKS_A_LEASE === 0) await leader.forgetDead()
    // Whoever has a movement in hand gets it to the journal long before people look.
    if (looks % LOOKS_OF_PEOPLE !== 0) continue
    for (const { tenant } of funded) await people.lookAfter(tenant)
  }
}
