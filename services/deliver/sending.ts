import { FatalError, isInfrastructure } from '../lib/errors.ts'
import type { Claim, Deliveries } from '../jobs/deliveries.ts'
import { withTrace } from '../lib/tracing.ts'
import { makeAttempt, noteFault, type AttemptParts } from './deliver.ts'
import { startShipping, type ShippingParts } from './history.ts'
import { countNotes, startCountingDue, type MeterParts } from './meters.ts'
import { startWorkers, type Workers, type WorkersParts } from './workers.ts'

export type SendingParts = AttemptParts & ShippingParts & MeterParts &
  Omit<WorkersParts, 'attempt'> & {
    readonly deliveries: Deliveries
  }

/** Makes the attempts that are due and keeps their history, beside the stage, until stopped. */
export function startSending (parts: SendingParts): Workers {
  const shipping = startShipping(parts)
  const counting = startCountingDue(parts)
  const counted = { ...parts, deliveries: countNotes(parts) }
  const workers = startWorkers({
    ...parts,
    // An attempt belongs to the trace of its job, hours later too.
    attempt: claim => withTrace(placeOf(claim), () => attempt(counted, claim)),
  })
  const stop = async () => {
    await Promise.all([workers.stop(), counting.stop()])
    await shipping.stop()
  }
  return { ready: () => workers.ready() && shipping.ready(), wake: workers.wake, stop }
}

/**
 * A fault of ours must not be tried over and over at once, so it is noted as an attempt. Broken
 * infrastructure is: nothing can be noted then, and the lease ends by itself. So is a key ring that
 * lacks a key, which would use up all attempts before it is mended.
 */
async function attempt (parts: SendingParts, claim: Claim): Promise<void> {
  try {
    await makeAttempt(parts, claim)
  } catch (error) {
    if (isInfrastructure(error) || error instanceof FatalError) throw error
    const { tenant, job, event } = claim
    const about = { err: error, tenant, job, event }
    parts.log.warn(about, 'an attempt failed by a fault of ours')
    await noteFault(parts, claim)
  }
}

const placeOf = ({ traceparent }: Claim) => ({ ...traceparent && { traceparent } })
