import type { Journal } from '../../schemas/types.ts'
import type { Emission } from '../engine/stage.ts'
import type { EventType } from '../jobs/events.ts'
import { lowBalanceOf } from '../jobs/job.ts'
import { topology, type Lane } from '../topology.ts'
import { termsOf } from './rebuilt-job.ts'

/** An older entry is read again, long after its events were sent. */
const MAX_AGE_MS = topology.topics['jobs.events'].keepHours * 3_600_000

/**
 * The events that the reservation of a job causes: `job.accepted` if an endpoint was subscribed to
 * it, and `balance.low` if it took the available balance below the threshold. Both follow from the
 * entry alone, which the script that moved the money wrote and which reaches the journal whatever
 * crashes; so an event is never lost, and a repeated entry repeats the same event.
 */
export function eventsOfEntry (
  entry: Journal, nowMs: number
): readonly Emission<'jobs.events'>[] {
  if (entry.type !== 'reserve' || entry.at < nowMs - MAX_AGE_MS) return []
  const { lane, events = '', lowBalanceMicros } = termsOf(entry)
  const low = lowBalanceMicros === undefined
    ? undefined
    : lowBalanceOf({
      thresholdMicros: Number(lowBalanceMicros),
      reservedMicros: entry.amountMicros,
      availableMicros: entry.availableMicros,
    })
  const types: EventType[] = [
    ...events.split(' ').includes('job.accepted') ? ['job.accepted'] as const : [],
    ...low === undefined ? [] : ['balance.low'] as const,
  ]
  const { tenant, job, at } = entry
  return types.map(type => ({
    topic: 'jobs.events',
    lane: lane as Lane,
    value: { tenant, job, type, tenth: 0, at },
    rows: undefined,
  }))
}
