import { EventEmitter, once } from 'node:events'
import type { Redis } from 'ioredis'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import { PAUSED_KEY } from '../platform/pausable.ts'

/** Keeps further work from beginning; what has begun is not touched by it. */
export type Gate = {
  readonly isOpen: () => boolean
  /** Resolves once it is open; rejects when the signal is aborted before. */
  readonly opened: (signal: AbortSignal) => Promise<void>
}

/** The gate of what is never paused. */
export const OPEN_GATE: Gate = { isOpen: () => true, opened: async () => {} }

export type PauseGateDeps = {
  readonly redis: Pick<Redis, 'hexists'>
  readonly log: Pick<Log, 'info' | 'warn'>
  readonly metrics: Pick<Metrics, 'watch'>
  /** Pause between two looks; two seconds by default. */
  readonly everyMs?: number
}

/** Every process looks, also when nothing else is done. */
const LEADER_POLL_MS = 2_000

/**
 * The gate of a stage that operators pause and resume. It looks every two seconds whether they
 * have; while Redis does not tell, what it told last holds. Before its first answer the gate is
 * closed, as a process that was started anew must not begin what its stage was paused to keep from.
 */
export function startPauseGate (
  stage: string, { redis, log, metrics, everyMs = LEADER_POLL_MS }: PauseGateDeps
): Gate & { readonly stop: () => Promise<void> } {
  // Every partition may wait here.
  const openings = new EventEmitter().setMaxListeners(0)
  let paused: boolean | undefined
  let isTold = true
  let isStopped = false
  let asking: Promise<void> | undefined
  const learn = (now: boolean) => {
    if (now !== (paused ?? false)) log.info(now ? 'the stage is paused' : 'the stage goes on')
    paused = now
    isTold = true
    if (!now) openings.emit('open')
  }
  const look = async () => {
    try {
      learn(await redis.hexists(PAUSED_KEY, stage) === 1)
    } catch (error) {
      if (!isTold || isStopped) return
      isTold = false
      log.warn({ err: error }, 'whether the stage is paused cannot be read')
    }
  }
  const tick = () => { asking ??= look().finally(() => { asking = undefined }) }
  tick()
  const timer = setInterval(tick, everyMs).unref()
  const isOpen = () => paused === false
  metrics.watch('stage_paused', { stage }, () => Number(paused === true))
  return {
    isOpen,
    opened: async signal => {
      while (!isOpen()) await once(openings, 'open', { signal })
    },
    stop: async () => {
      isStopped = true
      clearInterval(timer)
      await asking
    },
  }
}
