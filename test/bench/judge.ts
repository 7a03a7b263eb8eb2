import { LIMITS, type Limit } from './limits.ts'
import type { Report } from './report.ts'

export type Verdict = 'aim met' | 'met' | 'missed' | 'not measured'

export type Judgement = Pick<Limit, 'figure' | 'unit' | 'is' | 'limit' | 'aim' | 'part'> & {
  readonly verdict: Verdict
  readonly value?: number
  /** By how many percent of the limit; only of a missed one. */
  readonly missedByPercent?: number
}

/** Holds one value against its limit and its aim; one that equals them meets them. */
export function judge (limit: Omit<Limit, 'valueOf'>, value: number | undefined): Judgement {
  const { figure, unit, is, limit: bound, aim, part } = limit
  const stated = {
    figure,
    unit,
    is,
    limit: bound,
    ...aim !== undefined && { aim },
    ...part !== undefined && { part },
  }
  if (value === undefined) return { ...stated, verdict: 'not measured' }
  const reaches = (goal: number) => is === 'most' ? value <= goal : value >= goal
  if (aim !== undefined && reaches(aim)) return { ...stated, value, verdict: 'aim met' }
  if (reaches(bound)) return { ...stated, value, verdict: 'met' }
  const missedByPercent = Math.abs(value - bound) / bound * 100
  return { ...stated, value, verdict: 'missed', missedByPercent }
}

/** All limits, held against one run. */
export function judgeAll (report: Report): readonly Judgement[] {
  return LIMITS.map(({ valueOf, ...limit }) => judge(limit, valueOf(report)))
}

/** How much of a limit is used up, 1 being all of it; more is worse whatever the figure. */
export function shareOfLimit ({ is, limit }: Judgement, value: number): number {
  return is === 'most' ? value / limit : limit / value
}
