import type { Deliveries } from '../jobs/deliveries.ts'
import type { Clock } from '../lib/clock.ts'
import type { Log } from '../lib/log.ts'
import type { Metrics } from '../lib/metrics.ts'
import { sleep } from '../lib/retry.ts'

export type MeterParts = {
  readonly deliveries: Deliveries
  readonly metrics: Pick<Metrics, 'count' | 'observe' | 'watch'>
  /** Redis time. */
  readonly clock: Clock
  readonly log: Pick<Log, 'warn'>
  /** Pause between two counts of what is due. */
  readonly countDueEveryMs?: number
}

/** As often as metrics are read is often enough. */
const COUNT_EVERY_MS = 5_000

/** The deliveries, but that each attempt is counted when whoever holds its lease notes it. */
export function countNotes (
  { deliveries, metrics }: Pick<MeterParts, 'deliveries' | 'metrics'>
): Deliveries {
  const note: Deliveries['note'] = async (claim, noted) => {
    if (!await deliveries.note(claim, noted)) return false
    const { outcome, reason, durationMs } = noted.attempt
    metrics.count('webhook_attempts_total', { outcome, reason })
    const wasTried = reason !== 'erased' && reason !== 'internal'
    if (wasTried) metrics.observe('webhook_attempt_seconds', { outcome }, durationMs / 1_000)
    return true
  }
  return { ...deliveries, note }
}

/**
 * Counts over and over what is due, for the gauge `webhooks_due`: a number that only grows says
 * that there are too few who deliver. A count that fails leaves the last one standing.
 */
export function startCountingDue (
  { deliveries, metrics, clock, log, countDueEveryMs = COUNT_EVERY_MS }: MeterParts
): { readonly stop: () => Promise<void> } {
  const stopping = new AbortController()
  let due = 0
  metrics.watch('webhooks_due', {}, () => due)
  const go = async () => {
    while (!stopping.signal.aborted) {
      try {
        due = await deliveries.dueBy(clock.now())
      } catch (error) {
        log.warn({ err: error }, 'webhooks that are due cannot be counted')
      }
      await sleep(countDueEveryMs, stopping.signal).catch(() => {})
    }
  }
  const ended = go()
  const stop = async () => {
    stopping.abort()
    await ended
  }
  return { stop }
}
