import { describe, expect, it } from 'vitest'
import { EVENT_TYPES, eventIdOf, eventTypeOf } from '../../../services/jobs/events.ts'
import { JOB_STATES } from '../../../schemas/api/job.ts'

describe('an event', () => {
  it('is there for each end of a job and for nothing else', () => {
    const found = JOB_STATES.map(status => eventTypeOf(status)).filter(type => type !== undefined)
    expect(found.toSorted()).toEqual([...EVENT_TYPES].sort())
    expect(eventTypeOf('completed')).toBe('job.completed')
    expect(eventTypeOf('constructor')).toBeUndefined()
  })

  it('has one id, made from job and type alone', () => {
    // printf 'job_1\njob.completed' | sha256sum
    expect(eventIdOf('job_1', 'job.completed')).toBe('evt_3b318d1998c7737c2236159852b73165')
    expect(eventIdOf('job_1', 'job.failed')).not.toBe(eventIdOf('job_1', 'job.completed'))
    expect(eventIdOf('job_2', 'job.completed')).not.toBe(eventIdOf('job_1', 'job.completed'))
  })
})
