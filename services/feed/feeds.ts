import type { Partner, Partners } from '../accounts/partners.ts'
import { isInfrastructure } from '../lib/errors.ts'
import type { Log } from '../lib/log.ts'
import { sleep } from '../lib/retry.ts'
import type { PartnerFeed, PartnerFeedState } from './partner-feed.ts'

export type FeedsParts = {
  readonly partners: Pick<Partners, 'list'>
  readonly start: (partner: Partner) => PartnerFeed
  readonly everyMs: number
  readonly log: Pick<Log, 'info' | 'warn'>
  /** Told of what can't heal. */
  readonly fail: (error: unknown) => void
}

export type Feeds = {
  /** True once the partners are known and none of those that can run is still starting. */
  readonly ready: () => boolean
  readonly count: (state: PartnerFeedState) => number
  readonly stop: () => Promise<void>
}

/**
 * Runs the feed of every registered partner. kafkajs can't subscribe while it consumes, so a new
 * partner gets a consumer of its own; one that was revoked loses it.
 */
export function startFeeds (parts: FeedsParts): Feeds {
  const { everyMs, log, fail } = parts
  const stopping = new AbortController()
  const { signal } = stopping
  const feeds = new Map<string, PartnerFeed>()
  let known = false
  const look = async () => {
    try {
      await align(parts, feeds)
      known = true
    } catch (error) {
      if (!isInfrastructure(error)) throw error
      log.warn({ err: error }, 'the partners are not to be had')
      known = false
    }
  }
  const run = async () => {
    while (!signal.aborted) {
      await look()
      await sleep(everyMs, signal).catch(() => {})
    }
  }
  const running = run().catch(fail)
  const states = () => [...feeds.values()].map(feed => feed.state())
  return {
    ready: () => known && !states().includes('starting'),
    count: state => states().filter(one => one === state).length,
    stop: async () => {
      stopping.abort()
      await running
      await Promise.all([...feeds.values()].map(feed => feed.stop()))
    },
  }
}

/** Starts what is missing and stops what is revoked. */
async function align (
  { partners, start, log }: FeedsParts, feeds: Map<string, PartnerFeed>
): Promise<void> {
  const active = (await partners.list()).filter(({ revokedAtMs }) => revokedAtMs === 0)
  const names = new Set(active.map(({ name }) => name))
  for (const [name, feed] of feeds) {
    if (names.has(name)) continue
    feeds.delete(name)
    await feed.stop()
    log.info({ partner: name }, 'the feed of a revoked partner ended')
  }
  for (const partner of active.filter(({ name }) => !feeds.has(name))) {
    feeds.set(partner.name, start(partner))
    log.info({ partner: partner.name }, 'the feed of a partner begins')
  }
}
