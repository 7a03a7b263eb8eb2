import type { JobKeys } from '../../services/jobs/job-keys.ts'
import { JobKeyLostError } from '../../services/jobs/job-keys.ts'
import type { JobStore } from '../../services/jobs/store.ts'
import type { RawMessage } from '../../services/kafka/bus.ts'
import { logicalTopic } from '../../services/platform/topics.ts'
import type { MessageCodec } from '../../services/engine/message-codec.ts'
import type { Chaos } from './chaos.ts'
import { lossOf, type Poisoned } from './poison.ts'

/** What goes bad after a job was accepted, although it could be read before. */
export type Rot = {
  readonly keys: Pick<JobKeys, 'create' | 'get'>
  readonly codecOver: (messageCodec: MessageCodec) => MessageCodec
  /** Chunks that were whole when their job was accepted, and cannot be read any more. */
  readonly rotten: readonly Poisoned[]
  /** Jobs whose data key is nowhere. */
  readonly lostKeys: ReadonlySet<string>
  /** From now on nothing more goes bad. */
  readonly calm: () => void
}

export type RotOptions = {
  readonly keys: Pick<JobKeys, 'create' | 'get'>
  readonly store: Pick<JobStore, 'outcome'>
  readonly chaos: Chaos
  /** Of a chunk that is read once more, before its accepted job was announced. */
  readonly rot: number
  /** Of a job's key at each use of it. */
  readonly keyLoss: number
}

/** Lets chunks rot that `lookup` has read before, and loses the keys of running jobs. */
export function createRot ({ keys, store, chaos, rot, keyLoss }: RotOptions): Rot {
  const rotten = new Map<string, Poisoned>()
  const lostKeys = new Set<string>()
  let isCalm = false
  const standing = async (tenant: string, job: string) => {
    const outcome = await store.outcome(tenant, job)
    return outcome.kind === 'accepted' && !outcome.job.closed ? outcome.job : undefined
  }
  const get: JobKeys['get'] = async (tenant, job) => {
    const mayLose = !isCalm && keyLoss > 0 && chaos.happens(keyLoss)
    if (!lostKeys.has(job) && !mayLose) return await keys.get(tenant, job)
    const running = await standing(tenant, job) !== undefined
    if (running) lostKeys.add(job)
    if (!lostKeys.has(job)) return await keys.get(tenant, job)
    if (running) throw new JobKeyLostError(`the key of ${job} is nowhere`)
    return undefined
  }
  const goesBad = async (raw: RawMessage): Promise<boolean> => {
    if (logicalTopic(raw.topic)?.topic !== 'rows.normalized' || raw.value === null) return false
    const name = `${raw.topic}:${raw.partition}:${raw.offset}`
    if (rotten.has(name)) return true
    if (isCalm || rot === 0 || raw.headers['job'] === undefined) return false
    const job = await standing(raw.headers['tenant'] ?? '', raw.headers['job'])
    if (job === undefined || job.announced || !chaos.happens(rot)) return false
    rotten.set(name, {
      topic: 'rows.normalized', value: raw.value, ...lossOf(raw.headers, true),
    })
    return true
  }
  return {
    keys: { create: keys.create, get },
    codecOver: messageCodec => ({
      decode: async raw =>
        await goesBad(raw)
          ? { kind: 'dead', reason: 'seal_broken' }
          : await messageCodec.decode(raw),
      encode: messageCodec.encode,
    }),
    get rotten () { return [...rotten.values()] },
    lostKeys,
    calm: () => { isCalm = true },
  }
}
