import type { Static } from 'typebox'
import type { Connections } from '../engine/connections.ts'
import { createEmitter } from '../engine/emit.ts'
import { kafkaConnectionOf, type KafkaSettings } from '../kafka/connection.ts'
import type { ServiceContext } from '../platform/run.ts'
import type { MessageCodec } from '../engine/stage.ts'
import { createTenants, type Tenants } from '../money/tenants.ts'
import { createRepositories } from '../results/repositories.ts'
import { createBacklog } from './backlog.ts'
import type { ledgerConfig } from './config.ts'
import type { ReapDeps } from './reaper.ts'

/** Settings of the ledger; those of Kafka that have defaults may be left out. */
export type LedgerSettings = KafkaSettings &
  Omit<Static<typeof ledgerConfig>, keyof KafkaSettings>
type Config = Pick<LedgerSettings, keyof KafkaSettings |
  'INSTANCE' | 'ORPHAN_AGE_MS' | 'STALLED_AFTER_MS'>
type Connected = Pick<Connections, 'bus' | 'state' | 'clickhouse' | 'recordMac' | 'codec' |
  'clock'> &
  Pick<ServiceContext, 'log' | 'metrics' | 'fatal'> & { readonly messageCodec: MessageCodec }

/** The dependencies of the reaper, from the connections of the process. */
export function reapDeps (
  config: Config, connected: Connected
): ReapDeps & ReturnType<typeof createRepositories> & Pick<ServiceContext, 'fatal'> &
  { readonly tenants: Tenants } {
  const { bus, state, clock, messageCodec, log, metrics, fatal } = connected
  const connection = kafkaConnectionOf(config)
  return {
    ...createRepositories(connected),
    emitter: createEmitter({ messageCodec, producerOf: bus.producer }),
    backlog: createBacklog({ connection, clientId: `ledger.${config.INSTANCE}`, clock }),
    tenants: createTenants(state),
    clock,
    log,
    metrics,
    fatal,
    orphanAgeMs: config.ORPHAN_AGE_MS,
    stalledAfterMs: config.STALLED_AFTER_MS,
  }
}
