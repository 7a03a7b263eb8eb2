import { LIMITS, type Limit } from './limits.ts'
import type { Report } from './report.ts'

type LimitStatus = 'target met' | 'limit met' | 'limit missed' | 'not measured'

export type LimitCheck = Omit<Limit, 'valueOf'> & {
  readonly status: LimitStatus
  readonly value?: number
  /** Difference in percent of the limit; only of a missed limit. */
  readonly missedByPercent?: number
}

/** Compares a value with its limit and its target. A value equal to a bound meets it. */
export function checkLimit (
  limit: Omit<Limit, 'valueOf'>, value: number | undefined
): LimitCheck {
  const { bound, target } = limit
  if (value === undefined) return { ...limit, status: 'not measured' }
  const meets = (goal: number) => bound === 'upper' ? value <= goal : value >= goal
  if (target !== undefined && meets(target)) return { ...limit, value, status: 'target met' }
  if (meets(limit.limit)) return { ...limit, value, status: 'limit met' }
  const missedByPercent = Math.abs(value - limit.limit) / limit.limit * 100
  return { ...limit, value, status: 'limit missed', missedByPercent }
}

/** Compares a report with all limits. */
export function checkLimits (report: Report): readonly LimitCheck[] {
  return LIMITS.map(({ valueOf, ...limit }) => checkLimit(limit, valueOf(report)))
}

/** Returns the value as a share of its limit. Less is better for both kinds of bounds. */
export function shareOfLimit ({ bound, limit }: LimitCheck, value: number): number {
  return bound === 'upper' ? value / limit : limit / value
}
