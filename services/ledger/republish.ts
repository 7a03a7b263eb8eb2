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
 * Republishes the events of jobs that ended before Redis was lost, except jobs without a receiver
 * and events whose delivery is completed. Redis lost pending deliveries, and whether an event was
 * produced is unknown. Completed deliveries are in the history; consumers know repeats by event id.
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
