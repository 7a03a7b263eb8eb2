import type { Job, ManifestEntry } from '../../../services/jobs/job.ts'
import {
  createMessageMac, createRecordMac, type MessageMac, type RecordMac,
} from '../../../services/runtime/crypto/mac.ts'
import { archiveRow } from '../../../services/jobs/results/archive.ts'

/** Message keys as configuration, for what is never connected to brokers. */
export const MESSAGE_KEY_ENV = {
  MESSAGE_KEYS: JSON.stringify({ 1: Buffer.alloc(32, 1).toString('base64') }),
  MESSAGE_KEY_ACTIVE: '1',
} as const

type Env = Readonly<Record<string, string>>

/** The keys in the environment of a stack, as services have them. */
export const messageKeysOf = (env: Env = MESSAGE_KEY_ENV) => ({
  MESSAGE_KEYS: JSON.parse(env['MESSAGE_KEYS'] ?? '{}') as Env,
  MESSAGE_KEY_ACTIVE: env['MESSAGE_KEY_ACTIVE'] ?? '',
})

/** Signs final records as the services of a stack do. */
export const recordMacOf = (env?: Env): RecordMac => createRecordMac(messageKeysOf(env))

/** Signs as the services of a stack do. */
export const messageMacOf = (env: Env): MessageMac => createMessageMac(messageKeysOf(env))

/** The row of a job as ClickHouse gives it back, signed by the keys for tests. */
export function storedJob (job: Job, manifest: readonly ManifestEntry[]) {
  const { tenant, job: id, record, header_base64: header, manifest_base64: packed, mac } =
    archiveRow(recordMacOf(), { job, manifest })
  return { tenant, job: id, record, header, manifest: packed, mac }
}
