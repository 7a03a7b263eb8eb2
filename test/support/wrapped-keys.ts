import { createOrganizations } from '../../services/accounts/organizations.ts'
import { createPartners } from '../../services/accounts/partners.ts'
import {
  createRequestSecret, createWebhookSecrets, createWebhookSigningKeys,
} from '../../services/accounts/webhook-secrets.ts'
import { createJobKeys } from '../../services/jobs/job-keys.ts'
import { jobKeys } from '../../services/jobs/redis-keys.ts'
import type { ReadTopic } from '../../services/jobs/wrapped-keys.ts'
import { createKeyRing, type KeyRing, kidOf } from '../../services/crypto/key-ring.ts'
import { createCodec, localSource } from '../../services/kafka/registry.ts'
import type { CopiedKey, JobKeyCopy } from '../../services/jobs/job-key-copy.ts'
import { wrappedKeySources } from '../../services/workspace/wrapped-keys.ts'
import { createMemoryBus } from './memory-bus.ts'
import { startRedis } from './redis.ts'

/** A real Redis and a topic in memory, in which keys are wrapped. */
export const { redis } = await startRedis()
export const codec = createCodec(localSource())
export const bus = createMemoryBus()
export const producer = bus.producer('keys')
export const tenant = 'org_1.live'

const read: ReadTopic = async (topic, onMessages) => { await onMessages(bus.messages(topic)) }

/** What ClickHouse has of them, in memory. */
export const copied: CopiedKey[] = []
const keep = (isKept: (key: CopiedKey) => boolean) => {
  copied.splice(0, copied.length, ...copied.filter(isKept))
}
const keyCopy: JobKeyCopy = {
  append: async keys => { copied.push(...keys) },
  find: async (_tenant, job) => copied.findLast(key => key.job === job)?.wrapped,
  all: async function * () { yield * [...copied] },
  rowsOf: async (_tenant, jobs) => copied.map(({ job }) => job).filter(job => jobs.includes(job)),
  erase: async (_tenant, jobs) => keep(({ job }) => !jobs.includes(job)),
  keepWrappedBy: async kid => {
    const isFresh = ({ wrapped }: CopiedKey) => kidOf(wrapped) === kid
    const fresh = new Set(copied.filter(isFresh).map(({ job }) => job))
    keep(key => !fresh.has(key.job) || isFresh(key))
  },
}

export const stores = { redis, codec, producer, read, keyCopy }

const keyOf = (byte: number) => Buffer.alloc(32, byte).toString('base64')

/** A ring of the keys k<number>. */
export function ringOf (kids: readonly number[], active: number): KeyRing {
  const KEY_RING = Object.fromEntries(kids.map(kid => [`k${kid}`, keyOf(kid)]))
  return createKeyRing({ KEY_RING, KEY_ACTIVE: `k${active}` })
}

/** What takes stock of everything that is wrapped. */
export const partsOf = (ring: KeyRing) => ({ ring, sources: wrappedKeySources(stores, ring) })

/** All of an organization that is wrapped, under this ring. */
export function accountsOf (ring: KeyRing) {
  return {
    organizations: createOrganizations(redis),
    webhookSecrets: createWebhookSecrets({ redis, ring }),
    signingKeys: createWebhookSigningKeys({ redis, ring }),
    partners: createPartners({ redis, ring }),
    requestSecret: createRequestSecret({ redis, ring }),
  }
}

/** A job's data key, in Redis, in its topic and in ClickHouse. */
export async function makeJob (job: string, ring: KeyRing): Promise<Buffer> {
  const { key, wrapped } = createJobKeys({ redis, ring }).create(tenant, job)
  await redis.set(jobKeys(tenant, job).dataKey, wrapped, 'PX', 3_600_000)
  const value = await codec.encode('job.keys-value', { tenant, job, wrapped })
  await producer.send([{ topic: 'job.keys', key: job, value, headers: {} }])
  copied.push({ tenant, job, wrapped, createdMs: 0 })
  return key
}
