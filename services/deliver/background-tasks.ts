import type { Deliveries } from '../webhooks/deliveries.ts'
import type { DeliveryHistory } from '../webhooks/delivery-history.ts'
import type { Clock } from '../runtime/platform/clock.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import type { Log } from '../runtime/platform/log.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { retryForever, startRepeating } from '../runtime/platform/retry.ts'

export type HistoryDeps = {
  readonly deliveries: Pick<Deliveries, 'unshipped' | 'forget'>
  readonly history: Pick<DeliveryHistory, 'append'>
  readonly log: Pick<Log, 'warn'>
}

export type QueueDepthDeps = {
  readonly deliveries: Deliveries
  readonly metrics: Pick<Metrics, 'count' | 'observe' | 'watch'>
  /** Redis time. */
  readonly clock: Clock
  readonly log: Pick<Log, 'warn'>
  /** Milliseconds between two measurements. */
  readonly measureEveryMs?: number
}

const MAX_ATTEMPTS_PER_INSERT = 1_000
/** Reasons of attempts that made no request. */
const NOT_SENT: ReadonlySet<string> = new Set(['erased', 'endpoint_removed', 'internal'])
const SHIP_EVERY_MS = 250
/** The usual scrape interval of metrics is longer. */
const MEASURE_EVERY_MS = 5_000

/**
 * Moves attempt records from Redis to the history; resolves to their number. Several processes may
 * do so at once, and a crash may repeat it: the same record replaces itself.
 */
export async function shipAttempts ({ deliveries, history }: HistoryDeps): Promise<number> {
  const found = await deliveries.unshipped(MAX_ATTEMPTS_PER_INSERT)
  await history.append([...found.values()])
  if (found.size > 0) failpoint('deliver.shipped')
  await deliveries.forget([...found.keys()])
  return found.size
}

/** Ships attempt records until stopped; deliveries continue while the history is unavailable. */
export function startHistory (
  deps: HistoryDeps
): { readonly ready: () => boolean, readonly stop: () => Promise<void> } {
  let isFailing = false
  const onRetry = (error: unknown, failures: number) => {
    isFailing = true
    deps.log.warn({ err: error, failures },
      'writing webhook attempts to ClickHouse failed, retrying')
  }
  const shipping = startRepeating(SHIP_EVERY_MS, async signal => {
    let shipped: number
    do {
      shipped = await retryForever(() => shipAttempts(deps), { signal, onRetry })
      isFailing = false
    } while (shipped === MAX_ATTEMPTS_PER_INSERT)
  }, error => onRetry(error, 1))
  const stop = async () => {
    await shipping.stop()
    // If the last records cannot be shipped, another process or the next start ships them.
    await shipAttempts(deps).catch(() => {})
  }
  return { ready: () => !isFailing, stop }
}

/**
 * The deliveries, with metrics of each attempt that the holder of its lease records, and of those
 * that are throttled.
 */
export function countAttempts (
  { deliveries, metrics }: Pick<QueueDepthDeps, 'deliveries' | 'metrics'>
): Deliveries {
  const record: Deliveries['record'] = async (claim, attempted) => {
    if (!await deliveries.record(claim, attempted)) return false
    const { outcome, reason, durationMs } = attempted.attempt
    metrics.count('webhook_attempts_total', { outcome, reason })
    const wasSent = !NOT_SENT.has(reason)
    if (wasSent) metrics.observe('webhook_attempt_seconds', { outcome }, durationMs / 1_000)
    return true
  }
  const throttle: Deliveries['throttle'] = async (claim, forMs) => {
    await deliveries.throttle(claim, forMs)
    metrics.count('webhook_attempts_throttled_total', {})
  }
  return { ...deliveries, record, throttle }
}

/**
 * Measures the gauge `webhook_queue_depth` until stopped: the number of attempts that are due and
 * not started. A value that only grows means that `deliver` needs more instances. After a failed
 * measurement the gauge keeps its value.
 */
export function startQueueDepth (
  { deliveries, metrics, clock, log, measureEveryMs = MEASURE_EVERY_MS }: QueueDepthDeps
): { readonly stop: () => Promise<void> } {
  let due = 0
  metrics.watch('webhook_queue_depth', {}, () => due)
  return startRepeating(measureEveryMs, async () => { due = await deliveries.dueBy(clock.now()) },
    error => log.warn({ err: error }, 'counting due webhooks in Redis failed, retrying'))
}
