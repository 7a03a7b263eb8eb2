/** What an organization may; what is left out is as the service is configured. */
export type Policy = {
  /** How old a record may be, in days, and still answer for this organization; 0 is never. */
  readonly freshnessDays: number
  /** How much of a busy stage it gets, as a multiple of what others get. */
  readonly weight: number
  /** Jobs with fresh rows at a time, of each of its tenants. */
  readonly activeJobs?: number
  /** Requests, as `LIMIT_POST_BURST`, `LIMIT_POST_SUSTAINED` and `LIMIT_GET`. */
  readonly postBurst?: number
  readonly postSustained?: number
  readonly gets?: number
}

/** No policy makes a record usable for longer; the public interface promises it. */
export const MAX_FRESHNESS_DAYS = 90

export const DEFAULT_POLICY: Policy = { freshnessDays: MAX_FRESHNESS_DAYS, weight: 1 }

type Range = { readonly least: number, readonly most: number }

const MAX_REQUESTS = 1_000_000

/** What a policy may be, by name. */
export const POLICY_RANGES: Readonly<Record<keyof Policy, Range>> = {
  freshnessDays: { least: 0, most: MAX_FRESHNESS_DAYS },
  weight: { least: 1, most: 100 },
  activeJobs: { least: 1, most: 10_000 },
  postBurst: { least: 1, most: MAX_REQUESTS },
  postSustained: { least: 1, most: MAX_REQUESTS },
  gets: { least: 1, most: MAX_REQUESTS },
}

/** New values by name; `default` takes one back to what is configured. */
export type PolicyChange = { readonly [Name in keyof Policy]?: number | 'default' }

const NAMES = Object.keys(POLICY_RANGES) as readonly (keyof Policy)[]

/**
 * The stored fields of a change.
 * @throws RangeError for a value that no policy may have.
 */
export function fieldsOfPolicy (change: PolicyChange): Readonly<Record<string, string>> {
  return Object.fromEntries(NAMES.flatMap(name => {
    const value = change[name]
    if (value === undefined) return []
    if (value === 'default') return [[name, '']]
    const { least, most } = POLICY_RANGES[name]
    if (Number.isInteger(value) && value >= least && value <= most) return [[name, String(value)]]
    throw new RangeError(`${name} is a whole number from ${least} to ${most}, or default.`)
  }))
}

/** The policy that stored fields say, within what a policy may be. */
export function policyOf (fields: Readonly<Record<string, string | undefined>>): Policy {
  const set = NAMES.flatMap(name => {
    const { least, most } = POLICY_RANGES[name]
    const value = Math.min(Math.max(Number(fields[name]), least), most)
    return fields[name] === '' || Number.isNaN(value) ? [] : [[name, value] as const]
  })
  return { ...DEFAULT_POLICY, ...Object.fromEntries(set) }
}
