import type { Redis } from 'ioredis'
import { idempotencyKeyOf } from '../jobs/redis-keys.ts'
import type { Metrics } from '../lib/metrics.ts'
import type { AdmissionRule } from './admission-rule.ts'
import { createAdmission, type Admission } from './admission.ts'

type Connected = {
  readonly state: Pick<Redis, 'exists'>
  readonly metrics: Metrics
}

/** What watches preflights, and the rule by which requests are refused. */
export function connectAdmission (
  { state, metrics }: Connected, settings: { readonly BEHIND_AFTER_MS: number }
): { readonly admission: Admission, readonly rule: AdmissionRule } {
  const admission = createAdmission({ behindAfterMs: settings.BEHIND_AFTER_MS, metrics })
  const isClaimed = async (tenant: string, idempotencyKey: string) =>
    await state.exists(idempotencyKeyOf(tenant, idempotencyKey)) === 1
  return { admission, rule: { admission, isClaimed, metrics } }
}
