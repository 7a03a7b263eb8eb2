import type { Redis } from 'ioredis'
import { createUnlocker } from '../../services/money/recovery-guard.ts'
import { createWallet } from '../../services/money/wallet.ts'
import type { Chaos } from './chaos.ts'

/** A tenant that was given money before anything else. */
export type Funded = { readonly tenant: string, readonly amountMicros: number }

/** Unlocks tenants and funds each with a random amount. */
export async function fund (
  redis: Redis, tenants: readonly string[], chaos: Chaos
): Promise<readonly Funded[]> {
  const wallet = createWallet(redis)
  await Promise.all(tenants.map(createUnlocker(redis)))
  const funded = tenants.map(tenant => ({ tenant, amountMicros: 50_000 + chaos.below(400_000) }))
  for (const one of funded) await payIn(wallet, one)
  return funded
}

/** However often it is done, it counts once. */
export async function payIn (
  wallet: ReturnType<typeof createWallet>, { tenant, amountMicros }: Funded
): Promise<void> {
  await wallet.topUp(tenant, { id: 'start', amountMicros, reason: 'simulation' })
}
