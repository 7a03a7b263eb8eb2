import type { Job, ManifestEntry } from '../../../services/jobs/job.ts'
import { createMessageMac, type MessageMac } from '../../../services/runtime/kafka/message-mac.ts'
import { createRecordMac, type RecordMac } from '../../../services/runtime/crypto/mac.ts'
import { contentDigest, packManifest, signedOf } from '../../../services/jobs/results/archive.ts'

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
  const { header: sealed, ...fields } = job
  const packed = packManifest(manifest)
  const record = JSON.stringify({ ...fields, manifestDigest: contentDigest(packed) })
  const row = { tenant: job.tenant, job: job.id, record, header: sealed.toString('base64') }
  return { ...row, manifest: packed.toString('base64'), mac: recordMacOf().sign(signedOf(row)) }
}
