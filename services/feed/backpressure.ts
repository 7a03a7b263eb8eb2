import type { Redis } from 'ioredis'
import type { Wallet } from '../money/wallet.ts'
import { moneyKeys } from '../money/redis-keys.ts'
import { isInfrastructure } from '../runtime/platform/errors.ts'
import { retryForever, sleep } from '../runtime/platform/retry.ts'
import type { Backpressure } from './cursor.ts'

export type BackpressureDeps = {
  readonly wallet: Pick<Wallet, 'balance'>
  readonly redis: Pick<Redis, 'hget'>
  /** A retry is due after this time in any case: cache hits and prices change. */
  readonly maxPauseMs: number
  readonly pollMs: number
}

type BackpressureWait = { readonly deps: BackpressureDeps, readonly signal: AbortSignal }

/** A slot may become free between the refusal and the first poll, so a wait for slots is short. */
const MAX_SLOT_PAUSE_MS = 5_000

/**
 * Resolves once a tenant has the balance or slot that a refused job needs, or after the maximum
 * pause. Rejects when the signal is aborted.
 */
export async function untilAcceptable (
  tenant: string, refusal: Backpressure, { deps, signal }: BackpressureWait
): Promise<void> {
  const isAcceptable = await acceptableCheck(tenant, refusal, { deps, signal })
  const maxMs = refusal.code === 'concurrent_jobs_limit' ? MAX_SLOT_PAUSE_MS : Infinity
  const endsAtMs = performance.now() + Math.min(deps.maxPauseMs, maxMs)
  do await sleep(deps.pollMs, signal)
  while (performance.now() < endsAtMs && !await isAcceptable())
}

async function acceptableCheck (
  tenant: string, refusal: Backpressure, { deps, signal }: BackpressureWait
): Promise<() => Promise<boolean>> {
  const retrying = <T>(action: () => Promise<T>) =>
    retryForever(action, { signal, when: isInfrastructure })
  if (refusal.code === 'insufficient_balance') {
    const { requiredMicros } = refusal
    const balance = () => retrying(() => deps.wallet.balance(tenant))
    return async () => (await balance()).availableMicros >= requiredMicros
  }
  const { wallet } = moneyKeys(tenant)
  const slotsTaken = () => retrying(async () => Number(await deps.redis.hget(wallet, 'slots')))
  const atRefusal = await slotsTaken()
  return async () => await slotsTaken() < Math.max(1, atRefusal)
}
