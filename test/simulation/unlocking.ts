import type { Redis } from 'ioredis'
import { sleep } from '../../services/runtime/platform/retry.ts'
import { FrozenError, RecoveringError } from '../../services/money/recovery-guard.ts'
import { moneyKeys } from '../../services/money/redis-keys.ts'
import type { createWallet } from '../../services/money/wallet.ts'
import { payIn, type Funded } from './funding.ts'
import type { Environment } from './environment.ts'

export type UnlockOptions = {
  readonly redis: Redis
  readonly wallet: ReturnType<typeof createWallet>
  readonly funded: readonly Funded[]
  readonly losses: Pick<Environment['losses'], 'runId'>
  /** Throws when waiting is pointless. */
  readonly check: () => void
}

const LEADER_POLL_MS = 100

/** Resolves when every tenant is unlocked for the current run of Redis. */
export async function untilUnlocked (options: UnlockOptions): Promise<void> {
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
    if (error instanceof RecoveringError || error instanceof FrozenError) return false
    throw error
  }
  return await redis.hget(moneyKeys(one.tenant).wallet, 'run') === losses.runId()
}
