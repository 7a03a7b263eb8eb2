import type { Redis } from 'ioredis'
import type { Partner, PartnerKeys, Partners } from '../accounts/partners.ts'
import type { SubmitOutcome, Submitter } from '../jobs/submit.ts'
import { moneyKeys } from '../money/redis-keys.ts'
import type { Wallet } from '../money/wallet.ts'
import type { Bus, ConsumeOptions, Consumption, FetchedBatch } from '../runtime/kafka/bus.ts'
import { InconsistencyError, isInfrastructure } from '../runtime/platform/errors.ts'
import type { Log } from '../runtime/platform/log.ts'
import { backoffMs, retryForever, sleep } from '../runtime/platform/retry.ts'
import { FEED_GROUPS, chooseFeedGroup, topicName } from '../runtime/platform/topics.ts'
import {
  type Backpressure, type BatchLimits, createIntake, type FeedJobRequest, type IntakeDeps,
  type JobOutcome, Partition, type PartitionDeps,
} from './intake.ts'
import type { Cursors, MarkStore } from './replay-guard.ts'

export type PartnerFeedsDeps = {
  readonly partners: Pick<Partners, 'list' | 'version'>
  readonly createFeed: (partner: Partner) => PartnerFeed
  readonly bus: Pick<Bus, 'consume' | 'topicNames'>
  readonly pollMs: number
  readonly log: Pick<Log, 'info' | 'warn' | 'error'>
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** Called with an error that retries cannot fix. */
  readonly fail: (error: unknown) => void
}

/** Runs the feeds of all registered partners in a fixed number of consumer groups. */
export function startPartnerFeeds (deps: PartnerFeedsDeps) {
  const { pollMs, log, fail } = deps
  const stopping = new AbortController()
  const { signal } = stopping
  const feeds = new Map<string, PartnerFeed>()
  const groups = new Map(FEED_GROUPS.map(name => [name, new FeedGroup(name, deps)]))
  let areKnown = false
  let version = ''
  const poll = async () => {
    try {
      const current = await deps.partners.version()
      if (current !== version) await reconcile(deps, feeds)
      version = current
      await subscribe(deps, feeds, groups)
      areKnown = true
    } catch (error) {
      if (!isInfrastructure(error)) throw error
      log.warn({ err: error }, 'reading the partners or their topics failed, retrying')
      areKnown = false
    }
  }
  const run = async () => {
    while (!signal.aborted) {
      await poll()
      await sleep(pollMs, signal).catch(() => {})
    }
  }
  const running = run().catch(fail)
  const describeState = (feed: PartnerFeed) => {
    const group = groups.get(chooseFeedGroup(feed.name))
    if (group?.isFailing(feed.topic) === true) return 'failing'
    return group?.isReady === true ? feed.state() : undefined
  }
  return {
    /** True once the partners are known and no group is joining. */
    ready: () => areKnown && [...groups.values()].every(group => group.isReady),
    /** The state of the feed of each partner; undefined while its group is joining. */
    states: (): ReadonlyMap<string, FeedState | undefined> =>
      new Map([...feeds].map(([name, feed]) => [name, describeState(feed)])),
    stop: async (): Promise<void> => {
      stopping.abort()
      await running
      for (const feed of feeds.values()) feed.stop()
      await Promise.all([...groups.values()].map(group => group.stop()))
    },
  }
}

/** Stops the feeds of revoked partners and creates those of new ones. */
async function reconcile (
  { partners, createFeed, log }: PartnerFeedsDeps, feeds: Map<string, PartnerFeed>
): Promise<void> {
  const active = (await partners.list()).filter(({ revokedAtMs }) => revokedAtMs === 0)
  const names = new Set(active.map(({ name }) => name))
  for (const [name, feed] of feeds) {
    if (names.has(name)) continue
    feeds.delete(name)
    feed.stop()
    log.info({ partner: name }, 'partner revoked, feed stopped')
  }
  for (const partner of active.filter(({ name }) => !feeds.has(name))) {
    feeds.set(partner.name, createFeed(partner))
    log.info({ partner: partner.name }, 'partner feed started')
  }
}

