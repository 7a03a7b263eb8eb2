import type { RunningService } from '../../deploy/local/launcher/services.ts'
import { fetchSamples } from '../../services/platform/exposition.ts'
import { every } from '../../services/engine/flush-held.ts'
import { usageOf } from '../bench/usage.ts'

export type Watched = {
  readonly name: string
  /** Of its resident memory, since it was started. */
  readonly peakMb: number
  /** Between two looks at its event loop, which are 0.1 s apart, since the watch began. */
  readonly longestPauseSeconds: number
}

const PAUSE = 'nodejs_eventloop_lag_max_seconds'
const LEADER_POLL_MS = 1_000

/** Watches event loops and memory of services until it is asked for what it saw. */
export async function watchServices (
  list: () => readonly RunningService[]
): Promise<{ readonly end: () => Promise<readonly Watched[]> }> {
  const pauses = new Map<string, number>()
  const look = async () => {
    await Promise.all(list().map(async ({ name, metricsUrl }) => {
      // A service forgets its longest pause whenever it is asked for it.
      const samples = await fetchSamples(metricsUrl, { names: new Set([PAUSE]), timeoutMs: 10_000 })
      const seconds = samples?.[0]?.value ?? 0
      pauses.set(name, Math.max(pauses.get(name) ?? 0, seconds))
    }))
  }
  await look()
  // What was before, such as its start, is of no interest.
  pauses.clear()
  const looking = every(LEADER_POLL_MS, look)
  return {
    end: async () => {
      await looking.stop()
      await look()
      return list().map(({ name, pid }) => ({
        name,
        peakMb: pid === undefined ? 0 : usageOf(pid).peakMb,
        longestPauseSeconds: pauses.get(name) ?? 0,
      }))
    },
  }
}
