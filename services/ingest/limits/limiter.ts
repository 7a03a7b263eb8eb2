import { InfrastructureError } from '../../platform/errors.ts'
import { createLogThrottle } from '../../platform/log-throttle.ts'
import type { Log } from '../../platform/log.ts'
import type { Metrics } from '../../platform/metrics.ts'
import type { Bucket, Level } from './rate-limit-headers.ts'

/** Requests that change something have other limits than those that read. */
export type LimitKind = 'post' | 'get'

export type RateLimits = Readonly<Record<LimitKind, readonly Bucket[]>>

/** The current limits of an organization. */
export type LimitsOf = (org: string) => RateLimits

/** `org`: live and test requests of an organization share its limits. */
export type LimitedRequest = { readonly org: string, readonly kind: LimitKind }

/** `throttled`: a bucket is empty and no token was taken. */
export type Admission = {
  readonly kind: 'admitted' | 'throttled'
  readonly levels: readonly Level[]
}

export type Limiter = {
  /** Takes one token from every bucket of the organization and kind. */
  readonly admit: (request: LimitedRequest) => Promise<Admission>
  /** Returns the tokens of an admitted request. */
  readonly refund: (request: LimitedRequest) => Promise<void>
  /** Reads the buckets of a request without taking tokens. */
  readonly levels: (request: LimitedRequest) => Promise<readonly Level[]>
}

/** The same, synchronously. */
export type LocalLimiter = {
  readonly admit: (request: LimitedRequest) => Admission
  readonly refund: (request: LimitedRequest) => void
  readonly levels: (request: LimitedRequest) => readonly Level[]
}

export type LimiterDeps = {
  /** Buckets shared by all instances. */
  readonly shared: Limiter
  /** Buckets of this instance. */
  readonly local: LocalLimiter
  readonly log: Pick<Log, 'warn'>
  readonly metrics: Pick<Metrics, 'count'>
  /** Maximum time to wait for the shared buckets. */
  readonly timeoutMs?: number
  /** A monotonic clock, in milliseconds. */
  readonly now?: () => number
}

/** How long the shared buckets are not used after a failure. */
const RETRY_SHARED_MS = 1_000
const LOG_INTERVAL_MS = 60_000

/**
 * Takes tokens from the local buckets and then from the shared ones, which decide. A request is
 * rejected at once if the local buckets are empty. While the shared ones are unavailable, the local
 * ones decide; one request per second probes the shared ones. Never rejects.
 */
export function createLimiter (deps: LimiterDeps): Limiter {
  const { shared, local, log, metrics, timeoutMs = 100, now = () => performance.now() } = deps
  const mayLog = createLogThrottle(LOG_INTERVAL_MS, now)
  /** 0 while the shared buckets are available. */
  let retryAtMs = 0
  const tryShared = async <T>(request: () => Promise<T>): Promise<T | undefined> => {
    if (now() < retryAtMs) return undefined
    if (retryAtMs > 0) retryAtMs = now() + RETRY_SHARED_MS
    try {
      const answer = await withDeadline(request(), timeoutMs)
      retryAtMs = 0
      return answer
    } catch (error) {
      retryAtMs = now() + RETRY_SHARED_MS
      if (mayLog('unavailable')) {
        log.warn({ err: error },
          'shared rate limits unavailable, using the limits of this instance')
      }
      return undefined
    }
  }
  return {
    admit: async request => {
      const localResult = local.admit(request)
      if (localResult.kind === 'throttled') return localResult
      const answer = await tryShared(() => shared.admit(request))
      if (answer === undefined) metrics.count('limits_local_total', {})
      if (answer?.kind === 'throttled') local.refund(request)
      return answer ?? localResult
    },
    refund: async request => {
      local.refund(request)
      await tryShared(() => shared.refund(request))
    },
    levels: async request => await tryShared(() => shared.levels(request)) ?? local.levels(request),
  }
}

async function withDeadline<T> (work: Promise<T>, timeoutMs: number): Promise<T> {
  const late = Promise.withResolvers<never>()
  const fail = () => late.reject(
    new InfrastructureError(`the cache Redis did not respond within ${timeoutMs} ms`))
  // If the event loop was blocked, a response that has arrived is read first.
  const timer = setTimeout(() => setImmediate(fail), timeoutMs)
  try {
    return await Promise.race([work, late.promise])
  } finally {
    clearTimeout(timer)
  }
}
