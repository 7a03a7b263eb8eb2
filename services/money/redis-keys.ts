import { globalKey } from '../runtime/platform/redis.ts'

/** A tenant in a key. The organization is the hash tag: one script may read both of its modes. */
export function taggedTenant (tenant: string): string {
  const dot = tenant.lastIndexOf('.')
  return `{${tenant.slice(0, dot)}}${tenant.slice(dot)}`
}

/** The keys of a tenant's money in Redis. */
export const moneyKeys = (tenant: string) => ({
  /**
   * Hash: available, reserved, charged, funded, seq; `entry:<seq>`: an entry as JSON, until it is
   * in the journal topic; slots: number of jobs that hold one; `open:<job>`: acceptance, end or
   * recovery of a job that is not closed (Redis time, ms). Recovery guard: `run`: id of the server
   * run for which the wallet was unlocked; `fence`: of the ledger that did; `frozen`: why, if it
   * is; `trust`: what a thaw trusts.
   */
  wallet: `w:${taggedTenant(tenant)}`,
  /** Hash: entryId, `topup:<id>` or `adjust:<id>` -> its seq and amount, for idempotency. */
  posted: `posted:${taggedTenant(tenant)}`,
  /** Hash: job whose blocks must be recounted -> from which time on, in ms. */
  recounts: `recounts:${taggedTenant(tenant)}`,
})

/** Set of all tenants that ever moved money or had a job; global, so no script touches it. */
export const TENANTS_KEY = globalKey('tenants')

/** Sorted set of the tenants with recent activity, by the time of the mark; global as well. */
export const ACTIVE_KEY = globalKey('active-tenants')

/** Set of the tenants with jobs whose blocks must be recounted; global as well. */
export const RECOUNTING_KEY = globalKey('recounting')

/** Pub/sub channel: tenants that wait to be unlocked. */
export const LOCKED_TENANTS_CHANNEL = 'locked-tenants'

/** The lease and the fencing token of the leading ledger. */
export const LEADER_KEY = globalKey('leader')
export const FENCE_KEY = globalKey('fence')

/** String: the last export of journal heads, as it was sent. */
export const EXPORTED_KEY = globalKey('head-exported')

/** Hash: `<tenant> <job>` -> when ledger last failed to complete this open job, in ms. */
export const FAILED_TAKEOVERS_KEY = globalKey('failed-takeovers')

/**
 * `settle` holds the entry of a movement for so long, in milliseconds, and then counts again: if
 * Redis has lost the movement, recovery waits only `LEADER_GRACE_MS`, at least twice as long,
 * for the entry. Sent later, it would have the number of another.
 */
export const ENTRY_VALID_MS = 500
