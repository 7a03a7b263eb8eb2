/** A tenant in a key. The organization is the hash tag: one script may read both of its modes. */
export function taggedTenant (tenant: string): string {
  const dot = tenant.lastIndexOf('.')
  return `{${tenant.slice(0, dot)}}${tenant.slice(dot)}`
}

/** The keys of a tenant's money in Redis. */
export const moneyKeys = (tenant: string) => ({
  /**
   * Hash: available, reserved, charged, funded, seq; `entry:<seq>`: an entry as JSON, until it is
   * in the journal topic; slots: how many jobs hold one; `open:<job>`: when a job that is not
   * closed made progress last (Redis, ms); and the recovery guard: run of the server that the
   * tenant was let in for, fence of the ledger that did, frozen and why, trust: what a thaw goes
   * by.
   */
  wallet: `w:${taggedTenant(tenant)}`,
  /** Hash: id of a top-up or adjustment -> what was posted, so that none is posted twice. */
  posted: `posted:${taggedTenant(tenant)}`,
  /** Hash: job whose blocks are to be counted again -> since when, in ms. */
  replay: `replay:${taggedTenant(tenant)}`,
})

/**
 * Set of all tenants that ever moved money or had a job; global, hence never touched inside a
 * script.
 */
export const TENANTS_KEY = 'tenants'

/**
 * Sorted set of the tenants that may have something under way, by the time they were marked;
 * global as well.
 */
export const ACTIVE_KEY = 'active-tenants'

/** Set of the tenants with jobs whose blocks are to be counted again; global as well. */
export const REPLAYING_KEY = 'replaying'

/** Pub/sub channel: tenants that want to be let in. */
export const LOCKED_TENANTS_CHANNEL = 'unblessed'
