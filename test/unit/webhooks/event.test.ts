import { describe, expect, it } from 'vitest'
import {
  buildEvent, signatureHeaders, deriveEventId, findEventType, finishedTenths, findTenth,
} from '../../../services/webhooks/event.ts'
import { DELIVERED_JOB, endedJob } from '../../support/webhooks/deliveries.ts'
import { END_EVENT_TYPES, EVENT_TYPES } from '../../../schemas/api/webhooks.ts'
import { JOB_STATES } from '../../../schemas/api/job.ts'

const header = { metadata: { a: '1' }, webhookUrl: 'https://hidden.example/path?token=1' }

describe('an event before the end', () => {
  const job = endedJob({ lowBalance: { thresholdMicros: 5_000, availableMicros: 4_000 } })

  it('of acceptance shows the job as it was accepted, whatever has happened since', () => {
    const accepted = { id: 'evt_1', type: 'job.accepted' } as const
    const body = buildEvent(job, accepted, header)
    expect(body).toMatchObject({
      id: 'evt_1',
      type: 'job.accepted',
      timestamp: new Date(job.createdAtMs).toISOString(),
      data: {
        status: 'queued',
        progressPercent: 0,
        chargedMicros: 0,
        successRecords: 0,
        pendingRecords: job.preflight.totalRows,
        completedAt: null,
        maxQuoteMicros: job.preflight.maxQuoteMicros,
        metadata: { a: '1' },
      },
    })
    expect(buildEvent({ ...job, closed: false, ended: false }, accepted, header)).toEqual(body)
  })

  it('of a low balance names threshold, balance and job, and nothing else', () => {
    expect(buildEvent(job, { id: 'evt_1', type: 'balance.low' }, header).data).toEqual({
      thresholdMicros: 5_000, availableMicros: 4_000, currency: 'USD', jobId: DELIVERED_JOB,
    })
    expect(() => buildEvent(endedJob(), { id: 'evt_1', type: 'balance.low' }, header))
      .toThrow('below no threshold')
  })
})

const first = 'whsec_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE='
const second = 'whsec_QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI='
const signable = { id: 'evt_1', timestamp: 1_700_000_000, body: '{"a":"é"}' }

/** Computed by openssl: openssl dgst -sha256 -hmac <secret>, or -macopt hexkey:<its bytes>. */
const own = [
  '816582f95b7f16aa1023f9f79214ec2bf16a77990082246d035f860285003aa3',
  'caded2d3ab007d831a3e9bb0ceae417d027c841c5515d937c98365fb0609cb66',
]
const standard = [
  '8yC/8Zbn6csfUI8NxX+2pk0BRiQ9xXqeOMjIfJA9aBM=',
  '5vGAEYMl7Jb1ggUaMNWtOvYR2LYAN37jKwrmQpHpaps=',
]

it('the signature of a webhook event ' +
  'is an HMAC over time and body in two schemes, once per active secret', () => {
  expect(signatureHeaders(signable, { secrets: [second, first], signingKeys: [] })).toEqual({
    'x-service-signature': `t=1700000000,v1=${own[1]},v1=${own[0]}`,
    'webhook-id': 'evt_1',
    'webhook-timestamp': '1700000000',
    'webhook-signature': `v1,${standard[1]} v1,${standard[0]}`,
  })
})

describe('an event', () => {
  it('is there for each end of a job and for nothing else', () => {
    const found = JOB_STATES.map(status => findEventType(status)).filter(type => type !== undefined)
    expect(found.toSorted()).toEqual([...END_EVENT_TYPES].sort())
    expect(findEventType('completed')).toBe('job.completed')
    expect(findEventType('constructor')).toBeUndefined()
  })

  it('has one id, made from job and type alone', () => {
    // printf 'job_1\njob.completed' | sha256sum
    expect(deriveEventId('job_1', 'job.completed')).toBe('evt_3b318d1998c7737c2236159852b73165')
    expect(deriveEventId('job_1', 'job.failed')).not.toBe(deriveEventId('job_1', 'job.completed'))
    const [one, two] = ['job_1', 'job_2'].map(job => deriveEventId(job, 'job.completed'))
    expect(one).not.toBe(two)
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
    const ids = [1, 2, 3, 4, 5, 6, 7, 8, 9].map(it => deriveEventId('job_1', 'job.progress', it))
    expect(new Set(ids).size).toBe(9)
    expect(ids.map(id => findTenth('job_1', id))).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9])
    for (const type of EVENT_TYPES) expect(findTenth('job_1', deriveEventId('job_1', type))).toBe(0)
  })
})
