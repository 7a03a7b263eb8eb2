import type { DeliveryHistory } from '../jobs/delivery-history.ts'
import { eventIdOf, eventTypeOf } from '../jobs/events.ts'
import type { Job } from '../jobs/job.ts'
import type { Emitter } from '../lib/emit.ts'
import { settledOf } from '../records/finish.ts'

export type AnnounceAgainParts = {
  readonly history: Pick<DeliveryHistory, 'list'>
  readonly emitter: Pick<Emitter, 'emit'>
}

/**
 * Announces a job that ended before Redis was lost once more, unless its event came to its end.
 * Whether its event was ever produced nobody knows, and a delivery that was due is lost with
 * Redis. One that came to its end is in the history; its id tells every other repetition.
 */
export async function announceAgain (parts: AnnounceAgainParts, job: Job): Promise<void> {
  const type = eventTypeOf(job.status)
  if (type === undefined) return
  const event = eventIdOf(job.id, type)
  const attempts = (await parts.history.list(job.tenant, job.id))
    .filter(attempt => attempt.event === event)
  const last = attempts.at(-1)
  if (last !== undefined && last.outcome !== 'failed') return
  await parts.emitter.emit([{
    topic: 'jobs.settled', lane: job.lane, value: settledOf(job), rows: undefined,
  }])
}
