/** The limits of an organization; the configuration applies where one is undefined. */
export type Policy = {
  /** Maximum age of a cached record, in days; 0 disables the cache for this organization. */
  readonly freshnessDays: number
  /** Share of a busy stage, as a multiple of the default share. */
  readonly weight: number
  /** Jobs with fresh rows at a time, of each of its tenants. */
  readonly activeJobs?: number
  /** Requests, as `LIMIT_POST_BURST`, `LIMIT_POST_SUSTAINED` and `LIMIT_GET`. */
  readonly postBurst?: number
  readonly postSustained?: number
  readonly gets?: number
}

/** Maximum of every policy, as the public API promises. */
export const MAX_FRESHNESS_DAYS = 90

export const DEFAULT_POLICY: Policy = { freshnessDays: MAX_FRESHNESS_DAYS, weight: 1 }

type Range = { readonly min: number, readonly max: number }

const MAX_REQUESTS = 1_000_000

/** The allowed range of each field. */
export const POLICY_RANGES: Readonly<Record<keyof Policy, Range>> = {
  freshnessDays: { min: 0, max: MAX_FRESHNESS_DAYS },
  weight: { min: 1, max: 100 },
  activeJobs: { min: 1, max: 10_000 },
  postBurst: { min: 1, max: MAX_REQUESTS },
  postSustained: { min: 1, max: MAX_REQUESTS },
  gets: { min: 1, max: MAX_REQUESTS },
}

/** New values by name; `default` resets one to the configuration. */
export type PolicyChange = { readonly [Name in keyof Policy]?: number | 'default' }

const NAMES = Object.keys(POLICY_RANGES) as readonly (keyof Policy)[]

/**
 * The stored fields of a change.
 * @throws RangeError for a value out of range.
 */
export function fieldsOfPolicy (change: PolicyChange): Readonly<Record<string, string>> {
  return Object.fromEntries(NAMES.flatMap(name => {
    const value = change[name]
    if (value === undefined) return []
    if (value === 'default') return [[name, '']]
    const { min, max } = POLICY_RANGES[name]
    if (Number.isInteger(value) && value >= min && value <= max) return [[name, String(value)]]
    const shown = Number.isNaN(value) ? 'not a whole number' : value
    throw new RangeError(
      `${name} is ${shown}; use an integer from ${min} to ${max}, or "default".`)
  }))
}

/** The policy in stored fields, clamped to the allowed ranges. */
export function policyOf (fields: Readonly<Record<string, string | undefined>>): Policy {
  const set = NAMES.flatMap(name => {
    const { min, max } = POLICY_RANGES[name]
    const value = Math.min(Math.max(Number(fields[name]), min), max)
    return fields[name] === '' || Number.isNaN(value) ? [] : [[name, value] as const]
  })
  return { ...DEFAULT_POLICY, ...Object.fromEntries(set) }
}
