import type { Redis } from 'ioredis'
import { createJobKeys, keysInTopic, type JobKeys } from '../../services/jobs/job-keys.ts'
import type { JobStore } from '../../services/jobs/store.ts'
import { createMessageCodec } from '../../services/jobs/message-codec.ts'
import { createKeyRing } from '../../services/crypto/key-ring.ts'
import type { Codec } from '../../services/kafka/registry.ts'
import type { MemoryBus } from '../support/memory-bus.ts'
import type { Chaos } from './chaos.ts'
import type { Faults } from './pipeline.ts'
import { createCorruption } from './corruption.ts'

// The same in every process: bytes sealed under it have a place in an order that must repeat.
const ring = createKeyRing({
  KEY_RING: { 1: Buffer.alloc(32, 7).toString('base64') }, KEY_ACTIVE: '1',
})

type Deps = {
  readonly redis: Redis
  readonly bus: Pick<MemoryBus, 'lastValue'>
  readonly codec: Codec
  readonly store: JobStore
  readonly chaos: Chaos
  readonly faults: Faults
}

/** Data keys and the message codec as every stage has them, except that both may be corrupted. */
export function sealing ({ redis, bus, codec, store, chaos, faults }: Deps) {
  const isRunning = async (tenant: string, job: string) => {
    const outcome = await store.outcome(tenant, job)
    return outcome.kind === 'accepted' && !outcome.job.closed
  }
  const restore = keysInTopic({ bus, codec })
  const create = () => createJobKeys({ redis, ring, isRunning, restore })
  let remembered = create()
  const keys: JobKeys = {
    create: (...of) => remembered.create(...of), get: (...of) => remembered.get(...of),
  }
  const corruption = createCorruption({ keys, store, chaos, ...faults })
  const messageCodec = corruption.codecOver(createMessageCodec({ codec, keys: corruption.keys }))
  /** From now on keys come from where they are stored. */
  const forgetKeys = () => { remembered = create() }
  return { keys: corruption.keys, messageCodec, corruption, forgetKeys }
}
