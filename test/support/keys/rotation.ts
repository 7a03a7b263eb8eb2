import { randomBytes } from 'node:crypto'
import { createOrganizationKeyStore } from '../../../services/accounts/organization-key-store.ts'
import { wrappingKeyId } from '../../../services/accounts/organization-keys.ts'
import { rootIdOf } from '../../../services/runtime/crypto/root-keys/root-keys.ts'
import { splitJobKey } from '../../../services/jobs/job-key-parts.ts'
import { jobKeys } from '../../../services/jobs/redis-keys.ts'
import { connectRedis } from '../../../services/runtime/platform/redis.ts'
import { ROOT_KEY_NAMES } from './organization-keys.ts'

export type Settings = Readonly<Record<string, string>>

/**
 * The settings of a rotation from the keys of a stack to new ones, of all root keys and the cache
 * secret: `before` has both and uses the old ones, `after` uses the new ones, `alone` has no other.
 */
export function rotationOf (env: Settings) {
  const newKeys = Object.fromEntries([...ROOT_KEY_NAMES, 'CACHE_SECRETS'].map(name =>
    [name, { 2: randomBytes(32).toString('base64') }]))
  const withKeys = (change: (name: string) => object): Settings => Object.fromEntries(
    Object.keys(newKeys).map(name => [name, JSON.stringify(change(name))]))
  const active = Object.fromEntries([
    ...ROOT_KEY_NAMES.map(name => [`${name.slice(0, -1)}_ACTIVE`, '2']),
    ['CACHE_SECRET_ACTIVE', '2'],
  ])
  const before: Settings =
    { ...env, ...withKeys(name => ({ ...JSON.parse(env[name] ?? ''), ...newKeys[name] })) }
  const after: Settings = { ...before, ...active }
  const alone: Settings = { ...after, ...withKeys(name => newKeys[name] ?? {}) }
  return { before, after, alone }
}

/**
 * The version that wraps the data key of a job, and the id of the root key that wraps that version.
 */
export async function keysOfJob (
  redis: ReturnType<typeof connectRedis>, orgId: string, job: string
): Promise<readonly [version: string, root: string]> {
  const wrapped = await redis.getBuffer(jobKeys(`${orgId}.live`, job).dataKey)
  const id = wrappingKeyId(splitJobKey(wrapped ?? Buffer.alloc(0)).results)
  const keys = await createOrganizationKeyStore(redis).read(orgId)
  const key = keys.find(one => one.class === 'results' && id === `results.${one.version}`)
  return [id, rootIdOf(key?.wrapped ?? Buffer.alloc(0))]
}
