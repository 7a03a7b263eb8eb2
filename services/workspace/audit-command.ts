import Type from 'typebox'
import { createJobKeys } from '../jobs/job-keys.ts'
import { commonConfig, messageKeys, loadConfig, pick } from '../lib/config.ts'
import { createKeyRing } from '../lib/key-ring.ts'
import { closedKeys } from '../records/job-wire.ts'
import { audit, type AuditOptions } from './audit.ts'
import { readExportedHeads } from './audit-heads.ts'
import { createKafkaJournal } from './audit-kafka.ts'
import { auditIncrementally } from './audit-incremental.ts'
import { auditParts } from './audit-parts.ts'
import { createPosition } from './audit-position.ts'
import { auditTable, type AuditReport } from './audit-report.ts'
import { withStores } from './stores.ts'

export { auditTable }

const auditConfig = Type.Object(pick(commonConfig, [
  ...messageKeys, 'SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL', 'CLICKHOUSE_URL', 'KEY_RING',
  'KEY_ACTIVE',
]))

type CommandOptions = Omit<AuditOptions, 'heads'> & {
  /** A file of exported heads, one export a line. */
  readonly journalHead?: string | undefined
  /** Goes on where the last one ended that did so, and keeps where this one ends. */
  readonly incremental?: boolean
  /** Takes lines for whoever waits. */
  readonly say?: (line: string) => void
}

/**
 * The audit on the stack that the environment names. With `explain` or `journalHead` it keeps the
 * whole journal in memory.
 */
export async function runAudit (
  env: Readonly<Record<string, string | undefined>>,
  { journalHead, incremental = false, say = () => {}, ...options }: CommandOptions = {}
): Promise<AuditReport> {
  const config = loadConfig(auditConfig, env)
  // Before the journals, so that they have all that was exported.
  const heads = journalHead === undefined
    ? new Map()
    : await readExportedHeads(journalHead, config)
  return await withStores(env, async stores => {
    const { redis, codec } = stores
    const findClosed = closedKeys(stores)
    const keys = createJobKeys({ redis, ring: createKeyRing(config), findClosed })
    const kafka = createKafkaJournal(config, codec)
    const parts = { ...auditParts({ ...stores, keys }), kafka }
    if (options.explain === true || heads.size > 0) return await audit(parts, { ...options, heads })
    const position = createPosition(redis, config)
    const from = incremental ? await position.read() : new Map()
    const { report, proven } = await auditIncrementally(parts, { ...options, from, say })
    if (options.only === undefined) await position.keep(proven)
    return report
  })
}
