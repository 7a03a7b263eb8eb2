import type { Clock } from '../platform/clock.ts'
import type { Connections } from '../engine/connections.ts'
import {
  createAdminClient, kafkaConnectionOf, type KafkaSettings,
} from '../kafka/connection.ts'
import { lagsOf, TOPOLOGY_GROUPS } from '../kafka/lag.ts'
import type { ServiceContext } from '../platform/run.ts'
import { topicName } from '../platform/topics.ts'
import { createOutbox } from '../money/outbox.ts'
import { createTenants } from '../money/tenants.ts'
import { createJournalCopy, type JournalCopy } from '../money/journal-copy.ts'
import { watchGaps } from './gap-meters.ts'
import { watchLag } from './lag.ts'
import { countMovements, watchMoney } from './money-meters.ts'
import { watchOutboxes } from './outbox-meters.ts'
import { watchStores } from './store-meters.ts'

type Config = KafkaSettings & { readonly INSTANCE: string }

type Connected = Pick<ServiceContext, 'metrics' | 'log' | 'onStop'> &
  Pick<Connections, 'clickhouse' | 'state'> & {
    readonly clock: Clock
    readonly journal: Pick<JournalCopy, 'counts'>
  }

/** The ledger's groups, limited to the journal topic. */
const LEDGERS = TOPOLOGY_GROUPS.filter(({ stage }) => stage === 'ledger')
  .map(group => ({ ...group, topics: [topicName('wallet.journal')] }))

/** Reports metrics of the whole system: lag of groups, sums of wallets, outboxes, stores. */
export function watchSystem (
  config: Config, { state, clickhouse, clock, journal, metrics, log, onStop }: Connected
): void {
  watchOutboxes({ outbox: createOutbox(state), redis: state, clock, metrics, log })
  const tenants = createTenants(state)
  watchMoney({ redis: state, tenants, metrics, log })
  const adminClient =
    createAdminClient(kafkaConnectionOf(config), `ledger.${config.INSTANCE}.lag`)
  onStop(adminClient.close)
  watchLag({ adminClient, metrics, log })
  watchStores({ adminClient, clickhouse, state, metrics, log })
  const lags = () => adminClient.use(admin => lagsOf(admin, LEDGERS))
  watchGaps({ redis: state, tenants, journal, lags, metrics, log })
}

/** The copy of the journal, with metrics of the money and jobs of stored entries. */
export function meteredJournal (
  { clickhouse, recordMac, metrics }: Pick<Connections, 'clickhouse' | 'recordMac'> &
    Pick<ServiceContext, 'metrics'>
): JournalCopy {
  return countMovements(createJournalCopy(clickhouse, recordMac), metrics)
}
