import { createOrganizations } from '../../services/accounts/organizations.ts'
import { createPartners } from '../../services/accounts/partners.ts'
import { createRequestSecret } from '../../services/accounts/request-secret.ts'
import { createWebhookSecrets } from '../../services/accounts/webhook-secrets.ts'
import { createJobKeys } from '../../services/jobs/job-keys.ts'
import type { ReadTopic } from '../../services/jobs/wrapped-keys.ts'
import { createKeyRing, type KeyRing } from '../../services/lib/key-ring.ts'
import { createCodec, localSource } from '../../services/lib/registry.ts'
import { holdersIn } from '../../services/workspace/key-holders.ts'
import { createMemoryBus } from './memory-bus.ts'
import { startRedis } from './redis.ts'

/** A real Redis and a topic in memory, in which keys are wrapped. */
export const { redis } = await startRedis()
export const codec = createCodec(localSource())
export const bus = createMemoryBus()
export const producer = bus.producer('keys')
export const tenant = 'org_1.live'

const read: ReadTopic = async (topic, onMessages) => { await onMessages(bus.messages(topic)) }
export const stores = { redis, codec, producer, read }

const keyOf = (byte: number) => Buffer.alloc(32, byte).toString('base64')

/** A ring of the keys k<number>. */
export function ringOf (kids: readonly number[], active: number): KeyRing {
  const KEY_RING = Object.fromEntries(kids.map(kid => [`k${kid}`, keyOf(kid)]))
  return createKeyRing({ KEY_RING, KEY_ACTIVE: `k${active}` })
}

/** What takes stock of everything that is wrapped. */
export const partsOf = (ring: KeyRing) => ({ ring, holders: holdersIn(stores, ring) })

/** All of an organization that is wrapped, under this ring. */
export function accountsOf (ring: KeyRing) {
  return {
    organizations: createOrganizations(redis),
    webhookSecrets: createWebhookSecrets({ redis, ring }),
    partners: createPartners({ redis, ring }),
    requestSecret: createRequestSecret({ redis, ring }),
  }
}

/** A job's data key, in Redis and in its topic. */
export async function makeJob (job: string, ring: KeyRing): Promise<Buffer> {
  const { key, wrapped } = await createJobKeys({ redis, ring }).create(tenant, job)
  const value = await codec.encode('job.keys-value', { tenant, job, wrapped })
  await producer.send([{ topic: 'job.keys', key: job, value, headers: {} }])
  return key
}
