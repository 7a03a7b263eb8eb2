const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

/** The waits after each failed try but the last: ten tries in 75 h 35 min. */
export const WAITS_MS: readonly number[] = [
  5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR,
  24 * HOUR,
]

const JITTER = 0.2

/**
 * How long to wait after the failed attempt of this number (from 1), or undefined when it was the
 * last. A fifth more or less, so that receivers that failed together are not tried together; what
 * a receiver asked for is granted up to twice the step.
 */
export function waitMs (
  attempt: number,
  { waitsMs = WAITS_MS, retryAfterMs = 0, random = Math.random }: {
    readonly waitsMs?: readonly number[]
    readonly retryAfterMs?: number | undefined
    /** From 0 to 1. */
    readonly random?: () => number
  } = {}
): number | undefined {
  const stepMs = waitsMs[attempt - 1]
  if (stepMs === undefined) return undefined
  const jitteredMs = stepMs * (1 - JITTER + 2 * JITTER * random())
  return Math.round(Math.min(2 * stepMs, Math.max(jitteredMs, retryAfterMs)))
}

/** What a Retry-After header asks for, in ms: seconds or a date; undefined for anything else. */
export function retryAfterMsOf (header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined
  const text = header.trim()
  if (/^\d{1,9}$/.test(text)) return Number(text) * SECOND
  const atMs = /^[A-Z][a-z]{2}, /.test(text) ? Date.parse(text) : NaN
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - nowMs)
}
