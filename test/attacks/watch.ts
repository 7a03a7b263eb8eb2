import type { RunningService } from '../../deploy/local/launcher/services.ts'
import { fetchSamples } from '../../services/runtime/platform/metrics.ts'
import { startRepeating } from '../../services/runtime/platform/retry.ts'
import { usageOf } from '../bench/usage.ts'

export type Watched = {
  readonly name: string
  /** Of its resident memory, since it was started. */
  readonly peakMb: number
  /** Between two samples of its event loop, which are 0.1 s apart, since the watch began. */
  readonly longestPauseSeconds: number
}

const PAUSE = 'nodejs_eventloop_lag_max_seconds'
const LEADER_POLL_MS = 1_000

/** Watches event loops and memory of services until `end`, which returns the maxima. */
export async function watchServices (
  list: () => readonly RunningService[]
): Promise<{ readonly end: () => Promise<readonly Watched[]> }> {
  const pauses = new Map<string, number>()
  const sample = async () => {
    await Promise.all(list().map(async ({ name, metricsUrl }) => {
      // A scrape resets the longest pause of a service.
      const samples = await fetchSamples(metricsUrl, { names: new Set([PAUSE]), timeoutMs: 10_000 })
      const seconds = samples?.[0]?.value ?? 0
      pauses.set(name, Math.max(pauses.get(name) ?? 0, seconds))
    }))
  }
  await sample()
  // What was before, such as its start, is of no interest.
  pauses.clear()
  const sampling = startRepeating(LEADER_POLL_MS, sample, () => {})
  return {
    end: async () => {
      await sampling.stop()
      await sample()
      return list().map(({ name, pid }) => ({
        name,
        peakMb: pid === undefined ? 0 : usageOf(pid).peakMb,
        longestPauseSeconds: pauses.get(name) ?? 0,
      }))
    },
  }
}
