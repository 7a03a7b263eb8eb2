import type { Redis } from 'ioredis'
import { tenantJobKeys } from '../jobs/redis-keys.ts'
import { isInfrastructure } from '../lib/errors.ts'
import { forever, sleep } from '../lib/retry.ts'
import type { Wallet } from '../money/wallet.ts'
import type { Shortage } from './cursor.ts'

export type ShortageParts = {
  readonly wallet: Pick<Wallet, 'balance'>
  readonly redis: Pick<Redis, 'scard'>
  /** A new try is worth it after this time in any case: hits and prices change. */
  readonly longestMs: number
  readonly pollMs: number
}

/** A slot that was freed before we looked is not seen: nobody waits for the next one for long. */
const SLOT_MS = 5_000

/** Resolves once a tenant may have what it lacked, or after the longest wait. */
export async function untilRoom (
  tenant: string, shortage: Shortage,
  { parts, signal }: { readonly parts: ShortageParts, readonly signal: AbortSignal }
): Promise<void> {
  const isOver = await overOf(tenant, shortage, { parts, signal })
  const slots = shortage.code === 'concurrent_jobs_limit'
  const endsAtMs = performance.now() + Math.min(parts.longestMs, slots ? SLOT_MS : Infinity)
  do await sleep(parts.pollMs, signal)
  while (performance.now() < endsAtMs && !await isOver())
}

async function overOf (
  tenant: string, shortage: Shortage,
  { parts, signal }: { readonly parts: ShortageParts, readonly signal: AbortSignal }
): Promise<() => Promise<boolean>> {
  const patiently = <T>(action: () => Promise<T>) =>
    forever(action, { signal, when: isInfrastructure })
  if (shortage.code === 'insufficient_balance') {
    const { requiredMicros } = shortage
    const balance = () => patiently(() => parts.wallet.balance(tenant))
    return async () => (await balance()).availableMicros >= requiredMicros
  }
  const active = () => patiently(() => parts.redis.scard(tenantJobKeys(tenant).active))
  const atRefusal = await active()
  return async () => await active() < Math.max(1, atRefusal)
}
