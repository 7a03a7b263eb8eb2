import type { Redis } from 'ioredis'
import { idempotencyKeyOf } from '../jobs/redis-keys.ts'
import type { Clock } from '../lib/clock.ts'
import type { Metrics } from '../lib/metrics.ts'
import type { AdmissionRule } from './admission-rule.ts'
import { createAdmission, type Admission } from './admission.ts'

type Connected = {
  readonly state: Redis
  /** Redis time. */
  readonly clock: Clock
  readonly metrics: Metrics
}

/** What watches preflights, and the rule by which requests are refused. */
export function connectAdmission (
  { state, clock, metrics }: Connected, settings: { readonly BEHIND_AFTER_MS: number }
): { readonly admission: Admission, readonly rule: AdmissionRule } {
  const admission = createAdmission({ behindAfterMs: settings.BEHIND_AFTER_MS, metrics })
  const isClaimed = async (tenant: string, idempotencyKey: string) => {
    const name = idempotencyKeyOf(tenant, idempotencyKey)
    const [job, accepted, acceptBy] = await state.hmget(name, 'job', 'accepted', 'acceptBy')
    return job !== null && (accepted === '1' || clock.now() < Number(acceptBy))
  }
  return { admission, rule: { admission, isClaimed, metrics } }
}
