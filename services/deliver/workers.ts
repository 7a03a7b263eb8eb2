import type { Claim, Deliveries, Pace } from '../jobs/deliveries.ts'
import { failpoint } from '../lib/failpoint.ts'
import type { Log } from '../lib/log.ts'
import { OPEN_GATE, type Gate } from '../lib/pause.ts'
import { backoffMs, sleep } from '../lib/retry.ts'

export type WorkersParts = {
  readonly deliveries: Pick<Deliveries, 'claim'>
  /** Makes one attempt and notes what came of it. */
  readonly attempt: (claim: Claim) => Promise<void>
  readonly log: Pick<Log, 'warn'>
  /** Attempts under way at once, by pace of the receiver. */
  readonly slots: Readonly<Record<Pace, number>>
  /** Attempts of one tenant under way at once, whichever process makes them. */
  readonly tenantSlots: number
  readonly leaseMs: number
  readonly pollMs: number
  readonly slowAfterMs: number
  /** No attempt is begun while it is closed; open for ever by default. */
  readonly gate?: Gate | undefined
}

export type Workers = {
  /** False while claims can't be read. */
  readonly ready: () => boolean
  /** Something is due now. */
  readonly wake: () => void
  /** Resolves when the attempts under way have come to their end. */
  readonly stop: () => Promise<void>
}

/** One script must not hold up Redis for long. */
const MOST_CLAIMS = 100

const PACES = ['quick', 'slow'] as const

/**
 * Makes attempts as they are due, many at once. A place among the quick is held only for as long as
 * its attempt is quick: one that takes longer moves to a place among the slow, so that any number
 * of receivers that never answer keep the others waiting for a moment at most.
 */
export function startWorkers (parts: WorkersParts): Workers {
  const stopping = new AbortController()
  const bell = createBell()
  const places = createPlaces(parts, bell.ring)
  const { gate = OPEN_GATE } = parts
  const paces = () => gate.isOpen() ? PACES : []
  let failures = 0
  const go = async () => {
    while (!stopping.signal.aborted) {
      let pauseMs = parts.pollMs
      try {
        const more = await Promise.all(paces().map(pace => claimSome(parts, places, pace)))
        if (more.includes(true)) pauseMs = 0
        failures = 0
      } catch (error) {
        failures += 1
        parts.log.warn({ err: error }, 'what is due cannot be read')
        pauseMs = backoffMs(failures)
      }
      await bell.within(pauseMs, stopping.signal)
    }
  }
  const ended = go()
  const stop = async () => {
    stopping.abort()
    await ended
    await places.empty()
  }
  return { ready: () => failures === 0, wake: bell.ring, stop }
}

/** Begins what is due and has a place; returns whether there may be more. */
async function claimSome (
  { deliveries, leaseMs, tenantSlots }: WorkersParts, places: Places, pace: Pace
): Promise<boolean> {
  const most = Math.min(MOST_CLAIMS, places.free(pace))
  if (most <= 0) return false
  const claims = await deliveries.claim({ pace, most, leaseMs, tenantSlots })
  if (claims.length > 0) failpoint('deliver.claimed')
  for (const claim of claims) places.begin(claim, pace)
  return claims.length === most
}

type Places = ReturnType<typeof createPlaces>

/** The places and the attempts that hold them; `onEnd` hears of each that is given back. */
function createPlaces (parts: WorkersParts, onEnd: () => void) {
  const taken = { quick: 0, slow: 0 }
  const running = new Set<Promise<void>>()
  const begin = (claim: Claim, pace: Pace) => {
    const place = takePlace(parts, taken, pace)
    const done = parts.attempt(claim)
      // Its lease ends, and it is tried again.
      .catch(error =>
        parts.log.warn({ err: error as unknown, job: claim.job }, 'an attempt was not noted'))
      .finally(() => {
        place.leave()
        running.delete(done)
        onEnd()
      })
    running.add(done)
  }
  return {
    begin,
    free: (pace: Pace) => parts.slots[pace] - taken[pace],
    empty: async () => { await Promise.all(running) },
  }
}

/** A place of one pace, which moves to the slow ones when it is held for long and there is room. */
function takePlace (
  { slots, slowAfterMs }: WorkersParts, taken: Record<Pace, number>, pace: Pace
): { leave: () => void } {
  let place = pace
  taken[place] += 1
  const move = () => {
    if (place === 'slow' || taken.slow >= slots.slow) return
    taken.quick -= 1
    taken.slow += 1
    place = 'slow'
    clearInterval(timer)
  }
  const timer = setInterval(move, slowAfterMs)
  return {
    leave: () => {
      clearInterval(timer)
      taken[place] -= 1
    },
  }
}

/** Ends a pause early. A ring that nobody waits for ends the next pause. */
function createBell () {
  let rung = new AbortController()
  return {
    ring: () => rung.abort(),
    within: async (ms: number, signal: AbortSignal) => {
      await sleep(ms, AbortSignal.any([signal, rung.signal])).catch(() => {})
      rung = new AbortController()
    },
  }
}
