import type { DeliveryHistory } from '../jobs/delivery-history.ts'
import { eventIdOf, eventTypeOf } from '../jobs/events.ts'
import type { Job } from '../jobs/job.ts'
import type { Emitter } from '../engine/emit.ts'
import { settledOf } from '../results/finish-job.ts'

export type RepublishDeps = {
  readonly history: Pick<DeliveryHistory, 'listAll'>
  readonly emitter: Pick<Emitter, 'emit'>
}

/**
 * Announces jobs once more that ended before Redis was lost, but for those without a receiver and
 * those whose event came to its end. Whether an event was ever produced nobody knows, and a
 * delivery that was due is lost with Redis. One that came to its end is in the history; its id
 * tells every other repetition.
 */
export async function republish (
  { history, emitter }: RepublishDeps, jobs: readonly Job[]
): Promise<void> {
  const received = jobs.filter(({ header, feed }) => header.length > 0 || feed !== undefined)
  const events = new Map(received.flatMap(job => {
    const type = eventTypeOf(job.status)
    return type === undefined ? [] : [[job, eventIdOf(job.id, type)] as const]
  }))
  if (events.size === 0) return
  const tenants = [...new Set(received.map(({ tenant }) => tenant))]
  const attempts = await history.listAll(tenants, [...events.keys()].map(({ id }) => id))
  const last = new Map(attempts.map(({ event, outcome }) => [event, outcome]))
  const open = [...events].filter(([, event]) => (last.get(event) ?? 'failed') === 'failed')
  if (open.length === 0) return
  await emitter.emit(open.map(([job]) =>
    ({ topic: 'jobs.settled', lane: job.lane, value: settledOf(job), rows: undefined })))
}
