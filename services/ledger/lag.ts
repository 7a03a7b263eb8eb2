import type { AdminClient } from '../kafka/connection.ts'
import { lagsOf } from '../kafka/lag.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import { createCachedReading } from '../platform/cached-reading.ts'

type LagDeps = {
  readonly adminClient: Pick<AdminClient, 'use'>
  readonly metrics: Pick<Metrics, 'watchAll'>
  readonly log: Pick<Log, 'warn'>
}

/**
 * Reports lag and offset of each consumer group, read from the brokers when metrics are scraped: a
 * stage without a live process could not report its own. Every ledger reports the same values. The
 * groups of partners' topics are left out, as metrics must not contain names of partners.
 */
export function watchLag ({ adminClient, metrics, log }: LagDeps): void {
  const lags = () => adminClient.use(admin => lagsOf(admin))
  const read = createCachedReading(lags, { name: 'the lag of groups', log })
  const watch = (name: 'consumer_lag_messages' | 'consumer_offset', of: 'lag' | 'offset') =>
    metrics.watchAll(name, async () => (await read()).map(groupLag => ({
      labels: {
        stage: groupLag.stage,
        group: groupLag.group,
        topic: groupLag.topic,
        partition: String(groupLag.partition),
      },
      value: groupLag[of],
    })))
  watch('consumer_lag_messages', 'lag')
  watch('consumer_offset', 'offset')
}
