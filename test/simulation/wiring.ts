import type { Redis } from 'ioredis'
import { keysInTopic, type JobKeys } from '../../services/jobs/job-keys.ts'
import type { NewJobKeys } from '../../services/jobs/job-key-parts.ts'
import type { JobStore } from '../../services/jobs/store.ts'
import { createMessageCodec } from '../../services/jobs/message-codec.ts'
import type { Codec } from '../../services/runtime/kafka/registry.ts'
import type { MemoryBus } from '../support/kafka/memory-bus.ts'
import { jobKeysOf } from '../support/keys/organization-keys.ts'
import type { Chaos } from './chaos.ts'
import type { Faults } from './pipeline.ts'
import { createCorruption } from './corruption.ts'

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
  const create = () => jobKeysOf({ redis, isRunning, restore })
  let remembered = create()
  const keys: JobKeys & NewJobKeys = {
    create: (...of) => remembered.create(...of), get: (...of) => remembered.get(...of),
  }
  const corruption = createCorruption({ keys, store, chaos, ...faults })
  const messageCodec = corruption.codecOver(createMessageCodec({ codec, keys: corruption.keys }))
  /** From now on keys come from where they are stored. */
  const forgetKeys = () => { remembered = create() }
  return { keys: corruption.keys, messageCodec, corruption, forgetKeys }
}
