import type { Redis } from 'ioredis'
import { sleep } from '../../services/platform/retry.ts'
import { FrozenError, RecoveringError } from '../../services/money/recovery-guard.ts'
import { moneyKeys } from '../../services/money/redis-keys.ts'
import type { createWallet } from '../../services/money/wallet.ts'
import { payIn, type Funded } from './funding.ts'
import type { World } from './world.ts'

export type LettingIn = {
  readonly redis: Redis
  readonly wallet: ReturnType<typeof createWallet>
  readonly funded: readonly Funded[]
  readonly losses: Pick<World['losses'], 'runId'>
  /** Throws when there is nothing to wait for. */
  readonly check: () => void
}

const LEADER_POLL_MS = 100

/** Resolves when every tenant is let in for the run of Redis that serves now. */
export async function allLetIn (options: LettingIn): Promise<void> {
  const { redis, funded } = options
  const marks = funded.map(({ tenant }) => moneyKeys(tenant).replay)
  for (;;) {
    const areLetIn = await Promise.all(funded.map(one => isLetIn(one, options)))
    if (!areLetIn.includes(false) && await redis.exists(...marks) === 0) return
    await sleep(LEADER_POLL_MS)
  }
}

async function isLetIn (
  one: Funded, { redis, wallet, losses, check }: LettingIn
): Promise<boolean> {
  check()
  try {
    // Whoever was lost with it is paid in once more: with the same id it counts once.
    await payIn(wallet, one)
  } catch (error) {
    if (error instanceof RecoveringError || error instanceof FrozenError) return false
    throw error
  }
  return await redis.hget(moneyKeys(one.tenant).wallet, 'run') === losses.runId()
}
