import type { Redis } from 'ioredis'
import type { Clock } from '../lib/clock.ts'
import type { Parts } from '../lib/connect.ts'
import { kafkaConnectionOf, type KafkaSettings } from '../lib/kafka/connection.ts'
import type { Life } from '../lib/run.ts'
import { createOutbox } from '../money/outbox.ts'
import { createTenants } from '../money/tenants.ts'
import { createJournalCopy, type JournalCopy } from '../records/journal-copy.ts'
import { watchLag } from './lag.ts'
import { countMovements, watchMoney } from './money-meters.ts'
import { watchOutbox } from './outbox-meters.ts'

type Config = KafkaSettings & { readonly INSTANCE: string }

type Connected = Pick<Life, 'metrics' | 'log' | 'onStop'> & {
  readonly state: Redis
  readonly clock: Clock
}

/** What only a ledger tells of the whole system: lag of groups, sums of wallets, outboxes. */
export function watchSystem (
  config: Config, { state, clock, metrics, log, onStop }: Connected
): void {
  watchOutbox({ outbox: createOutbox(state), clock, metrics, log })
  watchMoney({ redis: state, tenants: createTenants(state), metrics, log })
  const connection = kafkaConnectionOf(config)
  const lag = watchLag({
    connection, clientId: `ledger.${config.INSTANCE}.lag`, metrics, log,
  })
  onStop(lag.stop)
}

/** The copy of the journal, whose entries tell how much money was moved, and jobs. */
export function meteredJournal (
  { clickhouse, recordMac, metrics }: Pick<Parts, 'clickhouse' | 'recordMac'> &
    Pick<Life, 'metrics'>
): JournalCopy {
  return countMovements(createJournalCopy(clickhouse, recordMac), metrics)
}
