import type { Redis } from 'ioredis'
import type { Environment } from '../runtime/platform/command-environment.ts'
import { PAUSED_KEY } from '../runtime/engine/pause.ts'
import { STAGES, type StageName } from '../topology.ts'
import { withState } from './connections.ts'

/** A stage that an operator has paused. */
export type Pause = {
  readonly stage: StageName
  /** ISO 8601, from the clock of Redis. */
  readonly since: string
  readonly by: string
  /** Empty when none was given. */
  readonly reason: string
}

type Pauses = {
  /** All pauses, in the order of the pipeline. */
  readonly read: () => Promise<readonly Pause[]>
  /** Leaves an existing pause unchanged and returns it with `changed: false`. */
  readonly pause: (
    request: Pick<Pause, 'stage' | 'by' | 'reason'>
  ) => Promise<{ readonly changed: boolean, readonly pause: Pause }>
  /** Returns the pause that ended; undefined when the stage was not paused. */
  readonly resume: (stage: StageName) => Promise<Pause | undefined>
}

type PauseRedis = Pick<Redis, 'hdel' | 'hget' | 'hgetall' | 'hsetnx' | 'time'>

/** Reads and changes the pauses in the state Redis. */
export function createPauses (redis: PauseRedis): Pauses {
  const find = async (stage: StageName) => {
    const text = await redis.hget(PAUSED_KEY, stage)
    return text === null ? undefined : parsePause(stage, text)
  }
  const pause: Pauses['pause'] = async request => {
    const { stage, by, reason } = request
    const [seconds] = await redis.time()
    const since = new Date(Number(seconds) * 1_000).toISOString()
    const text = JSON.stringify({ since, by, reason })
    const changed = await redis.hsetnx(PAUSED_KEY, stage, text) === 1
    const found = await find(stage)
    // Another operator resumed the stage concurrently.
    return found === undefined ? await pause(request) : { changed, pause: found }
  }
  return {
    read: async () => {
      const texts = await redis.hgetall(PAUSED_KEY)
      return STAGES.flatMap(stage => {
        const text = texts[stage]
        return text === undefined ? [] : [parsePause(stage, text)]
      })
    },
    pause,
    resume: async stage => {
      const found = await find(stage)
      return await redis.hdel(PAUSED_KEY, stage) === 1 ? found : undefined
    },
  }
}

/** Any value pauses the stage, including one that an operator wrote by hand. */
function parsePause (stage: StageName, text: string): Pause {
  const { since = '', by = '', reason = '' } = parseFields(text)
  return { stage, since: String(since), by: String(by), reason: String(reason) }
}

function parseFields (text: string): Readonly<Record<string, unknown>> {
  try {
    const found: unknown = JSON.parse(text)
    return typeof found === 'object' && found !== null ? { ...found } : {}
  } catch {
    return {}
  }
}

/** Runs work with the pauses of the state Redis in the environment. */
export async function withPauses<T> (
  env: Environment, work: (pauses: Pauses) => Promise<T>
): Promise<T> {
  return await withState(env, redis => work(createPauses(redis)))
}
