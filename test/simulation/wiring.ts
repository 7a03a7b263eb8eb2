import type { Redis } from 'ioredis'
import {
  JobKeyLostError, type JobKeys, keysInTopic, type NewJobKeys,
} from '../../services/jobs/job-keys.ts'
import type { JobStore } from '../../services/jobs/store.ts'
import { createMessageCodec } from '../../services/jobs/message-codec.ts'
import type { Codec } from '../../services/runtime/kafka/registry.ts'
import type { MemoryBus } from '../support/kafka/memory-bus.ts'
import { jobKeysOf } from '../support/keys/organization-keys.ts'
import type { Chaos } from './chaos.ts'
import type { Faults } from './pipeline.ts'
import type { RawMessage } from '../../services/runtime/kafka/bus.ts'
import { logicalTopic } from '../../services/runtime/platform/topics.ts'
import type { MessageCodec } from '../../services/runtime/engine/stage.ts'
import { lossOf, type Poisoned } from './poison.ts'

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

/** Chunks and keys that become unreadable after their job was accepted. */
type Corruption = {
  readonly keys: JobKeys & NewJobKeys
  readonly codecOver: (messageCodec: MessageCodec) => MessageCodec
  /** Chunks that were readable when their job was accepted, and no longer are. */
  readonly corrupted: readonly Poisoned[]
  /** Jobs whose data key is lost. */
  readonly lostKeys: ReadonlySet<string>
  /** Corrupts nothing from now on. */
  readonly stopFaults: () => void
}

type CorruptionOptions = {
  readonly keys: JobKeys & NewJobKeys
  readonly store: Pick<JobStore, 'outcome'>
  readonly chaos: Chaos
  /** Probability for a chunk that is read again before its accepted job was announced. */
  readonly corruption: number
  /** Probability that the key of a job is lost, at each use of it. */
  readonly keyLoss: number
}

/** Corrupts chunks that `lookup` has read before, and loses the keys of running jobs. */
function createCorruption (
  { keys, store, chaos, corruption, keyLoss }: CorruptionOptions
): Corruption {
  const corrupted = new Map<string, Poisoned>()
  const lostKeys = new Set<string>()
  let isStopped = false
  const runningJob = async (tenant: string, job: string) => {
    const outcome = await store.outcome(tenant, job)
    return outcome.kind === 'accepted' && !outcome.job.closed ? outcome.job : undefined
  }
  const get: JobKeys['get'] = async (tenant, job) => {
    const mayLose = !isStopped && keyLoss > 0 && chaos.happens(keyLoss)
    if (!lostKeys.has(job) && !mayLose) return await keys.get(tenant, job)
    const running = await runningJob(tenant, job) !== undefined
    if (running) lostKeys.add(job)
    if (!lostKeys.has(job)) return await keys.get(tenant, job)
    if (running) throw new JobKeyLostError(`the key of ${job} is lost`)
    return undefined
  }
  const isCorrupted = async (raw: RawMessage): Promise<boolean> => {
    if (logicalTopic(raw.topic)?.topic !== 'rows.normalized' || raw.value === null) return false
    const name = `${raw.topic}:${raw.partition}:${raw.offset}`
    if (corrupted.has(name)) return true
    if (isStopped || corruption === 0 || raw.headers['job'] === undefined) return false
    const job = await runningJob(raw.headers['tenant'] ?? '', raw.headers['job'])
    if (job === undefined || job.announced || !chaos.happens(corruption)) return false
    corrupted.set(name, {
      topic: 'rows.normalized', value: raw.value, ...lossOf(raw.headers, true),
    })
    return true
  }
  return {
    keys: { create: keys.create, get },
    codecOver: messageCodec => ({
      decode: async raw =>
        await isCorrupted(raw)
          ? { kind: 'dead', reason: 'seal_broken' }
          : await messageCodec.decode(raw),
      encode: messageCodec.encode,
    }),
    get corrupted () { return [...corrupted.values()] },
    lostKeys,
    stopFaults: () => { isStopped = true },
  }
}
