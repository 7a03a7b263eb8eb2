import Type from 'typebox'
import { createJobKeys } from '../jobs/job-keys.ts'
import { connectClickhouse, PATIENT_MS } from '../lib/clickhouse.ts'
import { commonConfig, messageKeys, loadConfig, pick } from '../lib/config.ts'
import { createKafkaBus } from '../lib/kafka/bus.ts'
import { kafkaConnectionOf } from '../lib/kafka/connection.ts'
import { createKeyRing } from '../lib/key-ring.ts'
import { createMessageMac } from '../lib/message-mac.ts'
import { createRecordMac } from '../lib/record-mac.ts'
import { connectRedis } from '../lib/redis.ts'
import { createCodec, registrySource } from '../lib/registry.ts'
import { closedKeys } from '../records/job-wire.ts'
import { audit, type AuditOptions } from './audit.ts'
import { readExportedHeads } from './audit-heads.ts'
import { createKafkaJournal } from './audit-kafka.ts'
import { auditIncrementally } from './audit-incremental.ts'
import { auditParts } from './audit-parts.ts'
import { createPosition } from './audit-position.ts'
import { auditTable, type AuditReport } from './audit-report.ts'

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
  const redis = connectRedis(config.REDIS_STATE_URL)
  const clickhouse = connectClickhouse(config.CLICKHOUSE_URL, PATIENT_MS)
  const bus = createKafkaBus({
    ...kafkaConnectionOf(config),
    mac: createMessageMac(config),
    clientId: 'workspace',
    onFatal: error => { throw error },
  })
  try {
    const codec = createCodec(registrySource(config.SCHEMA_REGISTRY_URL))
    const recordMac = createRecordMac(config)
    const findClosed = closedKeys({ bus, codec, clickhouse, recordMac })
    const keys = createJobKeys({ redis, ring: createKeyRing(config), findClosed })
    const kafka = createKafkaJournal(config, codec)
    const parts = { ...auditParts({ redis, clickhouse, recordMac, codec, keys }), kafka }
    if (options.explain === true || heads.size > 0) return await audit(parts, { ...options, heads })
    const position = createPosition(redis, config)
    const from = incremental ? await position.read() : new Map()
    const { report, proven } = await auditIncrementally(parts, { ...options, from, say })
    if (options.only === undefined) await position.keep(proven)
    return report
  } finally {
    await bus.close()
    redis.disconnect()
    await clickhouse.close()
  }
}
