import Type, { type Static } from 'typebox'
import type { Policy } from '../../accounts/organizations.ts'
import { joinLua, type RedisClient, script } from '../../runtime/platform/redis.ts'
import { InfrastructureError } from '../../runtime/platform/errors.ts'
import {
  type Bucket, FairPool, type Level, secondsUntil, SerialQueues, TokenBuckets,
} from '../../runtime/platform/limits.ts'
import { createLogThrottle, type Log } from '../../runtime/platform/log.ts'
import type { Metrics } from '../../runtime/platform/metrics.ts'
import { taggedTenant } from '../../money/redis-keys.ts'
import { ApiException } from '../errors.ts'

/** Requests that change something have other limits than those that read. */
type RateLimits = Readonly<Record<'post' | 'get', readonly Bucket[]>>

/** `org`: live and test requests of an organization share its limits. */
type LimitedRequest = { readonly org: string, readonly kind: 'post' | 'get' }

/** `throttled`: a bucket is empty and no token was taken. */
type Admission = {
  readonly kind: 'admitted' | 'throttled'
  readonly levels: readonly Level[]
}

type RequestLimiterDeps = {
  /** Has the buckets that all instances share. */
  readonly cache: RedisClient
  /** The current limits of an organization. */
  readonly limits: (org: string) => RateLimits
  readonly log: Pick<Log, 'warn'>
  readonly metrics: Metrics
  /** Maximum time to wait for the shared buckets. */
  readonly timeoutMs?: number
  /** A monotonic clock, in milliseconds. */
  readonly now?: () => number
  /** The Lua file that defines `now_micros`. */
  readonly clockLua?: URL
}

/** How long the shared buckets are not used after a failure. */
const RETRY_SHARED_MS = 1_000
const LOG_INTERVAL_MS = 60_000

/**
 * Takes tokens from the buckets of this instance and then from the shared ones in Redis, which
 * decide. A request is rejected at once if the local buckets are empty. While the shared ones are
 * unavailable, the local ones decide; one request per second probes the shared ones. Never rejects.
 */
export class RequestLimiter {
  readonly #deps: RequestLimiterDeps
  readonly #now: () => number
  readonly #mayLog: (what: string) => boolean
  /** With the algorithm of `buckets.lua`. */
  readonly #local: TokenBuckets
  readonly #shared: Readonly<Record<'take' | 'refund' | 'levels', SharedCommand>>
  /** 0 while the shared buckets are available. */
  #retryAtMs = 0

