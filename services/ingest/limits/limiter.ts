import Type, { type Static } from 'typebox'
import { joinLua } from '../../money/lua.ts'
import { InfrastructureError } from '../../runtime/platform/errors.ts'
import { createLogThrottle, type Log } from '../../runtime/platform/log.ts'
import type { Metrics } from '../../runtime/platform/metrics.ts'
import { type RedisClient, script } from '../../runtime/platform/redis.ts'
import {
  type Bucket, createTokenBuckets, type Level, secondsUntil,
} from '../../runtime/platform/limits.ts'
import { createOrganizations } from '../../accounts/organizations.ts'
import type { Connections } from '../../runtime/engine/connections.ts'
import type { ServiceContext } from '../../runtime/platform/run.ts'

/** Requests that change something have other limits than those that read. */
export type LimitKind = 'post' | 'get'

export type RateLimits = Readonly<Record<LimitKind, readonly Bucket[]>>

/** The current limits of an organization. */
type LimitsOf = (org: string) => RateLimits

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
type LocalLimiter = {
  readonly admit: (request: LimitedRequest) => Admission
  readonly refund: (request: LimitedRequest) => void
  readonly levels: (request: LimitedRequest) => readonly Level[]
}

type LimiterDeps = {
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

/**
 * Rate limits in the memory of this process, with the algorithm of `buckets.lua`. `now` is a
 * monotonic clock, in milliseconds.
 */
export function createLocalLimiter (
  limits: LimitsOf, now: () => number = () => performance.now()
): LocalLimiter {
  const buckets = createTokenBuckets(now)
  const nameOf = ({ org, kind }: LimitedRequest) => `${org}:${kind}`
  const bucketsOf = ({ org, kind }: LimitedRequest) => limits(org)[kind]
  return {
    admit: request => {
      const { isTaken, levels } = buckets.take(nameOf(request), bucketsOf(request))
      return { kind: isTaken ? 'admitted' : 'throttled', levels }
    },
    refund: request => { buckets.add(nameOf(request), bucketsOf(request), 1) },
    levels: request => buckets.levels(nameOf(request), bucketsOf(request)),
  }
}

const CLOCK_LUA = new URL('./clock.lua', import.meta.url)

/**
 * The rate limits of all organizations in Redis, shared by all instances, with one round trip each.
 * `clock` is the Lua file that defines `now_micros`. All functions throw the errors of Redis.
 */
export function createRedisLimiter (
  redis: RedisClient, limits: LimitsOf, clock = CLOCK_LUA
): Limiter {
  const command = (name: string) => {
    const files = ['./buckets.lua', `./${name}.lua`].map(path => new URL(path, import.meta.url))
    const run = script(redis, { name, source: joinLua(clock, ...files), numberOfKeys: 1 })
    return async ({ org, kind }: LimitedRequest) => {
      const buckets = limits(org)[kind]
      const numbers = buckets.flatMap(({ capacity, seconds }) => [capacity, seconds])
      const [answer, ...tokens] = await run([`limit:{${org}}:${kind}`], numbers) as string[]
      const levels = buckets.map((bucket, at) => ({ bucket, tokens: Number(tokens[at]) }))
      return { answer, levels }
    }
  }
  const [take, refund, read] =
    [command('take'), command('refund'), command('levels')]
  return {
    admit: async request => {
      const { answer, levels } = await take(request)
      return { kind: answer === 'throttled' ? 'throttled' : 'admitted', levels }
    },
    refund: async request => { await refund(request) },
    levels: async request => (await read(request)).levels,
  }
}

/**
 * The rate limit headers: limit and remainder of the bucket with the fewest tokens, seconds until
 * it is full, and every bucket as `capacity;w=seconds`.
 */
export function rateLimitHeaders (levels: readonly Level[]): Record<string, string> {
  const nearest = levels.reduce((least, level) =>
    remainingOf(level) < remainingOf(least) ? level : least)
  return {
    'ratelimit-limit': String(nearest.bucket.capacity),
    'ratelimit-remaining': String(remainingOf(nearest)),
    'ratelimit-reset': String(Math.ceil(secondsUntil(nearest, nearest.bucket.capacity))),
    'ratelimit-policy': levels.map(({ bucket }) => `${bucket.capacity};w=${bucket.seconds}`)
      .join(', '),
  }
}

function remainingOf ({ tokens }: Level): number {
  return Math.max(0, Math.floor(tokens))
}

const whole = (value: number, description: string) =>
  Type.Integer({ default: value, minimum: 1, description })

/** Settings of the rate limits; defaults are the values of the public interface. */
export const limitFields = {
  LIMIT_POST_BURST: whole(100,
    'Burst of POST requests per organization, live and test together.'),
  LIMIT_POST_BURST_SECONDS: whole(1, 'Seconds to refill the burst of POST requests.'),
  LIMIT_POST_SUSTAINED: whole(1_000, 'Sustained POST requests per organization.'),
  LIMIT_POST_SUSTAINED_SECONDS: whole(60, 'Seconds to refill the sustained POST requests.'),
  LIMIT_GET: whole(200, 'Burst of GET requests per organization.'),
  LIMIT_GET_SECONDS: whole(1, 'Seconds to refill the burst of GET requests.'),
  MAX_PREFLIGHTS: whole(10, 'Maximum number of concurrent preflights of a tenant per lane and ' +
    'instance; further requests wait.'),
  MAX_PREFLIGHT_ROWS: whole(100_000,
    'Maximum number of rows of these preflights, unless one alone has more.'),
}

type Settings = Static<ReturnType<typeof Type.Object<typeof limitFields>>>

/** The rate limits of a configuration. */
export function limitsOf (settings: Settings): RateLimits {
  return {
    post: [
      { capacity: settings.LIMIT_POST_BURST, seconds: settings.LIMIT_POST_BURST_SECONDS },
      { capacity: settings.LIMIT_POST_SUSTAINED, seconds: settings.LIMIT_POST_SUSTAINED_SECONDS },
    ],
    get: [{ capacity: settings.LIMIT_GET, seconds: settings.LIMIT_GET_SECONDS }],
  }
}

/** The rate limits of the configuration or of the policy of an organization, in the cache Redis. */
export function limiterOf (
  { cache, state, log, metrics }:
  Pick<Connections, 'cache' | 'state'> & Pick<ServiceContext, 'log' | 'metrics'>,
  settings: Settings
): Limiter {
  const { cachedOrgPolicy } = createOrganizations(state)
  const defaults = limitsOf(settings)
  const limits = (org: string) => {
    const { postBurst, postSustained, gets } = cachedOrgPolicy(org)
    if ((postBurst ?? postSustained ?? gets) === undefined) return defaults
    return limitsOf({
      ...settings,
      LIMIT_POST_BURST: postBurst ?? settings.LIMIT_POST_BURST,
      LIMIT_POST_SUSTAINED: postSustained ?? settings.LIMIT_POST_SUSTAINED,
      LIMIT_GET: gets ?? settings.LIMIT_GET,
    })
  }
  const shared = createRedisLimiter(cache, limits)
  return createLimiter({ shared, local: createLocalLimiter(limits), log, metrics })
}
