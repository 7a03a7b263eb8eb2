import type { DeliveryClaim, Deliveries, PriorityClass } from './deliveries.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import type { Log } from '../runtime/platform/log.ts'
import { OPEN_GATE, type Gate } from '../runtime/engine/pause.ts'
import { backoffMs, sleep } from '../runtime/platform/retry.ts'

export type WorkersDeps = {
  readonly deliveries: Pick<Deliveries, 'claim'>
  /** Makes one attempt and records its result. */
  readonly attempt: (claim: DeliveryClaim) => Promise<void>
  readonly log: Pick<Log, 'warn'>
  /** Maximum concurrent attempts, by priority class of the receiver. */
  readonly slots: Readonly<Record<PriorityClass, number>>
  /** Maximum concurrent attempts of one tenant, over all processes. */
  readonly tenantSlots: number
  readonly leaseMs: number
  readonly pollMs: number
  readonly slowAfterMs: number
  /** No attempt starts while the gate is closed; always open by default. */
  readonly gate?: Gate | undefined
}

export type Workers = {
  /** False while claims fail. */
  readonly ready: () => boolean
  /** Starts the next poll now. */
  readonly wake: () => void
  /** Resolves when the running attempts have ended. */
  readonly stop: () => Promise<void>
}

/** Limits how long one script blocks Redis. */
const MAX_CLAIMS = 100

const PRIORITIES = ['quick', 'slow'] as const

/**
 * Makes due attempts concurrently. A slot of the class `quick` is for attempts that are quick: a
 * longer one moves to a slot of the class `slow`. Therefore receivers that never answer delay the
 * others only for `slowAfterMs`, however many there are.
 */
export function startWorkers (deps: WorkersDeps): Workers {
  const stopping = new AbortController()
  const wakeSignal = createWakeSignal()
  const slots = createSlots(deps, wakeSignal.wake)
  const { gate = OPEN_GATE } = deps
  let failures = 0
  const poll = async () => {
    while (!stopping.signal.aborted) {
      let pauseMs = deps.pollMs
      try {
        const priorities = gate.isOpen() ? PRIORITIES : []
        const more = await Promise.all(priorities.map(priority => startDue(deps, slots, priority)))
        if (more.includes(true)) pauseMs = 0
        failures = 0
      } catch (error) {
        failures += 1
        deps.log.warn({ err: error, failures }, 'claiming due webhooks in Redis failed, retrying')
        pauseMs = backoffMs(failures)
      }
      await wakeSignal.wait(pauseMs, stopping.signal)
    }
  }
  const ended = poll()
  const stop = async () => {
    stopping.abort()
    await ended
    await slots.drain()
  }
  return { ready: () => failures === 0, wake: wakeSignal.wake, stop }
}

/** Claims and starts due attempts while slots are free; resolves to whether more may be due. */
async function startDue (
  { deliveries, leaseMs, tenantSlots }: WorkersDeps, slots: Slots, priority: PriorityClass
): Promise<boolean> {
  const limit = Math.min(MAX_CLAIMS, slots.free(priority))
  if (limit <= 0) return false
  const claims = await deliveries.claim({ priority, limit, leaseMs, tenantSlots })
  if (claims.length > 0) failpoint('deliver.claimed')
  for (const claim of claims) slots.start(claim, priority)
  return claims.length === limit
}

type Slots = ReturnType<typeof createSlots>

/** The slots and the attempts that occupy them; calls `onFree` whenever a slot becomes free. */
function createSlots (deps: WorkersDeps, onFree: () => void) {
  const taken = { quick: 0, slow: 0 }
  const running = new Set<Promise<void>>()
  const start = (claim: DeliveryClaim, priority: PriorityClass) => {
    const release = takeSlot(deps, taken, priority)
    const { tenant, job, event } = claim
    const done = deps.attempt(claim)
      .catch((error: unknown) => deps.log.warn({ err: error, tenant, job, event },
        'webhook attempt not completed, repeating it when its lease expires'))
      .finally(() => {
        release()
        running.delete(done)
        onFree()
      })
    running.add(done)
  }
  return {
    start,
    free: (priority: PriorityClass) => deps.slots[priority] - taken[priority],
    drain: async () => { await Promise.all(running) },
  }
}

/**
 * Takes a slot and returns its release. A quick slot that is taken for `slowAfterMs` becomes a slow
 * one as soon as one is free.
 */
function takeSlot (
  { slots, slowAfterMs }: WorkersDeps, taken: Record<PriorityClass, number>, priority: PriorityClass
): () => void {
  let current = priority
  taken[current] += 1
  const move = () => {
    if (current === 'slow' || taken.slow >= slots.slow) return
    taken.quick -= 1
    taken.slow += 1
    current = 'slow'
    clearInterval(timer)
  }
  const timer = setInterval(move, slowAfterMs)
  return () => {
    clearInterval(timer)
    taken[current] -= 1
  }
}

/** Ends a wait early. A wake-up while nothing waits ends the next wait at once. */
function createWakeSignal () {
  let woken = new AbortController()
  return {
    wake: () => woken.abort(),
    wait: async (ms: number, signal: AbortSignal) => {
      await sleep(ms, AbortSignal.any([signal, woken.signal])).catch(() => {})
      woken = new AbortController()
    },
  }
}
