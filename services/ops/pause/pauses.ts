import type { Redis } from 'ioredis'
import type { Environment } from '../../lib/command-environment.ts'
import { PAUSED_KEY } from '../../lib/pausable.ts'
import { connectRedis } from '../../lib/redis.ts'
import { STAGES, type StageName } from '../../topology.ts'
import { withState } from '../state.ts'

/** A stage that somebody keeps from beginning anything. */
export type Pause = {
  readonly stage: StageName
  /** By Redis, ISO 8601. */
  readonly since: string
  readonly by: string
  /** Empty where none was given. */
  readonly reason: string
}

export type Pauses = {
  /** All of them, in the order of the pipeline. */
  readonly read: () => Promise<readonly Pause[]>
  /** A stage that is paused already stays as it is: `changed` is false then. */
  readonly pause: (
    wish: Pick<Pause, 'stage' | 'by' | 'reason'>
  ) => Promise<{ readonly changed: boolean, readonly pause: Pause }>
  /** The pause that ended; undefined when there was none. */
  readonly resume: (stage: StageName) => Promise<Pause | undefined>
}

type PauseRedis = Pick<Redis, 'hdel' | 'hget' | 'hgetall' | 'hsetnx' | 'time'>

/** What operators have paused, in the Redis that keeps state. */
export function createPauses (redis: PauseRedis): Pauses {
  const find = async (stage: StageName) => {
    const text = await redis.hget(PAUSED_KEY, stage)
    return text === null ? undefined : pauseOf(stage, text)
  }
  const pause: Pauses['pause'] = async wish => {
    const { stage, by, reason } = wish
    const [seconds] = await redis.time()
    const since = new Date(Number(seconds) * 1_000).toISOString()
    const text = JSON.stringify({ since, by, reason })
    const changed = await redis.hsetnx(PAUSED_KEY, stage, text) === 1
    const found = await find(stage)
    // Somebody resumed it in between.
    return found === undefined ? await pause(wish) : { changed, pause: found }
  }
  return {
    read: async () => {
      const texts = await redis.hgetall(PAUSED_KEY)
      return STAGES.flatMap(stage => {
        const text = texts[stage]
        return text === undefined ? [] : [pauseOf(stage, text)]
      })
    },
    pause,
    resume: async stage => {
      const found = await find(stage)
      return await redis.hdel(PAUSED_KEY, stage) === 1 ? found : undefined
    },
  }
}

/** That something stands there is what pauses; who wrote it by hand need not have known more. */
function pauseOf (stage: StageName, text: string): Pause {
  const { since = '', by = '', reason = '' } = fieldsOf(text)
  return { stage, since: String(since), by: String(by), reason: String(reason) }
}

function fieldsOf (text: string): Readonly<Record<string, unknown>> {
  try {
    const found: unknown = JSON.parse(text)
    return typeof found === 'object' && found !== null ? { ...found } : {}
  } catch {
    return {}
  }
}

/** Connects to the Redis that knows the pauses, for one piece of work. */
export async function withPauses<T> (
  env: Environment, work: (pauses: Pauses) => Promise<T>
): Promise<T> {
  return await withState(env, redis => work(createPauses(redis)))
}

/** Told beside something else, so nothing waits for it for long. */
const SOON = { commandTimeout: 1_000, connectTimeout: 1_000 }

/**
 * For work that tells of pauses beside what it is for: what it is given answers undefined while
 * Redis does not answer, or is not named in the environment.
 */
export async function besidePauses<T> (
  env: Environment, work: (read: () => Promise<readonly Pause[] | undefined>) => Promise<T>
): Promise<T> {
  const url = env['REDIS_STATE_URL'] ?? ''
  if (url === '') return await work(async () => undefined)
  const redis = connectRedis(url, SOON)
  try {
    return await work(() => createPauses(redis).read().catch(() => undefined))
  } finally {
    redis.disconnect()
  }
}
