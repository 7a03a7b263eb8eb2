import { createAccessHead, createAccessOutbox } from '../access-log/access-log.ts'
import { createAccessCopy } from '../access-log/copy.ts'
import type { MessageKeySettings } from '../crypto/mac.ts'
import type { Connections } from '../engine/connections.ts'
import { createHeadsCodec } from '../money/journal-chain.ts'
import { createTenants } from '../money/tenants.ts'
import { watchAccessLog } from './access-meters.ts'
import { startAccessShipping, type ShippingDeps } from './access-shipping.ts'
import type { LedgerSettings } from './deps.ts'
import { createHeadTarget, startHeadExport, type ExportDeps } from './head-export.ts'

type TasksConfig = MessageKeySettings &
  Pick<LedgerSettings, 'JOURNAL_HEAD_EVERY_MS' | 'JOURNAL_HEAD_TARGET'>
type TaskDeps = Pick<Connections, 'state' | 'bus' | 'clickhouse' | 'recordMac'> &
  Pick<ShippingDeps, 'codec' | 'log'> &
  Omit<ExportDeps, 'redis' | 'tenants' | 'accessCopy' | 'codec' | 'target' | 'everyMs'>

/**
 * Starts what the leading ledger does beside recovery: it ships the access log, and exports journal
 * heads if they have a target. Reports on the access log. Returns the function that stops it.
 */
export function startLeaderTasks (
  { JOURNAL_HEAD_TARGET: target, ...config }: TasksConfig,
  { state, bus, codec, clickhouse, recordMac, ...deps }: TaskDeps
): () => Promise<void> {
  const outbox = createAccessOutbox(state)
  const accessCopy = createAccessCopy(clickhouse, recordMac)
  watchAccessLog({ ...deps, outbox, head: createAccessHead(state), copy: accessCopy })
  const shipping =
    startAccessShipping({ ...deps, outbox, codec, producer: bus.producer('access-log') })
  const exporting = target === undefined
    ? undefined
    : startHeadExport(exportDeps({ ...config, target }, {
      state, accessCopy, ...deps,
    }))
  return async () => {
    await Promise.all([shipping.stop(), exporting?.stop()])
  }
}

type ExportConfig = MessageKeySettings & Pick<LedgerSettings, 'JOURNAL_HEAD_EVERY_MS'> & {
  readonly target: string
}

/** The dependencies of the export of journal heads. */
export function exportDeps (
  config: ExportConfig,
  { state, ...connected }: Pick<Connections, 'state'> & Omit<ExportDeps,
    'redis' | 'tenants' | 'codec' | 'target' | 'everyMs'>
): ExportDeps {
  return {
    ...connected,
    redis: state,
    tenants: createTenants(state),
    codec: createHeadsCodec(config),
    target: createHeadTarget(config.target),
    everyMs: config.JOURNAL_HEAD_EVERY_MS,
  }
}
