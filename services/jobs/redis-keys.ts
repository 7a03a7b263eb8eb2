import { taggedTenant } from '../money/redis-keys.ts'

/** The keys of a tenant's jobs in Redis; the hash tag lets one script reach them with its money. */
export const jobKeys = (tenant: string, job: string) => ({
  /**
   * Hash: the claim, then the refusal or the job, by the names of `RECORD_FIELDS`;
   * `seen:<chunk>`: bitmap of the rows some block has won, `inputs:<chunk>`: 1 once its inputs
   * came, `block:<digest>`: which rows a block won.
   */
  job: `job:${taggedTenant(tenant)}:${job}`,
  /** The wrapped data key. */
  dataKey: `dek:${taggedTenant(tenant)}:${job}`,
  /** There for a job that was erased on demand, as long as its results would have been kept. */
  erased: `erased:${taggedTenant(tenant)}:${job}`,
})

/** The open job that a field of a wallet is of; undefined for any other field. */
export const openJobIn = (field: string): string | undefined => /^open:(.+)$/.exec(field)?.[1]

/** Hash: cursor -> offset of the last contact of that partition that a job took. */
export const cursorsKeyOf = (
  tenant: string, { partner, partition }: { readonly partner: string, readonly partition: number }
): string => `cursors:${taggedTenant(tenant)}:${partner}:${partition}`

/** String: the job an Idempotency-Key is bound to, and the fingerprint of its request. */
export const idempotencyKeyOf = (tenant: string, key: string): string =>
  `idem:${taggedTenant(tenant)}:${key}`

/** Pub/sub channel: the id of each job whose request can be answered. */
export const OUTCOMES_CHANNEL = 'outcomes'
