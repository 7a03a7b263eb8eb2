import type { Redis } from 'ioredis'
import { ACCOUNTS_OUTBOX_KEY } from '../accounts/records.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import type { Outbox } from '../money/outbox.ts'
import { createCachedReading } from '../platform/cached-reading.ts'

type OutboxDeps = {
  readonly outbox: Pick<Outbox, 'tenantsWithPending' | 'pending'>
  readonly redis: Pick<Redis, 'scard'>
  /** Redis time. */
  readonly clock: Clock
  readonly metrics: Pick<Metrics, 'watchAll'>
  readonly log: Pick<Log, 'warn'>
}

/**
 * Reports the entries in the outboxes of wallets and of accounts, read from Redis when metrics are
 * scraped: the process that ships them may be blocked on the brokers.
 */
export function watchOutboxes ({ outbox, redis, clock, metrics, log }: OutboxDeps): void {
  const readWallets = async () => {
    let [entries, oldestMs] = [0, 0]
    for (const tenant of await outbox.tenantsWithPending()) {
      const pending = await outbox.pending(tenant)
      entries += pending.length
      oldestMs = Math.max(oldestMs, ...pending.map(({ at }) => clock.now() - at))
    }
    return [{ entries, oldestMs }]
  }
  const read = createCachedReading(readWallets, { name: 'the outboxes', log })
  metrics.watchAll('outbox_entries', async () =>
    (await read()).map(({ entries }) => ({ labels: {}, value: entries })))
  metrics.watchAll('outbox_oldest_seconds', async () =>
    (await read()).map(({ oldestMs }) => ({ labels: {}, value: oldestMs / 1_000 })))
  const readAccounts = createCachedReading(
    async () => [await redis.scard(ACCOUNTS_OUTBOX_KEY)], { name: 'the outbox of accounts', log })
  metrics.watchAll('accounts_outbox_entries', async () =>
    (await readAccounts()).map(value => ({ labels: {}, value })))
}
