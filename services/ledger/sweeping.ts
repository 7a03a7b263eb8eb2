import type { RunningStage } from '../lib/engine.ts'
import { FatalError } from '../lib/errors.ts'
import { sleep } from '../lib/retry.ts'
import { sweepAll, type SweepParts, type Swept } from './sweep.ts'

/**
 * Sweeps over and over beside the running stage, with a pause in between. A round that fails is
 * logged and makes the service not ready until one has worked; the next round tries again, unless
 * the process has to end, as `fatal` is told. `stop`
 * resolves when the round under way has come to its next step.
 */
export function startSweeping (
  stage: RunningStage, parts: SweepParts & { readonly fatal: (error: unknown) => void },
  everyMs: number
): RunningStage {
  const stopping = new AbortController()
  let healthy = true
  let swept: Swept = { entries: 0, stalledJobs: 0 }
  parts.metrics.watch('jobs_stalled', {}, () => swept.stalledJobs)
  const go = async () => {
    while (!stopping.signal.aborted) {
      try {
        swept = await sweepAll(parts, stopping.signal)
        healthy = true
      } catch (error) {
        healthy = false
        if (error instanceof FatalError) return parts.fatal(error)
        parts.log.warn({ err: error }, 'a sweep failed')
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