async function subscribe (
  { bus }: PartnerFeedsDeps, feeds: ReadonlyMap<string, PartnerFeed>,
  groups: ReadonlyMap<string, FeedGroup>
): Promise<void> {
  let topics: Promise<ReadonlySet<string>> | undefined
  // One request for all groups.
  const existingTopics = () => {
    topics ??= bus.topicNames()
    return topics
  }
  const byGroup = Map.groupBy(feeds.values(), ({ name }) => chooseFeedGroup(name))
  await Promise.all([...groups].map(([name, group]) =>
    group.read(byGroup.get(name) ?? [], existingTopics)))
}

/** A fetch waits for more messages: with many partitions, one for each message costs too much. */
const FETCH_BATCHING = { bytes: 64 * 1_024, maxPartitionBytes: 128 * 1_024, maxWaitMs: 200 }
/** The backoff of a failing feed, or of a failing consumer. */
const RETRY = { firstMs: 1_000, maxMs: 60_000 }
/** Each subscription delivers open batches again; at a poll a second, they can close between. */
const POLLS_BETWEEN_SUBSCRIPTIONS = 10

/**
 * A consumer group that reads the topics of several partners. A kafkajs consumer cannot subscribe
 * to further topics while it runs, so a change starts another one; only partners of this group
 * notice.
 */
class FeedGroup {
  readonly #name: string
  readonly #deps: PartnerFeedsDeps
  #feeds: ReadonlyMap<string, PartnerFeed> = new Map()
  #topics: ReadonlySet<string> = new Set()
  #consumption: Consumption | undefined
  /** A feed is new or revoked, a topic is missing, or the consumer has failed. */
  #isOutdated = false
  #isFailed = false
  #failures = 0
  #startedAtMs = -Infinity
  #heldUntilMs = -Infinity

  constructor (name: string, deps: PartnerFeedsDeps) {
    this.#name = name
    this.#deps = deps
  }

