import type { Gate } from '../runtime/engine/pause.ts'
import { RefusedRowsError } from '../runtime/platform/clickhouse.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { backoffMs, retryForever, sleep, startRepeating } from '../runtime/platform/retry.ts'
import { withTrace } from '../runtime/platform/tracing.ts'
import { type AttemptDeps, makeAttempt } from './attempt.ts'
import type {
  Deliveries, DeliveryClaim, DeliveryHistory, PriorityClass,
} from '../webhooks/deliveries.ts'

export type WorkersDeps = AttemptDeps & {
  readonly deliveries: Deliveries
  readonly history: Pick<DeliveryHistory, 'append'>
  readonly metrics: Metrics
  /** Maximum concurrent attempts, by priority class of the receiver. */
  readonly slots: Readonly<Record<PriorityClass, number>>
  /** Maximum concurrent attempts of one tenant, over all processes. */
  readonly tenantSlots: number
  readonly leaseMs: number
  readonly pollMs: number
  /** Milliseconds between two measurements of the queue depth. */
  readonly measureEveryMs?: number
  /** No attempt starts while the gate is closed; always open by default. */
  readonly gate?: Gate | undefined
}

/** Limits how long one script blocks Redis. */
const MAX_CLAIMS = 100
const PRIORITIES = ['quick', 'slow'] as const
const MAX_ATTEMPTS_PER_INSERT = 1_000
const SHIP_EVERY_MS = 250
/** The usual scrape interval of metrics is longer. */
const MEASURE_EVERY_MS = 5_000

/**
 * Makes due attempts concurrently, and ships their records to the history, until stopped. A slot
 * of the class `quick` is for attempts that are quick: a longer one moves to a slot of the class
 * `slow`. Therefore receivers that never answer delay the others only for `slowAfterMs`, however
 * many there are.
 */
export class Workers {
  readonly #deps: WorkersDeps
  readonly #stopping = new AbortController()
  readonly #taken: Record<PriorityClass, number> = { quick: 0, slow: 0 }
  readonly #running = new Set<Promise<void>>()
  readonly #polling: Promise<void>
  readonly #shipping: ReturnType<typeof startRepeating>
  readonly #measuring: ReturnType<typeof startRepeating>
  /** Aborted to end a wait early. A wake-up while nothing waits ends the next wait at once. */
  #woken = new AbortController()
  #failedPolls = 0
  #isShippingFailed = false

  constructor (deps: WorkersDeps) {
    this.#deps = deps
    this.#polling = this.#poll()
    this.#shipping = startRepeating(SHIP_EVERY_MS, signal => this.#ship(signal), () => {})
    this.#measuring = this.#measure()
  }

  /** False while claims or the history fail. */
  get isReady (): boolean {
    return this.#failedPolls === 0 && !this.#isShippingFailed
  }

  /** Starts the next poll now. */
  wake (): void {
    this.#woken.abort()
  }

