import type { Redis } from 'ioredis'
import type { Clock } from '../lib/clock.ts'
import type { Parts } from '../lib/connect.ts'
import { kafkaConnectionOf, type KafkaSettings } from '../lib/kafka/connection.ts'
import { placesOf, TOPOLOGY_GROUPS } from '../lib/kafka/lag.ts'
import type { Life } from '../lib/run.ts'
import { topicName } from '../lib/topics.ts'
import { createOutbox } from '../money/outbox.ts'
import { createTenants } from '../money/tenants.ts'
import { createJournalCopy, type JournalCopy } from '../records/journal-copy.ts'
import { watchGaps } from './gap-meters.ts'
import { createAdministrator, watchLag } from './lag.ts'
import { countMovements, watchMoney } from './money-meters.ts'
import { watchOutboxes } from './outbox-meters.ts'
import { watchStores } from './store-meters.ts'

type Config = KafkaSettings & { readonly INSTANCE: string }

type Connected = Pick<Life, 'metrics' | 'log' | 'onStop'> & Pick<Parts, 'clickhouse'> & {
  readonly state: Redis
  readonly clock: Clock
  readonly journal: Pick<JournalCopy, 'counts'>
}

/** Where the ledgers are in the journal; the keys that they copy as well move no money. */
const LEDGERS = TOPOLOGY_GROUPS.filter(({ stage }) => stage === 'ledger')
  .map(group => ({ ...group, topics: [topicName('wallet.journal')] }))

/** What a ledger reports of the whole system: lag of groups, sums of wallets, outboxes, stores. */
export function watchSystem (
  config: Config, { state, clickhouse, clock, journal, metrics, log, onStop }: Connected
): void {
  watchOutboxes({ outbox: createOutbox(state), redis: state, clock, metrics, log })
  const tenants = createTenants(state)
  watchMoney({ redis: state, tenants, metrics, log })
  const administrator =
    createAdministrator(kafkaConnectionOf(config), `ledger.${config.INSTANCE}.lag`)
  onStop(administrator.close)
  watchLag({ administrator, metrics, log })
  watchStores({ administrator, clickhouse, state, metrics, log })
  const places = () => administrator.use(admin => placesOf(admin, LEDGERS))
  watchGaps({ redis: state, tenants, journal, places, metrics, log })
}

/** The copy of the journal, whose entries tell how much money was moved, and jobs. */
export function meteredJournal (
  { clickhouse, recordMac, metrics }: Pick<Parts, 'clickhouse' | 'recordMac'> &
    Pick<Life, 'metrics'>
): JournalCopy {
  return countMovements(createJournalCopy(clickhouse, recordMac), metrics)
}
