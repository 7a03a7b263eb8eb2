import type { Deliveries } from '../jobs/deliveries.ts'
import type { DeliveryHistory } from '../jobs/delivery-history.ts'
import { failpoint } from '../lib/failpoint.ts'
import type { Log } from '../lib/log.ts'
import { backoffMs, sleep } from '../lib/retry.ts'

export type ShippingParts = {
  readonly deliveries: Pick<Deliveries, 'unshipped' | 'forget'>
  readonly history: Pick<DeliveryHistory, 'append'>
  readonly log: Pick<Log, 'warn'>
}

/** One insert of many attempts is as cheap as one of a single attempt. */
const MOST_ATTEMPTS = 1_000
const PAUSE_MS = 250

/**
 * Moves noted attempts into the history; returns how many. Several may do so at once, or again
 * after a crash: the same attempt replaces itself.
 */
export async function shipAttempts ({ deliveries, history }: ShippingParts): Promise<number> {
  const found = await deliveries.unshipped(MOST_ATTEMPTS)
  await history.append([...found.values()])
  if (found.size > 0) failpoint('deliver.shipped')
  await deliveries.forget([...found.keys()])
  return found.size
}

/** Ships over and over; deliveries go on while the history is not to be had. */
export function startShipping (
  parts: ShippingParts
): { readonly ready: () => boolean, readonly stop: () => Promise<void> } {
  const stopping = new AbortController()
  let failures = 0
  const go = async () => {
    while (!stopping.signal.aborted) {
      let pauseMs = PAUSE_MS
      try {
        if (await shipAttempts(parts) === MOST_ATTEMPTS) pauseMs = 0
        failures = 0
      } catch (error) {
        failures += 1
        parts.log.warn({ err: error }, 'attempts cannot be written to the history')
        pauseMs += backoffMs(failures)
      }
      await sleep(pauseMs, stopping.signal).catch(() => {})
    }
  }
  const ended = go()
  const stop = async () => {
    stopping.abort()
    await ended
    // What the last attempts noted; if it fails, another process or the next start has it.
    await shipAttempts(parts).catch(() => {})
  }
  return { ready: () => failures === 0, stop }
}
