import Type from 'typebox'
import { createJobKeys } from '../jobs/job-keys.ts'
import { connectClickhouse, PATIENT_MS } from '../lib/clickhouse.ts'
import { commonConfig, messageKeys, loadConfig, pick } from '../lib/config.ts'
import { createKeyRing } from '../lib/key-ring.ts'
import { createRecordMac } from '../lib/record-mac.ts'
import { connectRedis } from '../lib/redis.ts'
import { createCodec, registrySource } from '../lib/registry.ts'
import { createHeadsCodec } from '../records/journal-heads.ts'
import { audit, type AuditOptions } from './audit.ts'
import { readExportedHeads } from './audit-heads.ts'
import { readKafkaJournal } from './audit-kafka.ts'
import { auditParts } from './audit-parts.ts'
import type { AuditReport } from './audit-report.ts'

export { auditTable } from './audit-report.ts'

const auditConfig = Type.Object(pick(commonConfig, [
  ...messageKeys, 'SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL', 'CLICKHOUSE_URL', 'KEY_RING',
  'KEY_ACTIVE',
]))

type CommandOptions = Omit<AuditOptions, 'heads'> & {
  /** A file of exported heads, one export a line. */
  readonly journalHead?: string | undefined
}

/** The audit on the stack that the environment names. */
export async function runAudit (
  env: Readonly<Record<string, string | undefined>>,
  { journalHead, ...options }: CommandOptions = {}
): Promise<AuditReport> {
  const config = loadConfig(auditConfig, env)
  // Before the journals, so that they have all that was exported.
  const heads = journalHead === undefined
    ? new Map()
    : await readExportedHeads(journalHead, createHeadsCodec(config))
  const redis = connectRedis(config.REDIS_STATE_URL)
  const clickhouse = connectClickhouse(config.CLICKHOUSE_URL, PATIENT_MS)
  try {
    const codec = createCodec(registrySource(config.SCHEMA_REGISTRY_URL))
    const keys = createJobKeys({ redis, ring: createKeyRing(config) })
    const recordMac = createRecordMac(config)
    const kafka = () => readKafkaJournal(config, codec)
    const parts = auditParts({ redis, clickhouse, recordMac, codec, keys })
    return await audit({ ...parts, kafka }, { ...options, heads })
  } finally {
    redis.disconnect()
    await clickhouse.close()
  }
}
