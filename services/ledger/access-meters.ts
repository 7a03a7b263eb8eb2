import type { createAccessHead, createAccessOutbox } from '../access-log/access-log.ts'
import type { AccessCopy } from '../access-log/copy.ts'
import { createCachedReading } from '../platform/cached-reading.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'

type AccessMeterDeps = {
  readonly outbox: Pick<ReturnType<typeof createAccessOutbox>, 'oldest'>
  readonly head: Pick<ReturnType<typeof createAccessHead>, 'read'>
  readonly copy: Pick<AccessCopy, 'count'>
  /** Redis time. */
  readonly clock: Clock
  readonly metrics: Pick<Metrics, 'watchAll'>
  readonly log: Pick<Log, 'warn'>
}

/** The rows are counted at most this often. */
const COUNT_EVERY_MS = 60_000

/**
 * Reports entries of the access log that wait for their topic, and those that ClickHouse has lost,
 * read when metrics are scraped.
 */
export function watchAccessLog (
  { outbox, head, copy, clock, metrics, log }: AccessMeterDeps
): void {
  const readAge = createCachedReading(async () => {
    const [oldest] = await outbox.oldest(1)
    return [oldest === undefined ? 0 : clock.now() - oldest.entry.at]
  }, { name: 'the outbox of the access log', log })
  metrics.watchAll('access_log_oldest_seconds', async () =>
    (await readAge()).map(ageMs => ({ labels: {}, value: Math.max(ageMs, 0) / 1_000 })))
  const readMissing = createCachedReading(async () => {
    const copied = await head.read()
    return [copied - await copy.count(copied)]
  }, {
    name: 'the number of entries of the access log',
    log,
    minAgeMs: COUNT_EVERY_MS,
    maxAgeMs: 3 * COUNT_EVERY_MS,
  })
  metrics.watchAll('access_log_entries_missing', async () =>
    (await readMissing()).map(value => ({ labels: {}, value })))
}
