import type { Static } from 'typebox'
import type { Parts } from '../lib/connect.ts'
import { createEmitter } from '../lib/emit.ts'
import { kafkaConnectionOf, type KafkaSettings } from '../lib/kafka/connection.ts'
import type { MessageKeySettings } from '../lib/mac.ts'
import type { Life } from '../lib/run.ts'
import type { Wire } from '../lib/wire.ts'
import { createTenants, type Tenants } from '../money/tenants.ts'
import { createHeadsCodec } from '../records/journal-heads.ts'
import { createStores } from '../records/stores.ts'
import { createBacklog } from './backlog.ts'
import type { ledgerConfig } from './config.ts'
import type { ExportParts } from './head-export.ts'
import { createHeadTarget } from './head-target.ts'
import type { SweepParts } from './sweep.ts'

/** Settings of the ledger; those of brokers that have defaults may be left out. */
export type LedgerSettings = KafkaSettings &
  Omit<Static<typeof ledgerConfig>, keyof KafkaSettings>
type Config = Pick<LedgerSettings, keyof KafkaSettings |
  'INSTANCE' | 'LEFT_OVER_AFTER_MS' | 'STALLED_AFTER_MS'>
type Connected = Pick<Parts, 'bus' | 'state' | 'clickhouse' | 'recordMac' | 'codec' |
  'clock'> &
  Pick<Life, 'log' | 'metrics' | 'fatal'> & { readonly wire: Wire }

/** What the sweep needs, on what the process is connected to. */
export function sweepParts (
  config: Config, connected: Connected
): SweepParts & ReturnType<typeof createStores> & Pick<Life, 'fatal'> &
  { readonly tenants: Tenants } {
  const { bus, state, clock, wire, log, metrics, fatal } = connected
  const connection = kafkaConnectionOf(config)
  return {
    ...createStores(connected),
    // Apart from the stage's producers, as both may send at the same time.
    emitter: createEmitter({ wire, producerOf: name => bus.producer(`sweep.${name}`) }),
    backlog: createBacklog({ connection, clientId: `ledger.${config.INSTANCE}`, clock }),
    tenants: createTenants(state),
    clock,
    log,
    metrics,
    fatal,
    leftOverAfterMs: config.LEFT_OVER_AFTER_MS,
    stalledAfterMs: config.STALLED_AFTER_MS,
  }
}

type ExportConfig = MessageKeySettings & Pick<LedgerSettings, 'JOURNAL_HEAD_EVERY_MS'> & {
  readonly target: string
}

/** What the export of the journal's heads needs. */
export function exportParts (
  config: ExportConfig,
  { state, ...connected }: Pick<Parts, 'state'> & Omit<ExportParts,
    'redis' | 'tenants' | 'codec' | 'target' | 'everyMs'>
): ExportParts {
  return {
    ...connected,
    redis: state,
    tenants: createTenants(state),
    codec: createHeadsCodec(config),
    target: createHeadTarget(config.target),
    everyMs: config.JOURNAL_HEAD_EVERY_MS,
  }
}