  constructor (deps: RequestLimiterDeps) {
    this.#deps = deps
    this.#now = deps.now ?? (() => performance.now())
    this.#mayLog = createLogThrottle(LOG_INTERVAL_MS, this.#now)
    this.#local = new TokenBuckets(this.#now)
    this.#shared = {
      take: sharedCommand(deps, 'take'),
      refund: sharedCommand(deps, 'refund'),
      levels: sharedCommand(deps, 'levels'),
    }
  }

  /** Takes one token from every bucket of the organization and kind. */
  async admit (request: LimitedRequest): Promise<Admission> {
    const { name, buckets } = this.#bucketsOf(request)
    const { isTaken, levels } = this.#local.take(name, buckets)
    if (!isTaken) return { kind: 'throttled', levels }
    const shared = await this.#tryShared('take', request)
    if (shared === undefined) {
      this.#deps.metrics.count('limits_local_total', {})
      return { kind: 'admitted', levels }
    }
    if (shared.kind === 'throttled') this.#local.add(name, buckets, 1)
    return shared
  }

  /** Returns the tokens of an admitted request. */
  async refund (request: LimitedRequest): Promise<void> {
    const { name, buckets } = this.#bucketsOf(request)
    this.#local.add(name, buckets, 1)
    await this.#tryShared('refund', request)
  }

  /** Reads the buckets of a request without taking tokens. */
  async levels (request: LimitedRequest): Promise<readonly Level[]> {
    const { name, buckets } = this.#bucketsOf(request)
    const shared = await this.#tryShared('levels', request)
    return shared?.levels ?? this.#local.levels(name, buckets)
  }

  #bucketsOf ({ org, kind }: LimitedRequest) {
    return { name: `${org}:${kind}`, buckets: this.#deps.limits(org)[kind] }
  }

  async #tryShared (
    command: 'take' | 'refund' | 'levels', request: LimitedRequest
  ): Promise<Admission | undefined> {
    if (this.#now() < this.#retryAtMs) return undefined
    if (this.#retryAtMs > 0) this.#retryAtMs = this.#now() + RETRY_SHARED_MS
    try {
      const answer = await withDeadline(this.#shared[command](request), this.#deps.timeoutMs)
      this.#retryAtMs = 0
      return answer
    } catch (error) {
      this.#retryAtMs = this.#now() + RETRY_SHARED_MS
      if (this.#mayLog('unavailable')) {
        this.#deps.log.warn({ err: error },
          'shared rate limits unavailable, using the limits of this instance')
      }
      return undefined
    }
  }
}

type SharedCommand = (request: LimitedRequest) => Promise<Admission>

/** A script on the buckets in Redis, with one round trip. */
function sharedCommand (
  { cache, limits, clockLua }: RequestLimiterDeps, name: string
): SharedCommand {
  const [clock, buckets, command] = ['./clock.lua', './buckets.lua', `./${name}.lua`]
    .map(path => new URL(path, import.meta.url)) as [URL, URL, URL]
  const source = joinLua(clockLua ?? clock, buckets, command)
  const run = script(cache, { name, source, numberOfKeys: 1 })
  return async ({ org, kind }) => {
    const buckets = limits(org)[kind]
    const numbers = buckets.flatMap(({ capacity, seconds }) => [capacity, seconds])
    const [answer, ...tokens] = await run([`limit:{${org}}:${kind}`], numbers) as string[]
    const levels = buckets.map((bucket, at) => ({ bucket, tokens: Number(tokens[at]) }))
    return { kind: answer === 'throttled' ? 'throttled' : 'admitted', levels }
  }
}

async function withDeadline<T> (work: Promise<T>, timeoutMs = 100): Promise<T> {
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
 * The rate limit headers: limit and remainder of the bucket with the fewest tokens, seconds until
 * it is full, and every bucket as `capacity;w=seconds`.
 */
export function rateLimitHeaders (levels: readonly Level[]): Record<string, string> {
  const nearest = levels.reduce((least, level) =>
    countRemaining(level) < countRemaining(least) ? level : least)
  return {
    'ratelimit-limit': String(nearest.bucket.capacity),
    'ratelimit-remaining': String(countRemaining(nearest)),
    'ratelimit-reset': String(Math.ceil(secondsUntil(nearest, nearest.bucket.capacity))),
    'ratelimit-policy': levels.map(({ bucket }) => `${bucket.capacity};w=${bucket.seconds}`)
      .join(', '),
  }
}

const countRemaining = ({ tokens }: Level) => Math.max(0, Math.floor(tokens))

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

type LimitSettings = Static<ReturnType<typeof Type.Object<typeof limitFields>>>

/** The rate limits of an organization, by the configuration or its policy. */
export function toRateLimits (
  settings: LimitSettings, policy: Pick<Policy, 'postBurst' | 'postSustained' | 'gets'>
): RateLimits {
  const {
    postBurst = settings.LIMIT_POST_BURST,
    postSustained = settings.LIMIT_POST_SUSTAINED,
    gets = settings.LIMIT_GET,
  } = policy
  return {
    post: [
      { capacity: postBurst, seconds: settings.LIMIT_POST_BURST_SECONDS },
      { capacity: postSustained, seconds: settings.LIMIT_POST_SUSTAINED_SECONDS },
    ],
    get: [{ capacity: gets, seconds: settings.LIMIT_GET_SECONDS }],
  }
}

/** KEYS: samples. ARGV: digest, its rows, the most rows, seconds. */
const TAKE = `
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  return 'repeated'
end
local taken = tonumber(ARGV[2])
for _, rows in ipairs(redis.call('HVALS', KEYS[1])) do
  taken = taken + tonumber(rows)
end
if taken > tonumber(ARGV[3]) then
  return 'refused'
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[4], 'NX')
return 'taken'`

const DAY_SECONDS = 86_400

export type SampleRows = ReturnType<typeof createSampleRows>

/**
 * Counts the rows of samples that a tenant has had verified since its first one of 24 hours, as
 * nobody pays for them. Returns whether a sample may be verified; the same one counts once, and
 * is reported once.
 */
export function createSampleRows (
  redis: RedisClient, { maxRows, onTaken }: {
    readonly maxRows: number, readonly onTaken: (rows: number) => void
  }
) {
  const take = script(redis, { name: 'take-sample', source: TAKE, numberOfKeys: 1 })
  return async (tenant: string, digest: string, rows: number): Promise<boolean> => {
    // Hash: digest of a sample -> its rows.
    const key = `samples:${taggedTenant(tenant)}`
    const outcome = await take([key], [digest, rows, maxRows, DAY_SECONDS])
    if (outcome === 'taken') onTaken(rows)
    return outcome !== 'refused'
  }
}

type Limits = {
  readonly capacity: number
  /** Maximum of one organization. */
  readonly maxPerName: number
}

type EventStream = {
  /** Aborted when the stream must end: the service stops, or an organization takes its place. */
  readonly signal: AbortSignal
  readonly release: () => void
}

/** The open event streams of this process, a bounded number that organizations share fairly. */
export class EventStreams {
  readonly #pool: FairPool
  readonly #stopped = new AbortController()

  constructor (limits: Limits) {
    this.#pool = new FairPool(limits)
  }

  /** The number of open streams. */
  get total (): number {
    return this.#pool.total
  }

  /** A place for a stream; undefined if the organization has its share. */
  open (organization: string): EventStream | undefined {
    const evicted = new AbortController()
    const place = this.#pool.open(organization, () => evicted.abort())
    if (!place.grow(1)) return undefined
    return {
      signal: AbortSignal.any([this.#stopped.signal, evicted.signal]),
      release: () => place.release(),
    }
  }

  /** Ends all streams. */
  stop (): void {
    this.#stopped.abort()
  }
}

/** Requests of one tenant that wait in this process, beside the one that runs. */
const MAX_WAITING_READS = 10
const READ_RETRY_SECONDS = 2

/**
 * Limits expensive reads to one per tenant in this process; further ones wait in order, so that one
 * tenant never uses more than a share of it.
 * @throws ApiException `rate_limited` when too many wait.
 */
export function createTenantGate () {
  const queues = new SerialQueues()
  const requests = new Map<string, number>()
  return async <T>(tenant: string, read: () => Promise<T>): Promise<T> => {
    const before = requests.get(tenant) ?? 0
    if (before > MAX_WAITING_READS) {
      throw new ApiException({
        code: 'rate_limited',
        message: 'Too many requests of this kind are running for this account. Send it again ' +
          'after the seconds in Retry-After.',
        retryAfterSeconds: READ_RETRY_SECONDS,
      })
    }
    requests.set(tenant, before + 1)
    try {
      return await queues.take(tenant, read)
    } finally {
      const left = (requests.get(tenant) ?? 0) - 1
      if (left > 0) requests.set(tenant, left)
      else requests.delete(tenant)
    }
  }
}
