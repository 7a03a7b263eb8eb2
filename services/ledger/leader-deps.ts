import { randomUUID } from 'node:crypto'
import { createSubscriptions } from '../accounts/webhook-endpoints.ts'
import { createDeliveryHistory } from '../jobs/delivery-history.ts'
import type { Connections } from '../engine/connections.ts'
import { kafkaConnectionOf, type KafkaSettings } from '../kafka/connection.ts'
import { createTopicReader } from '../kafka/topic-reader.ts'
import type { MessageKeySettings } from '../crypto/mac.ts'
import { createMessageMac, reportForged } from '../kafka/message-mac.ts'
import { sleep } from '../platform/retry.ts'
import type { ServiceContext } from '../platform/run.ts'
import type { MessageCodec } from '../engine/stage.ts'
import { createJournalCopy } from '../money/journal-copy.ts'
import { createRecoveryStore } from './recovery-store.ts'
import type { LeaderDeps } from './leader-election.ts'
import type { LedgerSettings, reapDeps } from './deps.ts'

type Config = Pick<LedgerSettings, keyof KafkaSettings | keyof MessageKeySettings |
  'INSTANCE' | 'LEADER_POLL_MS' | 'LEADER_LEASE_MS' | 'LEADER_GRACE_MS' | 'CHECK_EVERY_MS' |
  'SNAPSHOT_EVERY_MS' | 'SNAPSHOT_BEHIND_MS'>
type Connected =
  Pick<Connections, 'bus' | 'state' | 'clickhouse' | 'recordMac' | 'codec' | 'clock'> &
  Pick<ServiceContext, 'log' | 'metrics'> & { readonly messageCodec: MessageCodec }

/** The dependencies of the leading ledger, beside those of the reaper. */
export function leaderDeps (
  config: Config,
  connected: Connected,
  { archive, blocks, store, emitter, tenants }: ReturnType<typeof reapDeps>
): Omit<LeaderDeps, 'subscriber'> {
  const {
    bus, state: redis, clickhouse, recordMac, codec, messageCodec, clock, log, metrics,
  } = connected
  const name = `ledger.${config.INSTANCE}`
  const recoveryStore = createRecoveryStore(redis)
  return {
    redis,
    tenants,
    codec,
    messageCodec,
    clock,
    log,
    metrics,
    archive,
    emitter,
    blocks,
    store,
    sleep,
    accountsProducer: bus.producer('accounts'),
    recoveryStore,
    servers: recoveryStore.servers,
    reader: createTopicReader({
      ...kafkaConnectionOf(config),
      clientId: `${name}.recovery`,
      mac: createMessageMac(config, reportForged({ log, metrics })),
    }),
    history: createDeliveryHistory(clickhouse, recordMac),
    subscriptions: createSubscriptions(redis),
    journal: createJournalCopy(clickhouse, recordMac),
    // Unique per process, as two processes may be configured with the same name.
    name: `${name}.${randomUUID()}`,
    graceMs: config.LEADER_GRACE_MS,
    leaseMs: config.LEADER_LEASE_MS,
    pollMs: config.LEADER_POLL_MS,
    checkEveryMs: config.CHECK_EVERY_MS,
    snapshotEveryMs: config.SNAPSHOT_EVERY_MS,
    snapshotBehindMs: config.SNAPSHOT_BEHIND_MS,
  }
}