  /** Resolves when the running attempts have ended, and their records are shipped if possible. */
  async stop (): Promise<void> {
    this.#stopping.abort()
    await Promise.all([this.#polling, this.#measuring.stop()])
    await Promise.all(this.#running)
    await this.#shipping.stop()
    // If the last records cannot be shipped, another process or the next start ships them.
    await shipAttempts(this.#deps).catch(() => {})
  }

  async #poll (): Promise<void> {
    const { log, pollMs, gate } = this.#deps
    while (!this.#stopping.signal.aborted) {
      let pauseMs = pollMs
      try {
        const priorities = gate?.isOpen() === false ? [] : PRIORITIES
        const more = await Promise.all(priorities.map(priority => this.#startDue(priority)))
        if (more.includes(true)) pauseMs = 0
        this.#failedPolls = 0
      } catch (error) {
        this.#failedPolls += 1
        log.warn({ err: error, failures: this.#failedPolls },
          'claiming due webhooks in Redis failed, retrying')
        pauseMs = backoffMs(this.#failedPolls)
      }
      await sleep(pauseMs, AbortSignal.any([this.#stopping.signal, this.#woken.signal]))
        .catch(() => {})
      this.#woken = new AbortController()
    }
  }

  /** Claims and starts due attempts while slots are free; resolves to whether more may be due. */
  async #startDue (priority: PriorityClass): Promise<boolean> {
    const { deliveries, leaseMs, slots, tenantSlots } = this.#deps
    const limit = Math.min(MAX_CLAIMS, slots[priority] - this.#taken[priority])
    if (limit <= 0) return false
    const claims = await deliveries.claim({ priority, limit, leaseMs, tenantSlots })
    if (claims.length > 0) failpoint('deliver.claimed')
    for (const claim of claims) this.#start(claim, priority)
    return claims.length === limit
  }

  #start (claim: DeliveryClaim, priority: PriorityClass): void {
    const releaseSlot = this.#takeSlot(priority)
    const { tenant, job, delivery, traceparent } = claim
    // An attempt belongs to the trace of its job, even hours later.
    const trace = { ...traceparent && { traceparent } }
    const done = withTrace(trace, () => makeAttempt(this.#deps, claim))
      .catch((error: unknown) => this.#deps.log.warn({ err: error, tenant, job, event: delivery },
        'webhook attempt not completed, repeating it when its lease expires'))
      .finally(() => {
        releaseSlot()
        this.#running.delete(done)
        this.wake()
      })
    this.#running.add(done)
  }

  /**
   * Takes a slot and returns its release. A quick slot that is taken for `slowAfterMs` becomes a
   * slow one as soon as one is free.
   */
  #takeSlot (priority: PriorityClass): () => void {
    const { slots, slowAfterMs } = this.#deps
    let current = priority
    this.#taken[current] += 1
    const timer = setInterval(() => {
      if (current === 'slow' || this.#taken.slow >= slots.slow) return
      this.#taken.quick -= 1
      this.#taken.slow += 1
      current = 'slow'
      clearInterval(timer)
    }, slowAfterMs)
    return () => {
      clearInterval(timer)
      this.#taken[current] -= 1
    }
  }

  /** Ships all records there are; attempts continue while the history is unavailable. */
  async #ship (signal: AbortSignal): Promise<void> {
    const onRetry = (error: unknown, failures: number) => {
      this.#isShippingFailed = true
      this.#deps.log.warn({ err: error, failures },
        'writing webhook attempts to ClickHouse failed, retrying')
    }
    let shipped: number
    do {
      shipped = await retryForever(() => shipAttempts(this.#deps), { signal, onRetry })
      this.#isShippingFailed = false
    } while (shipped === MAX_ATTEMPTS_PER_INSERT)
  }

  /**
   * Measures the gauge `webhook_queue_depth`: the number of attempts that are due and not started.
   * A value that only grows means that `deliver` needs more instances. After a failed measurement
   * the gauge keeps its value.
   */
  #measure (): ReturnType<typeof startRepeating> {
    const { deliveries, clock, log, metrics, measureEveryMs = MEASURE_EVERY_MS } = this.#deps
    let due = 0
    metrics.watch('webhook_queue_depth', {}, () => due)
    return startRepeating(measureEveryMs, async () => { due = await deliveries.dueBy(clock.now()) },
      error => log.warn({ err: error }, 'counting due webhooks in Redis failed, retrying'))
  }
}

/**
 * Moves attempt records from Redis to the history; resolves to their number. Several processes may
 * do so at once, and a crash may repeat it: the same record replaces itself.
 */
async function shipAttempts ({ deliveries, history }: WorkersDeps): Promise<number> {
  const attempts = await deliveries.unshipped(MAX_ATTEMPTS_PER_INSERT)
  const names = [...attempts.keys()]
  try {
    await history.append([...attempts.values()])
  } catch (error) {
    // The history has the others: a record that it refuses must not hold them back.
    if (error instanceof RefusedRowsError) {
      await deliveries.forget(names.filter((_, at) => !error.rows.has(at)))
    }
    throw error
  }
  if (attempts.size > 0) failpoint('deliver.shipped')
  await deliveries.forget(names)
  return attempts.size
}
