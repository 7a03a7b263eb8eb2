import { taggedTenant } from '../money/redis-keys.ts'

/** Redis keys of a job; they share a hash tag with the wallet, so that one script can use both. */
export const jobKeys = (tenant: string, job: string) => ({
  /**
   * Hash: the fields of `RECORD_FIELDS` (claim, then refusal or job); `seen:<chunk>`: bitmap of the
   * finished rows; `inputs:<chunk>`: 1 once the inputs are stored; `block:<digest>`: the rows that
   * a block won.
   */
  job: `job:${taggedTenant(tenant)}:${job}`,
  /** The wrapped data key. */
  dataKey: `dek:${taggedTenant(tenant)}:${job}`,
  /**
   * Mark of an erased job, kept as long as its results would have been: `1`, or `done:<ms>` once no
   * store has a copy of its key.
   */
  erased: `erased:${taggedTenant(tenant)}:${job}`,
})

/** The job id in an `open:<job>` field of a wallet; undefined for other fields. */
export const openJobIn = (field: string): string | undefined => /^open:(.+)$/.exec(field)?.[1]

/** Hash: cursor -> offset of the last contact of the partition that is in a job. */
export const cursorsKeyOf = (
  tenant: string, { partner, partition }: { readonly partner: string, readonly partition: number }
): string => `cursors:${taggedTenant(tenant)}:${partner}:${partition}`

/**
 * Sorted sets of erasures in progress, `<tenant> <job>`, by the time of the request and of the next
 * check.
 */
export const ERASURES_KEYS = {
  requested: 'erasures:requested', compacting: 'erasures:compacting',
} as const

/** String: the job that an Idempotency-Key is bound to, and the fingerprint of its request. */
export const idempotencyKeyOf = (tenant: string, key: string): string =>
  `idem:${taggedTenant(tenant)}:${key}`

/** Pub/sub channel: ids of jobs whose outcome is decided, whose status changed, or that ended. */
export const OUTCOMES_CHANNEL = 'outcomes'
