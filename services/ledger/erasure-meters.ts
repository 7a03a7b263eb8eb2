import type { Erasures } from '../jobs/erasures.ts'
import { createCachedReading } from '../platform/cached-reading.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'

type ErasureDeps = {
  readonly erasures: Pick<Erasures, 'backlog'>
  /** Redis time. */
  readonly clock: Pick<Clock, 'now'>
  readonly metrics: Pick<Metrics, 'watchAll'>
  readonly log: Pick<Log, 'warn'>
}

/** So many of each phase are read for the age of the oldest. */
const MAX_READ = 1_000

/** Reports the erasures that are not complete, read from Redis when metrics are scraped. */
export function watchErasures ({ erasures, clock, metrics, log }: ErasureDeps): void {
  const read = createCachedReading(
    async () => [await erasures.backlog(MAX_READ)], { name: 'the queue of erasures', log })
  metrics.watchAll('erasures_pending', async () =>
    (await read()).flatMap(({ requested, compacting }) => [
      { labels: { phase: 'requested' }, value: requested },
      { labels: { phase: 'compacting' }, value: compacting },
    ]))
  metrics.watchAll('erasure_oldest_seconds', async () =>
    (await read()).map(({ oldestAtMs }) => ({
      labels: {}, value: oldestAtMs === undefined ? 0 : (clock.now() - oldestAtMs) / 1_000,
    })))
}
