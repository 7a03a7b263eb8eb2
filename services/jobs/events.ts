import { createHash } from 'node:crypto'
import type { JobStatus } from './job.ts'

/** What a webhook may tell of: the ends a job can come to. */
export const EVENT_TYPES = ['job.completed', 'job.cancelled', 'job.failed'] as const

export type EventType = typeof EVENT_TYPES[number]

const TYPES: Partial<Record<JobStatus, EventType>> = {
  completed: 'job.completed', cancelled: 'job.cancelled', failed: 'job.failed',
}

/** The event of a job in this state; undefined while it has not come to an end. */
export function eventTypeOf (status: string): EventType | undefined {
  return Object.hasOwn(TYPES, status) ? TYPES[status as JobStatus] : undefined
}

/**
 * The id of an event follows from its job and type, so that nothing that happens twice makes two
 * events. It is also the id of the event's delivery.
 */
export function eventIdOf (job: string, type: EventType): string {
  return `evt_${createHash('sha256').update(`${job}\n${type}`).digest('hex').slice(0, 32)}`
}
