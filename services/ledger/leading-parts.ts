import { randomUUID } from 'node:crypto'
import { createDeliveryHistory } from '../jobs/delivery-history.ts'
import type { Parts } from '../lib/connect.ts'
import { kafkaConnectionOf, type KafkaSettings } from '../lib/kafka/connection.ts'
import { createTopicReader } from '../lib/kafka/topic-reader.ts'
import type { MessageKeySettings } from '../lib/mac.ts'
import { createMessageMac, reportForged } from '../lib/message-mac.ts'
import { sleep } from '../lib/retry.ts'
import type { Life } from '../lib/run.ts'
import type { Wire } from '../lib/wire.ts'
import { createJournalCopy } from '../records/journal-copy.ts'
import { createDesk } from './desk.ts'
import type { LeadingParts } from './leading.ts'
import type { LedgerSettings, sweepParts } from './parts.ts'

type Config = Pick<LedgerSettings, keyof KafkaSettings | keyof MessageKeySettings |
  'INSTANCE' | 'LOOK_EVERY_MS' | 'LEASE_MS' | 'GRACE_MS' | 'CHECK_EVERY_MS' |
  'SNAPSHOT_EVERY_MS' | 'SNAPSHOT_BEHIND_MS'>
type Connected = Pick<Parts, 'bus' | 'state' | 'clickhouse' | 'recordMac' | 'codec' | 'clock'> &
  Pick<Life, 'log' | 'metrics'> & { readonly wire: Wire }

/** What the leading ledger needs beside what the sweep does. */
export function leadingParts (
  config: Config, connected: Connected,
  { archive, blocks, store, emitter, tenants }: ReturnType<typeof sweepParts>
): Omit<LeadingParts, 'subscriber'> {
  const { bus, state: redis, clickhouse, recordMac, codec, wire, clock, log, metrics } = connected
  const name = `ledger.${config.INSTANCE}`
  return {
    redis,
    tenants,
    codec,
    wire,
    clock,
    log,
    metrics,
    archive,
    emitter,
    blocks,
    store,
    sleep,
    accountsProducer: bus.producer('accounts'),
    desk: createDesk(redis),
    reader: createTopicReader({
      ...kafkaConnectionOf(config),
      clientId: `${name}.recovery`,
      mac: createMessageMac(config, reportForged({ log, metrics })),
    }),
    history: createDeliveryHistory(clickhouse, recordMac),
    journal: createJournalCopy(clickhouse, recordMac),
    // Two processes may have been given the same name; only one of them may lead.
    name: `${name}.${randomUUID()}`,
    graceMs: config.GRACE_MS,
    leaseMs: config.LEASE_MS,
    lookEveryMs: config.LOOK_EVERY_MS,
    checkEveryMs: config.CHECK_EVERY_MS,
    snapshotEveryMs: config.SNAPSHOT_EVERY_MS,
    snapshotBehindMs: config.SNAPSHOT_BEHIND_MS,
  }
}
