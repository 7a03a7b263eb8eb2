import { createHash } from 'node:crypto'
import type { JobStatus } from './job.ts'

/** The webhook events: one for each way a job can end. */
export const EVENT_TYPES = ['job.completed', 'job.cancelled', 'job.failed'] as const

export type EventType = typeof EVENT_TYPES[number]

const TYPES: Partial<Record<JobStatus, EventType>> = {
  completed: 'job.completed', cancelled: 'job.cancelled', failed: 'job.failed',
}

/** The event type of a job status; undefined while the job has not ended. */
export function eventTypeOf (status: string): EventType | undefined {
  return Object.hasOwn(TYPES, status) ? TYPES[status as JobStatus] : undefined
}

/**
 * The id of an event: a digest of its job and type, so that a repetition makes no second event. The
 * delivery of the event has the same id.
 */
export function eventIdOf (job: string, type: EventType): string {
  return `evt_${createHash('sha256').update(`${job}\n${type}`).digest('hex').slice(0, 32)}`
}