  /**
   * Reads the topics of these feeds. Call it periodically: it subscribes again when they change,
   * but not too often, and after a failure. `existingTopics` is called only then.
   */
  async read (
    feeds: readonly PartnerFeed[], existingTopics: () => Promise<ReadonlySet<string>>
  ): Promise<void> {
    const { now, pollMs } = this.#deps
    const before = new Set(this.#feeds.keys())
    this.#feeds = new Map(feeds.map(feed => [feed.topic, feed]))
    this.#isOutdated ||= !isSame(new Set(this.#feeds.keys()), before)
    if (!this.#isOutdated || now() < this.#heldUntilMs) return
    const existing = this.#feeds.size === 0 ? new Set<string>() : await existingTopics()
    const topics = new Set([...this.#feeds.keys()].filter(topic => existing.has(topic)))
    if (this.#isFailed || !isSame(topics, this.#topics)) {
      await this.stop()
      await this.#start(topics)
    }
    this.#isOutdated = topics.size < this.#feeds.size
    this.#heldUntilMs = now() + POLLS_BETWEEN_SUBSCRIPTIONS * pollMs
  }

  /** True while the group is joined, has nothing to read, or is failing. */
  get isReady (): boolean {
    return this.#topics.size === 0 || this.#consumption?.ready() === true || this.#isFailed
  }

  /** Whether the consumer of the group has failed, or the topic is missing. */
  isFailing (topic: string): boolean {
    return this.#isFailed || !this.#topics.has(topic)
  }

  async stop (): Promise<void> {
    const former = this.#consumption
    this.#consumption = undefined
    this.#topics = new Set()
    await former?.stop()
  }

  async #start (topics: ReadonlySet<string>): Promise<void> {
    const { bus, now } = this.#deps
    this.#topics = topics
    this.#isFailed = false
    this.#startedAtMs = now()
    if (topics.size === 0) return
    this.#consumption = await bus.consume({
      group: this.#name,
      topics: [...topics],
      fetchBatching: FETCH_BATCHING,
      onAssigned: () => { for (const feed of this.#feeds.values()) feed.onAssigned() },
      onDelivery: async delivery => {
        const feed = this.#feeds.get(delivery.topic)
        if (feed !== undefined) return await feed.onDelivery(delivery)
        // Its partner was revoked: the partition pauses until the next subscription.
        redeliver(delivery, new Promise(() => {}))
      },
      onUndecodable: (error, batch) => this.#feeds.get(batch.topic)?.onUndecodable(error, batch),
      onFailed: error => { this.#fail(error) },
    })
  }

  #fail (error: unknown): void {
    const { log, now } = this.#deps
    log.error({ err: error, group: this.#name }, 'consumer of partner feeds failed, restarting it')
    this.#failures = now() - this.#startedAtMs > RETRY.maxMs ? 1 : this.#failures + 1
    this.#heldUntilMs = now() + backoffMs(this.#failures, RETRY)
    this.#isOutdated = this.#isFailed = true
  }
}

function isSame (some: ReadonlySet<string>, others: ReadonlySet<string>): boolean {
  return some.size === others.size && [...some].every(item => others.has(item))
}

export type PartnerFeedDeps = Omit<IntakeDeps, 'partner' | 'keys' | 'openPartition'> &
  Pick<PartitionDeps, 'buffered' | 'now' | 'sleep'> & {
    readonly submit: Submitter
    /** Called with the error of a request whose outcome is unknown, and its cursor. */
    readonly onLost: (error: unknown, cursor: {
      readonly partner: string, readonly partition: number, readonly cursor: string,
    }) => void
    readonly cursors: Cursors
    readonly marks: MarkStore
    readonly partners: Pick<Partners, 'keysOf'>
    readonly batchLimits: BatchLimits
    readonly backpressure: BackpressureDeps
    /** A partner that is refused jobs for this time loses its contacts in memory. */
    readonly pauseAfterMs: number
    /** Called with an error of a partner's messages or of their processing; it is retried. */
    readonly onBroken: (error: unknown, partner: string) => void
  }

/** `paused`: the partner is refused jobs. `failing`: an error that is no outage; retried later. */
type FeedState = 'running' | 'paused' | 'failing'

/** The feed of one partner; other partners share its consumer. */
export type PartnerFeed =
  Required<Pick<ConsumeOptions, 'onDelivery' | 'onAssigned' | 'onUndecodable'>> & {
    readonly name: string
    readonly topic: string
    readonly state: () => FeedState
    /** Releases the contacts in memory; the next reader reads those without a job again. */
    readonly stop: () => void
  }

/**
 * Reads one partner's contacts. A partner that stays without balance or a free slot is paused: its
 * partitions pause, and its contacts leave the memory. After the pause, and after a failure, they
 * are read again from the stored marks. Other partners of the consumer notice nothing.
 */
export function createPartnerFeed (partner: Partner, deps: PartnerFeedDeps): PartnerFeed {
  const { name } = partner
  const stopping = new AbortController()
  let interruption: { readonly state: FeedState, readonly over: Promise<void> } | undefined
  let undecodable = 0
  const nextRetry = createRetryDelays(deps, stopping.signal)
  const interrupt = (state: FeedState, over: Promise<void>) => {
    const { partitions } = session
    reset()
    const current = { state, over: over.catch(() => {}) }
    interruption = current
    current.over.then(() => { if (interruption === current) interruption = undefined })
      .catch(() => {})
    for (const { latest } of partitions.values()) redeliver(latest, current.over)
  }
  const fail = (error: unknown) => {
    deps.onBroken(error, name)
    interrupt('failing', nextRetry())
  }
  const pause = (refusal: Backpressure) => interrupt('paused', untilAcceptable(
    deps.backpressure, { tenant: partner.tenant, refusal, signal: stopping.signal }))
  const start = () => startSession(partner, deps, { fail, pause })
  let session = start()
  const reset = () => {
    session.end()
    session = start()
  }
  return {
    name,
    topic: topicName('feeds.submitted', { partner: name }),
    state: () => interruption?.state ?? (undecodable > 0 ? 'failing' : 'running'),
    onAssigned: () => reset(),
    onDelivery: async delivery => {
      if (interruption !== undefined) return redeliver(delivery, interruption.over)
      await session.take(delivery)
    },
    onUndecodable: (error, batch) => {
      deps.onBroken(error, name)
      undecodable++
      const over = nextRetry().catch(() => {}).finally(() => { undecodable-- })
      batch.retry(over)
    },
    stop: () => {
      stopping.abort(new Error(`feed of partner ${name} stopped`))
      session.end()
    },
  }
}

/** The offset need not be exact: an opened partition seeks to the end of its stored marks. */
function redeliver (delivery: FetchedBatch, after: Promise<void>): void {
  delivery.redeliver(delivery.messages[0]?.offset ?? 0n, after)
}

/** Each call waits before the next retry, longer after failures in close succession. */
function createRetryDelays (
  { now, sleep: pause = sleep }: PartnerFeedDeps, signal: AbortSignal
): () => Promise<void> {
  let failures = 0
  let failedAtMs = -Infinity
  return () => {
    // After the longest wait it has run for as long again: it is healthy.
    if (now() - failedAtMs > 2 * RETRY.maxMs) failures = 0
    failures++
    failedAtMs = now()
    return pause(backoffMs(failures, RETRY), signal)
  }
}

/** How a session ends early. */
type Endings = {
  readonly fail: (error: unknown) => void
  readonly pause: (refusal: Backpressure) => void
}

/** The open partitions of a partner, until the group rebalances or the partner is interrupted. */
function startSession (partner: Partner, deps: PartnerFeedDeps, endings: Endings) {
  const over = new AbortController()
  const partitions = new Map<number, { readonly signal: AbortSignal, latest: FetchedBatch }>()
  const ifOpen = <T>(action: (given: T) => void) =>
    (given: T) => { if (!over.signal.aborted) action(given) }
  const fail = ifOpen(endings.fail)
  const pause = ifOpen(endings.pause)
  const intake = createIntake({
    ...deps,
    partner: partner.name,
    keys: () => requireKeys(deps, partner.name),
    openPartition: delivery => openPartition(partner, deps, { delivery, fail, pause }),
  })
  return {
    partitions,
    take: async (delivery: FetchedBatch): Promise<void> => {
      const { signal = AbortSignal.any([over.signal, delivery.signal]) } =
        partitions.get(delivery.partition) ?? {}
      partitions.set(delivery.partition, { signal, latest: delivery })
      try {
        await intake({ ...delivery, signal })
      } catch (error) {
        if (!signal.aborted) fail(error)
      }
    },
    end: () => over.abort(new Error('partner feed paused, failed or stopped')),
  }
}

async function requireKeys ({ partners }: PartnerFeedDeps, name: string): Promise<PartnerKeys> {
  const keys = await partners.keysOf(name)
  if (keys === undefined) {
    throw new InconsistencyError(`partner ${name} has a running feed, but no registration in ` +
      'Redis; check that Redis has lost no data')
  }
  return keys
}

function openPartition (
  partner: Partner, deps: PartnerFeedDeps,
  { delivery, fail, pause }: Endings & { readonly delivery: FetchedBatch }
): Promise<Partition> {
  const { topic, partition, signal } = delivery
  const { name, tenant } = partner
  const feedPartition = { tenant, partner: name, partition }
  const retrying = <T>(action: () => Promise<T>) =>
    retryForever(action, { signal, when: isInfrastructure, onRetry: deps.onRetry })
  return Partition.open({
    ...deps,
    topicPartition: { topic, partition },
    signal,
    fail,
    positions: () => retrying(() => deps.cursors.read(feedPartition)),
    marks: {
      read: () => retrying(() => deps.marks.read(feedPartition)),
      write: change => retrying(() => deps.marks.write(feedPartition, change)),
      writeDead: offsets => retrying(() => deps.marks.writeDead(feedPartition, offsets)),
    },
    reportReplays: outcomes => retrying(() => deps.deadLetters.report(outcomes, signal)),
    submit: async request => {
      await deps.gate?.opened(signal)
      return await submitContacts(deps, { partner, partition }, request)
    },
    failContact: (contact, terms) => retrying(async () => {
      const [key] = await requireKeys(deps, name)
      await deps.rejections.fail({ partner: name, key, partition }, { contact, terms }, signal)
    }),
    pause: refusal => pauseInMemory(deps, { tenant, refusal, signal }, pause),
  })
}

/** Waits with the contacts in memory; after `pauseAfterMs` the session ends and releases them. */
async function pauseInMemory (
  { backpressure, pauseAfterMs }: PartnerFeedDeps, refused: Refused, pause: Endings['pause']
): Promise<void> {
  const done = new AbortController()
  const signal = AbortSignal.any([refused.signal, done.signal])
  const tooLong = sleep(pauseAfterMs, signal).then(() => pause(refused.refusal), () => {})
  try {
    await Promise.race([untilAcceptable(backpressure, { ...refused, signal }), tooLong])
  } finally {
    done.abort()
  }
}

type BackpressureDeps = {
  readonly wallet: Pick<Wallet, 'balance'>
  readonly redis: Pick<Redis, 'hget'>
  /** A retry is due after this time in any case: cache hits and prices change. */
  readonly maxPauseMs: number
  readonly pollMs: number
}

/** A tenant that was refused a job, and what ends the wait for another. */
type Refused = {
  readonly tenant: string
  readonly refusal: Backpressure
  readonly signal: AbortSignal
}

/** A slot may become free between the refusal and the first poll, so a wait for slots is short. */
const MAX_SLOT_PAUSE_MS = 5_000

/**
 * Resolves once a tenant has the balance or slot that a refused job needs, or after the maximum
 * pause. Rejects when the signal is aborted.
 */
async function untilAcceptable (
  { wallet, redis, maxPauseMs, pollMs }: BackpressureDeps, { tenant, refusal, signal }: Refused
): Promise<void> {
  const retrying = <T>(action: () => Promise<T>) =>
    retryForever(action, { signal, when: isInfrastructure })
  const balance = () => retrying(() => wallet.balance(tenant))
  const slotsTaken = () => retrying(async () =>
    Number(await redis.hget(moneyKeys(tenant).wallet, 'slots')))
  const atRefusal = refusal.code === 'concurrent_jobs_limit' ? await slotsTaken() : 0
  const isAcceptable = async () => refusal.code === 'insufficient_balance'
    ? (await balance()).availableMicros >= refusal.requiredMicros
    : await slotsTaken() < Math.max(1, atRefusal)
  const maxMs = refusal.code === 'concurrent_jobs_limit' ? MAX_SLOT_PAUSE_MS : Infinity
  const endsAtMs = performance.now() + Math.min(maxPauseMs, maxMs)
  do await sleep(pollMs, signal)
  while (performance.now() < endsAtMs && !await isAcceptable())
}

/** The origin of contacts; tenant, mode and prices are those of the partner's registration. */
type Source = {
  readonly partner: Pick<Partner, 'name' | 'tenant' | 'mode' | 'pricesMicros'>
  readonly partition: number
}

/** Requests a job for contacts of a partner, in the same way as the REST API. Never rejects. */
async function submitContacts (
  { submit, metrics, onLost }: PartnerFeedDeps, source: Source, request: FeedJobRequest
): Promise<JobOutcome> {
  const { partner: { name, tenant, mode, pricesMicros }, partition } = source
  const { cursor, terms: { service, country, forceFresh }, from, to } = request
  const { inputs, references, offsets } = request
  // A partner without an own price pays the list price.
  const unitPriceMicros = (mode === 'test' ? undefined : pricesMicros[service]) ?? null
  const outcome = await submit({
    tenant,
    service,
    inputs,
    country,
    forceFresh,
    metadata: {},
    webhookUrl: '',
    idempotencyKey: '',
    fingerprint: '',
    references,
    feed: { source: { partner: name, partition, cursor, from, to, unitPriceMicros }, offsets },
  }).then(toOutcome, error => {
    onLost(error, { partner: name, partition, cursor })
    return { kind: 'lost' } as const
  })
  metrics.count('feed_jobs_total', { outcome: outcome.kind })
  return outcome
}

function toOutcome (submitted: SubmitOutcome): JobOutcome {
  if (submitted.kind === 'accepted') return { kind: 'taken', job: submitted.job.id }
  if (submitted.kind === 'reused') return { kind: 'failed' }
  const { refusal } = submitted
  switch (refusal.code) {
    case 'insufficient_balance':
    case 'concurrent_jobs_limit': return { kind: 'short', refusal }
    case 'cursor_moved': return { kind: 'moved' }
    case 'expired': return { kind: 'late' }
    // An operator must unlock the wallet first; until then, requests follow with growing pauses.
    case 'frozen': return { kind: 'lost' }
    case 'quoted':
    case 'internal': return { kind: 'failed' }
  }
}
