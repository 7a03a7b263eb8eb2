import { createLogThrottle } from '../../platform/log-throttle.ts'
import type { Log } from '../../platform/log.ts'
import type { Metrics } from '../../platform/metrics.ts'
import type { Bucket, Level } from './rate-limit-headers.ts'

/** Requests that change something are counted apart from those that only read. */
export type LimitKind = 'post' | 'get'

export type Limits = Readonly<Record<LimitKind, readonly Bucket[]>>

/** What holds for an organization now. */
export type LimitsOf = (org: string) => Limits

/** `org`: the organization, as live and test requests share its limits. */
export type LimitedRequest = { readonly org: string, readonly kind: LimitKind }

/** `throttled`: a bucket is empty and nothing was taken. */
export type Admission = {
  readonly kind: 'admitted' | 'throttled'
  readonly levels: readonly Level[]
}

export type Limiter = {
  /** Takes one token from every bucket of the request's organization and kind. */
  readonly admit: (request: LimitedRequest) => Promise<Admission>
  /** Puts back what an admitted request took. */
  readonly giveBack: (request: LimitedRequest) => Promise<void>
  /** Reads the buckets of the request; takes nothing. */
  readonly levels: (request: LimitedRequest) => Promise<readonly Level[]>
}

/** The same at once. */
export type LocalLimiter = {
  readonly admit: (request: LimitedRequest) => Admission
  readonly giveBack: (request: LimitedRequest) => void
  readonly levels: (request: LimitedRequest) => readonly Level[]
}

export type LimiterDeps = {
  /** Buckets of all instances together. */
  readonly shared: Limiter
  /** Buckets of this instance alone. */
  readonly local: LocalLimiter
  readonly log: Pick<Log, 'warn'>
  readonly metrics: Pick<Metrics, 'count'>
  /** Longest a request waits for the shared buckets. */
  readonly timeoutMs?: number
  /** Milliseconds of a clock that never goes back. */
  readonly now?: () => number
}

/** How long the shared buckets are left alone after they did not answer. */
const AWAY_MS = 1_000
const LOG_EVERY_MS = 60_000

/**
 * Takes from the local buckets and then from the shared ones, which decide. A request that finds
 * the local ones empty is refused at once. While the shared ones do not answer, whatever the
 * reason, the local ones decide alone: one request a second finds out whether they answer again.
 * Never rejects.
 */
export function createLimiter (deps: LimiterDeps): Limiter {
  const { shared, local, log, metrics, timeoutMs = 100, now = () => performance.now() } = deps
  const mayLog = createLogThrottle(LOG_EVERY_MS, now)
  /** 0 while they answer. */
  let askAgainAtMs = 0
  const ask = async <T>(question: () => Promise<T>): Promise<T | undefined> => {
    if (now() < askAgainAtMs) return undefined
    if (askAgainAtMs > 0) askAgainAtMs = now() + AWAY_MS
    try {
      const answer = await inTime(question(), timeoutMs)
      askAgainAtMs = 0
      return answer
    } catch (error) {
      askAgainAtMs = now() + AWAY_MS
      if (mayLog('away')) log.warn({ err: error }, 'rate limits hold for each instance alone')
      return undefined
    }
  }
  return {
    admit: async request => {
      const own = local.admit(request)
      if (own.kind === 'throttled') return own
      const answer = await ask(() => shared.admit(request))
      if (answer === undefined) metrics.count('limits_local_total', {})
      if (answer?.kind === 'throttled') local.giveBack(request)
      return answer ?? own
    },
    giveBack: async request => {
      local.giveBack(request)
      await ask(() => shared.giveBack(request))
    },
    levels: async request => await ask(() => shared.levels(request)) ?? local.levels(request),
  }
}

async function inTime<T> (work: Promise<T>, timeoutMs: number): Promise<T> {
  const late = Promise.withResolvers<never>()
  const giveUp = () => late.reject(new Error(`the cache Redis did not answer in ${timeoutMs} ms`))
  // Where this process itself was busy, an answer that has come meanwhile is read first.
  const timer = setTimeout(() => setImmediate(giveUp), timeoutMs)
  try {
    return await Promise.race([work, late.promise])
  } finally {
    clearTimeout(timer)
  }
}
