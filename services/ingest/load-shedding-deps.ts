import type { Redis } from 'ioredis'
import { idempotencyKeyOf } from '../jobs/redis-keys.ts'
import type { Metrics } from '../platform/metrics.ts'
import type { LoadSheddingRule } from './load-shedding-rule.ts'
import { createLoadShedding, type LoadShedding } from './load-shedding.ts'

type Connected = {
  readonly state: Pick<Redis, 'exists'>
  readonly metrics: Metrics
}

/** The watch of preflights, and the rule that rejects requests under overload. */
export function connectLoadShedding (
  { state, metrics }: Connected, settings: { readonly SHED_LOAD_AFTER_MS: number }
): { readonly admission: LoadShedding, readonly rule: LoadSheddingRule } {
  const admission = createLoadShedding({ overloadedAfterMs: settings.SHED_LOAD_AFTER_MS, metrics })
  const isClaimed = async (tenant: string, idempotencyKey: string) =>
    await state.exists(idempotencyKeyOf(tenant, idempotencyKey)) === 1
  return { admission, rule: { admission, isClaimed, metrics } }
}
