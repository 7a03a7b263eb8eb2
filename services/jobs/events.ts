import { createHash } from 'node:crypto'
import type { EventType } from '../../schemas/api/event.ts'
import type { Job, JobStatus } from './job.ts'

export type { EventType }

const TYPES: Partial<Record<JobStatus, EventType>> = {
  completed: 'job.completed', cancelled: 'job.cancelled', failed: 'job.failed',
}

/** The event type of a job status; undefined while the job has not ended. */
export function eventTypeOf (status: string): EventType | undefined {
  return Object.hasOwn(TYPES, status) ? TYPES[status as JobStatus] : undefined
}

/** Progress is reported in this many steps. */
const TENTHS = 10

/**
 * The id of an event: a digest of its job and type, and of progress also of the tenth (1 to 9), so
 * that a repetition makes no second event.
 */
export function eventIdOf (job: string, type: EventType, tenth = 0): string {
  const name = tenth === 0 ? `${job}\n${type}` : `${job}\n${type}\n${tenth}`
  return `evt_${createHash('sha256').update(name).digest('hex').slice(0, 32)}`
}

/**
 * The tenths of its rows that a job has finished, 0 to 9: the tenth one is not progress but the
 * end.
 */
export function finishedTenths ({ preflight, counts }: Pick<Job, 'preflight' | 'counts'>): number {
  const { totalRows } = preflight
  if (totalRows === 0) return 0
  return Math.min(TENTHS - 1, Math.floor(TENTHS * counts.finishedRows / totalRows))
}

/** The tenth of a progress event of a job; 0 for any other event. */
export function tenthOf (job: string, event: string): number {
  for (let tenth = 1; tenth < TENTHS; tenth++) {
    if (eventIdOf(job, 'job.progress', tenth) === event) return tenth
  }
  return 0
}

/**
 * The id of the delivery of an event: the id of the event for the webhook address of the job, and
 * `<event>.<endpoint>` for a webhook endpoint of the organization.
 */
export function deliveryIdOf (event: string, endpoint = ''): string {
  return endpoint === '' ? event : `${event}.${endpoint}`
}

/** The event and the endpoint of a delivery; the endpoint is '' for the webhook of the job. */
export function partsOfDelivery (delivery: string): {
  readonly event: string, readonly endpoint: string,
} {
  const [event = '', endpoint = ''] = delivery.split('.')
  return { event, endpoint }
}

/**
 * Whether a delivery can be of this job: the webhook of the job gets the event of its end only, an
 * endpoint also those of the events that it has had before.
 */
export function isDeliveryOf (
  job: Pick<Job, 'id' | 'status' | 'lowBalance'>,
  delivery: { readonly event: string, readonly type: EventType }
): boolean {
  const { event, endpoint } = partsOfDelivery(delivery.event)
  const { type } = delivery
  if (endpoint !== '' && type === 'job.progress') return tenthOf(job.id, event) > 0
  const types = endpoint === '' ? [eventTypeOf(job.status)] : eventTypesOf(job)
  return types.includes(type) && eventIdOf(job.id, type) === event
}

/** The types of the events that a job has had, but for progress. */
export function eventTypesOf (
  { status, lowBalance }: Pick<Job, 'status' | 'lowBalance'>
): readonly EventType[] {
  const ended = eventTypeOf(status)
  return [
    'job.accepted',
    ...lowBalance === undefined ? [] : ['balance.low'] as const,
    ...ended === undefined ? [] : [ended],
  ]
}
