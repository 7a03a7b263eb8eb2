import { LRUCache } from 'lru-cache'
import {
  addOrganizationKey, createOrganizationKeys,
} from '../../../services/accounts/organization-keys.ts'
import { newOrganizationId } from '../../../services/accounts/organizations.ts'
import { createPartners } from '../../../services/accounts/partners.ts'
import { createPeople } from '../../../services/accounts/people.ts'
import { eraseOrganization } from '../../../services/admin/erasure.ts'
import { type RotationDeps, rotationDeps } from '../../../services/admin/key-rotation.ts'
import { createJobKeys, createNewJobKeys } from '../../../services/jobs/job-keys.ts'
import { jobRedisKeys } from '../../../services/jobs/job-record.ts'
import { createTenants } from '../../../services/money/wallet.ts'
import { createRootKeys, type RootKeys } from '../../../services/runtime/crypto/root-keys.ts'
import { KEY_CLASSES, type KeyClass } from '../../../services/topology.ts'
import {
  createWebhookSecrets, createWebhookSigningKeys,
} from '../../../services/webhooks/secrets.ts'
import { messageKeysOf } from './signed.ts'
import {
  codec, copied, keyStore, organizations, producer, redis, ship, stores,
} from './wrapped-keys.ts'

/** Root keys with these numbers as ids, for every class; the last one is active. */
export function rootsOf (...numbers: readonly [number, ...number[]]): Record<KeyClass, RootKeys> {
  const keys = Object.fromEntries(numbers.map(number =>
    [String(number), Buffer.alloc(32, number).toString('base64')]))
  return Object.fromEntries(KEY_CLASSES.map(keyClass => {
    const setting = `${keyClass.toUpperCase()}_ROOT_KEYS`
    return [keyClass, createRootKeys({ keys, active: String(numbers.at(-1)), setting })]
  })) as Record<KeyClass, RootKeys>
}

/** What a process has with these root keys that has read nothing yet. */
export function processWith (roots: Record<KeyClass, RootKeys>) {
  const keysOf = (keyClass: KeyClass) =>
    createOrganizationKeys({ store: keyStore, roots: roots[keyClass], class: keyClass })
  const keys = {
    results: keysOf('results'), webhooks: keysOf('webhooks'), partners: keysOf('partners'),
  }
  const webhooks = { redis, keys: keys.webhooks }
  const rotation: RotationDeps = {
    ...rotationDeps(stores, { ...keys, store: keyStore, roots }),
    // It knows at once whom a test has erased.
    isErased: organizations.isErased,
    // Later than any version was shipped.
    now: () => Date.now() + 3_600_000,
  }
  return {
    keys,
    rotation,
    jobKeys: createJobKeys({ redis, part: 'results', keys: keys.results }),
    newJobKeys: createNewJobKeys(keys, new LRUCache({ max: 1 })),
    webhookSecrets: createWebhookSecrets(webhooks),
    signingKeys: createWebhookSigningKeys(webhooks),
    people: createPeople({ ...webhooks, messageKeys: messageKeysOf().MESSAGE_KEYS }),
    partners: createPartners({ redis, keys: keys.partners }),
  }
}

export type Process = ReturnType<typeof processWith>

/** An organization with shipped keys of all classes. */
export async function createOrganization (roots: Record<KeyClass, RootKeys>): Promise<string> {
  const id = newOrganizationId()
  await addVersion(id, roots, 1)
  await organizations.create('Example', id)
  await createTenants(redis).add([`${id}.live`])
  return id
}

/** Adds a version of the keys of all classes, and ships it. */
export async function addVersion (
  orgId: string, roots: Record<KeyClass, RootKeys>, version: number
): Promise<void> {
  for (const keyClass of KEY_CLASSES) {
    await addOrganizationKey(
      { store: keyStore, roots: roots[keyClass], class: keyClass }, orgId, version)
  }
  await ship()
}

/** A job's data key, in Redis, in its topic and in ClickHouse. */
export async function makeJob (
  job: string, tenant: string, { newJobKeys }: Pick<Process, 'newJobKeys'>
): Promise<Buffer> {
  const { key, wrapped } = await newJobKeys.create(tenant, job)
  await redis.set(jobRedisKeys(tenant, job).dataKey, wrapped, 'PX', 3_600_000)
  const value = await codec.encode('job.keys-value', { tenant, job, wrapped })
  await producer.send([{ topic: 'job.keys', key: job, value, headers: {} }])
  copied.push({ tenant, job, wrapped, createdMs: 0 })
  return key
}

/** Erases an organization with stores of `wrapped-keys.ts`, without waiting for anything. */
export async function erase (orgId: string, onProgress: (line: string) => void = () => {}) {
  const { partners } = processWith(rootsOf(1))
  const deps = { ...stores, cache: redis, partners, sleep: async () => {} } as never
  return await eraseOrganization(deps, orgId, { deadlineMs: 0, onProgress })
}
