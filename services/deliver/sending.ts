import { isInfrastructure } from '../lib/errors.ts'
import type { Claim, Deliveries } from '../jobs/deliveries.ts'
import { makeAttempt, noteFault, type AttemptParts } from './deliver.ts'
import { startShipping, type ShippingParts } from './history.ts'
import { startWorkers, type Workers, type WorkersParts } from './workers.ts'

export type SendingParts = AttemptParts & ShippingParts & Omit<WorkersParts, 'attempt'> & {
  readonly deliveries: Deliveries
}

/** Makes the attempts that are due and keeps their history, beside the stage, until stopped. */
export function startSending (parts: SendingParts): Workers {
  const shipping = startShipping(parts)
  const workers = startWorkers({ ...parts, attempt: claim => attempt(parts, claim) })
  const stop = async () => {
    await workers.stop()
    await shipping.stop()
  }
  return { ready: () => workers.ready() && shipping.ready(), wake: workers.wake, stop }
}

/**
 * A fault of ours must not be tried over and over at once, so it is noted as an attempt. Broken
 * infrastructure is: nothing can be noted then, and the lease ends by itself.
 */
async function attempt (parts: SendingParts, claim: Claim): Promise<void> {
  try {
    await makeAttempt(parts, claim)
  } catch (error) {
    if (isInfrastructure(error)) throw error
    parts.log.warn({ err: error, event: claim.event }, 'an attempt failed by a fault of ours')
    await noteFault(parts, claim)
  }
}
