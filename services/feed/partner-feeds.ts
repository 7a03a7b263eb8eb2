import type { Partner, Partners } from '../accounts/partners.ts'
import { isInfrastructure } from '../runtime/platform/errors.ts'
import type { Bus, ConsumeOptions, Consumption } from '../runtime/kafka/bus.ts'
import type { Log } from '../runtime/platform/log.ts'
import { backoffMs, sleep } from '../runtime/platform/retry.ts'
import { FEED_GROUPS, feedGroupOf } from '../runtime/platform/topics.ts'
import type { PartnerFeed } from './partner-feed.ts'

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

export type PartnerFeeds = {
  /** True once the partners are known and no group is joining. */
  readonly ready: () => boolean
  /** The state of the feed of each partner; undefined while its group is joining. */
  readonly states: () => ReadonlyMap<string, FeedState | undefined>
  readonly stop: () => Promise<void>
}

type FeedState = ReturnType<PartnerFeed['state']>

/** Runs the feeds of all registered partners in a fixed number of consumer groups. */
export function startPartnerFeeds (deps: PartnerFeedsDeps): PartnerFeeds {
  const { pollMs, log, fail } = deps
  const stopping = new AbortController()
  const { signal } = stopping
  const feeds = new Map<string, PartnerFeed>()
  const groups = new Map(FEED_GROUPS.map(name => [name, createFeedGroup(name, deps)]))
  let known = false
  let version = ''
  const poll = async () => {
    try {
      const current = await deps.partners.version()
      if (current !== version) await reconcile(deps, feeds)
      version = current
      await subscribe(deps, feeds, groups)
      known = true
    } catch (error) {
      if (!isInfrastructure(error)) throw error
      log.warn({ err: error }, 'reading the partners or their topics failed, retrying')
      known = false
    }
  }
  const run = async () => {
    while (!signal.aborted) {
      await poll()
      await sleep(pollMs, signal).catch(() => {})
    }
  }
  const running = run().catch(fail)
  const stateOf = (feed: PartnerFeed) => {
    const group = groups.get(feedGroupOf(feed.name))
    if (group?.isFailing(feed.topic) === true) return 'failing'
    return group?.ready() === true ? feed.state() : undefined
  }
  return {
    ready: () => known && [...groups.values()].every(group => group.ready()),
    states: () => new Map([...feeds].map(([name, feed]) => [name, stateOf(feed)])),
    stop: async () => {
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
  let found: Promise<ReadonlySet<string>> | undefined
  // One request for all groups.
  const existingTopics = () => {
    found ??= bus.topicNames()
    return found
  }
  const byGroup = Map.groupBy(feeds.values(), ({ name }) => feedGroupOf(name))
  await Promise.all([...groups].map(([name, group]) =>
    group.read(byGroup.get(name) ?? [], existingTopics)))
}

/** A consumer group that reads the topics of several partners. */
type FeedGroup = {
  /**
   * Reads the topics of these feeds. Call it periodically: it subscribes again when they change,
   * but not too often, and after a failure. `existingTopics` is called only then.
   */
  readonly read: (
    feeds: readonly PartnerFeed[], existingTopics: () => Promise<ReadonlySet<string>>,
  ) => Promise<void>
  /** True while the group is joined, has nothing to read, or is failing. */
  readonly ready: () => boolean
  /** Whether the consumer of the group has failed, or the topic is missing. */
  readonly isFailing: (topic: string) => boolean
  readonly stop: () => Promise<void>
}

/** A fetch waits for more messages: with many partitions, one for each message costs too much. */
const FETCH_BATCHING = { bytes: 64 * 1_024, maxPartitionBytes: 128 * 1_024, maxWaitMs: 200 }
const RETRY = { firstMs: 1_000, maxMs: 60_000 }
/** Each subscription delivers open batches again; at a poll a second, they can close between. */
const POLLS_BETWEEN_SUBSCRIPTIONS = 10

/**
 * Consumes the topics of several partners. A kafkajs consumer cannot subscribe to further topics
 * while it runs, so a change starts another one; only partners of this group notice.
 */
function createFeedGroup (
  group: string, { bus, log, pollMs, now }: PartnerFeedsDeps
): FeedGroup {
  let feeds: ReadonlyMap<string, PartnerFeed> = new Map()
  let topics: ReadonlySet<string> = new Set()
  let consumption: Consumption | undefined
  /** A feed is new or revoked, a topic is missing, or the consumer has failed. */
  let isOutdated = false
  let isFailed = false
  let failures = 0
  let startedAtMs = -Infinity
  let heldUntilMs = -Infinity
  const stop = async () => {
    const former = consumption
    consumption = undefined
    topics = new Set()
    await former?.stop()
  }
  const onFailed = (error: unknown) => {
    log.error({ err: error, group }, 'consumer of partner feeds failed, restarting it')
    failures = now() - startedAtMs > RETRY.maxMs ? 1 : failures + 1
    heldUntilMs = now() + backoffMs(failures, RETRY)
    isOutdated = isFailed = true
  }
  const start = async (found: ReadonlySet<string>) => {
    topics = found
    isFailed = false
    startedAtMs = now()
    if (topics.size === 0) return
    consumption = await bus.consume(
      { group, topics: [...topics], onFailed, ...consumerOf(() => feeds) })
  }
  return {
    read: async (wanted, existingTopics) => {
      const known = new Set(feeds.keys())
      feeds = new Map(wanted.map(feed => [feed.topic, feed]))
      isOutdated ||= !isSame(new Set(feeds.keys()), known)
      if (!isOutdated || now() < heldUntilMs) return
      const existing = feeds.size === 0 ? new Set<string>() : await existingTopics()
      const found = new Set([...feeds.keys()].filter(topic => existing.has(topic)))
      if (isFailed || !isSame(found, topics)) {
        await stop()
        await start(found)
      }
      isOutdated = found.size < feeds.size
      heldUntilMs = now() + POLLS_BETWEEN_SUBSCRIPTIONS * pollMs
    },
    ready: () => topics.size === 0 || consumption?.ready() === true || isFailed,
    isFailing: topic => isFailed || !topics.has(topic),
    stop,
  }
}

/** Passes what a consumer gets to the feed of its topic. */
function consumerOf (
  feeds: () => ReadonlyMap<string, PartnerFeed>
): Omit<ConsumeOptions, 'group' | 'topics'> {
  return {
    fetchBatching: FETCH_BATCHING,
    onAssigned: () => { for (const feed of feeds().values()) feed.onAssigned() },
    onDelivery: async delivery => {
      const feed = feeds().get(delivery.topic)
      if (feed !== undefined) return await feed.onDelivery(delivery)
      // Its partner was revoked: the partition pauses until the next subscription.
      delivery.redeliver(delivery.messages[0]?.offset ?? 0n, new Promise(() => {}))
    },
    onUndecodable: (error, batch) => feeds().get(batch.topic)?.onUndecodable(error, batch),
  }
}

function isSame (some: ReadonlySet<string>, others: ReadonlySet<string>): boolean {
  return some.size === others.size && [...some].every(one => others.has(one))
}
