import type { Static } from 'typebox'
import type { Connections } from '../engine/connections.ts'
import { createEmitter } from '../engine/emit.ts'
import { createAdminClient, kafkaConnectionOf, type KafkaSettings } from '../kafka/connection.ts'
import { lagsOf, TOPOLOGY_GROUPS } from '../kafka/lag.ts'
import { isInfrastructure } from '../platform/errors.ts'
import { retry } from '../platform/retry.ts'
import type { ServiceContext } from '../platform/run.ts'
import type { MessageCodec } from '../engine/stage.ts'
import { createTenants, type Tenants } from '../money/tenants.ts'
import { createRepositories } from '../results/repositories.ts'
import { createBacklog } from './backlog.ts'
import type { ledgerConfig } from './config.ts'
import { createOwners } from './owners.ts'
import type { ReapDeps } from './reaper.ts'

/** Settings of the ledger; those of Kafka that have defaults may be left out. */
export type LedgerSettings = KafkaSettings &
  Omit<Static<typeof ledgerConfig>, keyof KafkaSettings>
type Config = Pick<LedgerSettings, keyof KafkaSettings |
  'INSTANCE' | 'ORPHAN_AGE_MS' | 'STALLED_AFTER_MS'>
type Connected = Pick<Connections, 'bus' | 'state' | 'clickhouse' | 'recordMac' | 'codec' |
  'clock'> &
  Pick<ServiceContext, 'log' | 'metrics' | 'fatal' | 'onStop'> &
  { readonly messageCodec: MessageCodec }

/** A coordinator that has just moved answers late. */
const OFFSET_TRIES = 10

/** The dependencies of the reaper, from the connections of the process. */
export function reapDeps (
  config: Config, connected: Connected
): ReapDeps & ReturnType<typeof createRepositories> & Pick<ServiceContext, 'fatal'> &
  { readonly tenants: Tenants } {
  const { bus, state, clock, messageCodec, log, metrics, fatal, onStop } = connected
  const connection = kafkaConnectionOf(config)
  const admin = createAdminClient(connection, `ledger.${config.INSTANCE}.owners`)
  onStop(admin.close)
  return {
    ...createRepositories(connected),
    emitter: createEmitter({ messageCodec, producerOf: bus.producer }),
    backlog: createBacklog({ connection, clientId: `ledger.${config.INSTANCE}`, clock }),
    owners: createOwners({
      readOffsets: groups => retry(OFFSET_TRIES, () => admin.use(client =>
        lagsOf(client, TOPOLOGY_GROUPS.filter(({ group }) => groups.includes(group)))),
      { when: isInfrastructure, maxMs: 1_000 }),
      now: () => performance.now(),
    }),
    tenants: createTenants(state),
    clock,
    log,
    metrics,
    fatal,
    orphanAgeMs: config.ORPHAN_AGE_MS,
    stalledAfterMs: config.STALLED_AFTER_MS,
  }
}
