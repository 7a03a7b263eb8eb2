import type { Clock } from '../lib/clock.ts'
import type { Log } from '../lib/log.ts'
import type { Metrics } from '../lib/metrics.ts'
import type { Outbox } from '../money/outbox.ts'
import { createReading } from '../lib/reading.ts'

type OutboxParts = {
  readonly outbox: Pick<Outbox, 'tenantsWithPending' | 'pending'>
  /** Redis time. */
  readonly clock: Clock
  readonly metrics: Pick<Metrics, 'watchAll'>
  readonly log: Pick<Log, 'warn'>
}

/**
 * Tells metrics what is left in the outboxes, by asking Redis when metrics are read: whoever ships
 * entries waits for the brokers, and could not tell how long.
 */
export function watchOutbox ({ outbox, clock, metrics, log }: OutboxParts): void {
  const look = async () => {
    let [entries, oldestMs] = [0, 0]
    for (const tenant of await outbox.tenantsWithPending()) {
      const pending = await outbox.pending(tenant)
      entries += pending.length
      oldestMs = Math.max(oldestMs, ...pending.map(({ at }) => clock.now() - at))
    }
    return [{ entries, oldestMs }]
  }
  const read = createReading(look, { what: 'the outboxes', log })
  metrics.watchAll('outbox_entries', async () =>
    (await read()).map(({ entries }) => ({ labels: {}, value: entries })))
  metrics.watchAll('outbox_oldest_seconds', async () =>
    (await read()).map(({ oldestMs }) => ({ labels: {}, value: oldestMs / 1_000 })))
}
