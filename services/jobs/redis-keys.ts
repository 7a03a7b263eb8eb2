import { taggedTenant } from '../money/redis-keys.ts'

/** Redis keys of a job; they share a hash tag with the wallet, so that one script can use both. */
export const jobKeys = (tenant: string, job: string) => ({
  /**
   * Hash: the fields of `RECORD_FIELDS` (claim, then refusal or job); `seen:<chunk>`: bitmap of the
   * finished rows; `inputs:<chunk>`: 1 once the inputs are stored, 2 if they are blank ones in
   * place of lost ones; `block:<digest>`: the rows that a block won; `order:<digest>`: the number
   * of the block in the order of counting, `countedBlocks`: the last such number; `pace`: two times
   * with the number of rows that had an answer by then, see `waiting.lua`; `INLINE_RESULTS_FIELD`.
   */
  job: `job:${taggedTenant(tenant)}:${job}`,
  /** The wrapped data key. */
  dataKey: `dek:${taggedTenant(tenant)}:${job}`,
  /**
   * Hash: number of the verification batch, `<chunk>:<batch>` -> its `WaitingBatch` as JSON; only
   * batches with rows that wait.
   */
  waiting: `waiting:${taggedTenant(tenant)}:${job}`,
  /**
   * Mark of an erased job, kept as long as its results would have been: `1`, or `done:<ms>` once no
   * store has a copy of its key.
   */
  erased: `erased:${taggedTenant(tenant)}:${job}`,
})

/** The field with the inline results of a job, from its end until its close. */
export const INLINE_RESULTS_FIELD = 'attached'

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

/** Of each server, a string: its run in which erased jobs were re-erased. */
export const ERASED_IN = 'erased-in'

/** Of each server, a string: the time, in ms, up to which it has all erasures. */
export const ERASED_UNTIL = 'erased-until'

/**
 * Hashes of the idempotency keys that were first used on even and on odd days (UTC): key -> end of
 * the binding, its job, and the fingerprint of the request; see `idempotency.lua`.
 */
export const idempotencyKeysOf = (tenant: string): readonly [string, string] =>
  [`idem:${taggedTenant(tenant)}:even`, `idem:${taggedTenant(tenant)}:odd`]

/** The field of an idempotency key in one of these hashes: a UUID as 16 bytes. */
export const idempotencyFieldOf = (key: string): Buffer =>
  Buffer.from(key.replaceAll('-', '').replace(/[0-9a-f]{2}/gi,
    pair => String.fromCharCode(Number.parseInt(pair, 16))), 'latin1')

/** Pub/sub channel: ids of jobs whose outcome is decided, whose status changed, or that ended. */
export const OUTCOMES_CHANNEL = 'outcomes'
