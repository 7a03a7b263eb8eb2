import { EventEmitter, once } from 'node:events'
import type { RedisClient } from '../platform/redis.ts'
import type { ServiceContext } from '../platform/run.ts'

/** Stops new work from starting; running work is not affected. */
export type Gate = {
  readonly isOpen: () => boolean
  /** Resolves once it is open; rejects when the signal is aborted. */
  readonly opened: (signal: AbortSignal) => Promise<void>
}

/** Hash in the state Redis: the stages that operators have paused. */
export const PAUSED_KEY = 'ops:paused'
const POLL_MS = 2_000

/**
 * The gate of a stage that operators pause and resume. It polls Redis every two seconds; while
 * Redis is unavailable, the last state holds. Before the first response the gate is closed, because
 * a restarted process of a paused stage must not start work.
 */
export function startPauseGate (
  stage: string, { redis, log, metrics }: Pick<ServiceContext, 'log' | 'metrics'> & {
    readonly redis: Pick<RedisClient, 'hexists'>
  }
): Gate & { readonly stop: () => Promise<void> } {
  // Any number of partitions may wait here.
  const openings = new EventEmitter().setMaxListeners(0)
  let paused: boolean | undefined
  let isReachable = true
  let isStopped = false
  let polling: Promise<void> | undefined
  const update = (now: boolean) => {
    if (now !== (paused ?? false)) log.info(now ? 'stage paused' : 'stage resumed')
    paused = now
    isReachable = true
    if (!now) openings.emit('open')
  }
  const poll = async () => {
    try {
      update(await redis.hexists(PAUSED_KEY, stage) === 1)
    } catch (error) {
      if (!isReachable || isStopped) return
      isReachable = false
      log.warn({ err: error }, 'failed to read whether the stage is paused, retrying')
    }
  }
  const tick = () => { polling ??= poll().finally(() => { polling = undefined }) }
  tick()
  const timer = setInterval(tick, POLL_MS).unref()
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
      await polling
    },
  }
}
