import type { Deliveries } from './deliveries.ts'
import type { DeliveryHistory } from './delivery-history.ts'
import type { Clock } from '../runtime/platform/clock.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import type { Log } from '../runtime/platform/log.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { backoffMs, sleep } from '../runtime/platform/retry.ts'

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
  const ship = async () =>
    await shipAttempts(deps) === MAX_ATTEMPTS_PER_INSERT ? 0 : SHIP_EVERY_MS
  const onError = (error: unknown, failures: number) => {
    deps.log.warn({ err: error, failures },
      'writing webhook attempts to ClickHouse failed, retrying')
    return SHIP_EVERY_MS + backoffMs(failures)
  }
  const loop = startLoop(ship, onError)
  const stop = async () => {
    await loop.stop()
    // If the last records cannot be shipped, another process or the next start ships them.
    await shipAttempts(deps).catch(() => {})
  }
  return { ready: loop.ready, stop }
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
  const measure = async () => {
    due = await deliveries.dueBy(clock.now())
    return measureEveryMs
  }
  return startLoop(measure, error => {
    log.warn({ err: error }, 'counting due webhooks in Redis failed, retrying')
    return measureEveryMs
  })
}

/**
 * Repeats a task until stopped. Task and `onError` give the pause before the next run in ms;
 * `failures` is the number of failed runs in a row. `ready` is false after a failed run.
 */
function startLoop (
  task: () => Promise<number>, onError: (error: unknown, failures: number) => number
) {
  const stopping = new AbortController()
  let failures = 0
  const loop = async () => {
    while (!stopping.signal.aborted) {
      let pauseMs: number
      try {
        pauseMs = await task()
        failures = 0
      } catch (error) {
        failures += 1
        pauseMs = onError(error, failures)
      }
      await sleep(pauseMs, stopping.signal).catch(() => {})
    }
  }
  const ended = loop()
  const stop = async () => {
    stopping.abort()
    await ended
  }
  return { ready: () => failures === 0, stop }
}
