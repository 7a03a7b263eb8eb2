import { randomBytes } from 'node:crypto'
import type { OrganizationKeys } from '../accounts/organization-keys.ts'
import { partsOf } from '../accounts/tenant.ts'
import { SealError, subkey, type Binding } from '../runtime/crypto/seal.ts'

/**
 * What the organization key of each class opens of a job: its data key, and the key of its header,
 * which is derived from the data key. Both are stored together, and so erased together.
 */
export type JobKeyPart = 'results' | 'webhooks'

const JOB_KEY_PARTS: readonly JobKeyPart[] = ['results', 'webhooks']

/** Data keys of new jobs. */
export type NewJobKeys = {
  /** Creates a data key, which `claim` stores wrapped. */
  readonly create: (tenant: string, job: string) => Promise<NewJobKey>
}

export type NewJobKey = { readonly key: Buffer, readonly wrapped: Buffer }

/** Wraps the part of each class. */
export type WrapJobKeys =
  Readonly<Record<JobKeyPart, Pick<OrganizationKeys, 'wrap' | 'whenShipped'>>>

/** What precedes the first part as stored: its length. */
export const JOB_KEY_HEAD_BYTES = 2

/** Creates a data key for a job and wraps both parts of it. */
export async function newJobKey (
  wrap: WrapJobKeys, tenant: string, job: string
): Promise<NewJobKey> {
  const key = randomBytes(32)
  const { orgId } = partsOf(tenant)
  await Promise.all(JOB_KEY_PARTS.map(part => wrap[part].whenShipped(orgId)))
  const [results, webhooks] = await Promise.all([
    wrap.results.wrap(orgId, key, jobKeyBinding('results', tenant, job)),
    wrap.webhooks.wrap(orgId, headerKeyOf(key), jobKeyBinding('webhooks', tenant, job)),
  ])
  return { key, wrapped: joinJobKey({ results, webhooks }) }
}

/** The key of the header of a job, from its data key. */
export const headerKeyOf = (dataKey: Buffer): Buffer => subkey(dataKey, 'header')

/** Binds a wrapped part to its job. */
export function jobKeyBinding (part: JobKeyPart, tenant: string, job: string): Binding {
  return [part === 'results' ? 'data-key' : 'header-key', tenant, job]
}

/**
 * Opens one part of a stored data key.
 * @throws SealError for bytes that are not the parts of a data key, or another job's.
 */
export async function openJobKey (
  keys: Pick<OrganizationKeys, 'unwrap'>, part: JobKeyPart,
  { tenant, job, wrapped }: {
    readonly tenant: string, readonly job: string, readonly wrapped: Buffer,
  }
): Promise<Buffer> {
  return await keys.unwrap(
    partsOf(tenant).orgId, splitJobKey(wrapped)[part], jobKeyBinding(part, tenant, job))
}

/** Both parts as stored: the length of the first in 2 bytes, then one after the other. */
export function joinJobKey (
  { results, webhooks }: Readonly<Record<JobKeyPart, Buffer>>
): Buffer {
  const length = Buffer.alloc(JOB_KEY_HEAD_BYTES)
  length.writeUInt16BE(results.length)
  return Buffer.concat([length, results, webhooks])
}

/** @throws SealError for bytes that are not the parts of a data key. */
export function splitJobKey (wrapped: Buffer): Readonly<Record<JobKeyPart, Buffer>> {
  const end = wrapped.length < JOB_KEY_HEAD_BYTES
    ? Infinity
    : JOB_KEY_HEAD_BYTES + wrapped.readUInt16BE(0)
  if (wrapped.length <= end) throw new SealError(`not a wrapped data key: ${wrapped.length} bytes`)
  return { results: wrapped.subarray(JOB_KEY_HEAD_BYTES, end), webhooks: wrapped.subarray(end) }
}
