import type { RunningStage } from '../engine/engine.ts'
import { FatalError } from '../platform/errors.ts'
import { sleep } from '../platform/retry.ts'
import { reapAll, type ReapDeps, type Reaped } from './reaper.ts'

/**
 * Sweeps over and over beside the running stage, with a pause in between. A round that fails is
 * logged and makes the service not ready until one has worked; the next round tries again, unless
 * the process has to end, as `fatal` is told. `stop`
 * resolves when the round under way has come to its next step.
 */
export function startReaper (
  stage: RunningStage, deps: ReapDeps & { readonly fatal: (error: unknown) => void },
  everyMs: number
): RunningStage {
  const stopping = new AbortController()
  let healthy = true
  let swept: Reaped = { entries: 0, stalledJobs: 0 }
  deps.metrics.watch('jobs_stalled', {}, () => swept.stalledJobs)
  const go = async () => {
    while (!stopping.signal.aborted) {
      try {
        swept = await reapAll(deps, stopping.signal)
        healthy = true
      } catch (error) {
        healthy = false
        if (error instanceof FatalError) return deps.fatal(error)
        deps.log.warn({ err: error }, 'a sweep failed')
      }
      await sleep(everyMs, stopping.signal).catch(() => {})
    }
  }
  const ended = go()
  const stop = async () => {
    stopping.abort()
    await Promise.all([ended, stage.stop()])
  }
  return { ready: () => healthy && stage.ready(), stop }
}
