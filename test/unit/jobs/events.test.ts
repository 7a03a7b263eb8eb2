import { describe, expect, it } from 'vitest'
import { END_EVENT_TYPES, EVENT_TYPES } from '../../../schemas/api/event.ts'
import {
  deliveryIdOf, eventIdOf, eventTypeOf, finishedTenths, partsOfDelivery, tenthOf,
} from '../../../services/webhooks/event.ts'
import { endedJob } from '../../support/webhooks/deliveries.ts'
import { JOB_STATES } from '../../../schemas/api/job.ts'

describe('an event', () => {
  it('is there for each end of a job and for nothing else', () => {
    const found = JOB_STATES.map(status => eventTypeOf(status)).filter(type => type !== undefined)
    expect(found.toSorted()).toEqual([...END_EVENT_TYPES].sort())
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

describe('progress', () => {
  const at = (finishedRows: number, totalRows: number) => {
    const { preflight, counts } = endedJob()
    return finishedTenths({
      preflight: { ...preflight, totalRows }, counts: { ...counts, finishedRows },
    })
  }

  it('has nine tenths, as the last one is the end', () => {
    expect([0, 9, 10, 19, 55, 99, 100].map(rows => at(rows, 100))).toEqual([0, 0, 1, 1, 5, 9, 9])
    expect([at(0, 1), at(1, 3), at(2, 3)]).toEqual([0, 3, 6])
  })

  it('has an id for each tenth, from which the tenth follows', () => {
    const ids = [1, 2, 3, 4, 5, 6, 7, 8, 9].map(it => eventIdOf('job_1', 'job.progress', it))
    expect(new Set(ids).size).toBe(9)
    expect(ids.map(id => tenthOf('job_1', id))).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9])
    for (const type of EVENT_TYPES) expect(tenthOf('job_1', eventIdOf('job_1', type))).toBe(0)
  })
})

describe('the id of a delivery', () => {
  it('is that of the event, and of an endpoint has its id', () => {
    expect(deliveryIdOf('evt_1')).toBe('evt_1')
    expect(deliveryIdOf('evt_1', 'we_1')).toBe('evt_1.we_1')
    expect(partsOfDelivery('evt_1')).toEqual({ event: 'evt_1', endpoint: '' })
    expect(partsOfDelivery('evt_1.we_1')).toEqual({ event: 'evt_1', endpoint: 'we_1' })
  })
})
