import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../../schemas/types.ts'
import type { Attempt } from '../../../../services/webhooks/delivery-history.ts'
import { deliveryIdOf, eventIdOf, type EventType } from '../../../../services/jobs/events.ts'
import type { Job } from '../../../../services/jobs/job.ts'
import {
  checkAges, checkDeliveries, checkIds, explain,
} from '../../../../services/admin/audit/checks.ts'
import { ENDPOINT_ID } from '../../../support/webhooks/endpoints.ts'
import { endedJob } from '../../../support/clickhouse/results.ts'
import { entryOf, JOB, TENANT } from '../../../support/stage-doubles.ts'

const DAY_MS = 86_400_000
const entry = (change: Partial<Journal> = {}): Journal => ({
  ...entryOf(TENANT, endedJob()), seq: 1, ...change,
})
const reserve = (job: string, claimedAt: number, idempotencyKey: string) => entry({
  job,
  entryId: `${job}:reserve`,
  reason: JSON.stringify({ idempotencyKey, claimedAt: String(claimedAt) }),
})

describe('the audit of entry ids', () => {
  it('finds two entries with one id', () => {
    const entries = [
      entry({ seq: 1, entryId: 'topup:a', job: '' }),
      entry({ seq: 2, entryId: 'topup:b', job: '' }),
      entry({ seq: 5, entryId: 'topup:a', job: '' }),
    ]
    expect(checkIds(entries.slice(0, 2))).toEqual([])
    expect(checkIds(entries)).toEqual([{
      rule: 'every entry has a unique id',
      job: '',
      detail: 'the entries 1 and 5 have the id topup:a',
    }])
  })

  it('finds two jobs of one Idempotency-Key within 24 hours, to the millisecond', () => {
    const first = reserve('job_a', 5, 'k')
    expect(checkIds([first, reserve('job_b', 5 + DAY_MS, 'k')])).toEqual([])
    expect(checkIds([first, reserve('job_b', 4 + DAY_MS, 'k')])).toEqual([{
      rule: 'one job per Idempotency-Key in 24 hours',
      job: 'job_b',
      detail: 'its key created job_a less than 24 hours earlier',
    }])
    const [second, third] = [reserve('job_b', 5 + DAY_MS, 'k'), reserve('job_c', 6 + DAY_MS, 'k')]
    expect(checkIds([first, second, third]).map(({ job }) => job)).toEqual(['job_c'])
  })

  it('finds nothing for entries without a key', () => {
    const old = (job: string) => entry({ job, entryId: `${job}:reserve`, reason: '' })
    expect(checkIds([reserve('job_a', 5, ''), reserve('job_b', 5, ''), old('job_c'), old('job_d')]))
      .toEqual([])
    const topup = { type: 'topup', job: '', reason: 'no JSON' }
    expect(checkIds([entry({ ...topup, entryId: 'a' }), entry({ ...topup, entryId: 'b' })]))
      .toEqual([])
  })
})

describe('the audit of job ages and deliveries', () => {
  const running = endedJob({ ended: false, status: 'verifying', createdAtMs: 1_000 })
  const type = 'job.completed'
  const attempt = (change: Partial<Attempt> = {}): Attempt => ({
    tenant: TENANT,
    job: JOB,
    event: eventIdOf(JOB, type),
    attempt: 1,
    type,
    atMs: 1_000,
    outcome: 'failed',
    reason: 'timeout',
    httpStatus: 0,
    durationMs: 1,
    nextAtMs: undefined,
    ...change,
  })

  it('finds a job that is open for a day', () => {
    expect(checkAges([running], 999 + DAY_MS)).toEqual([])
    expect(checkAges([running], 1_000 + DAY_MS)).toEqual([{
      rule: 'every job ends within a day',
      job: JOB,
      detail: 'it was created at 1970-01-01T00:00:01.000Z and is still open',
    }])
  })

  it('finds a delivery of another event', () => {
    const job = endedJob()
    expect(checkDeliveries(job, [], 0)).toEqual([])
    expect(checkDeliveries(job, [attempt(), attempt({ outcome: 'delivered' })], 0)).toEqual([])
    const foreign = attempt({ event: 'evt_x', outcome: 'delivered' })
    expect(checkDeliveries(job, [attempt(), foreign], 0)).toEqual([
      {
        rule: 'deliveries are of events of their job',
        job: JOB,
        detail: 'an attempt delivered evt_x as job.completed, which is not an event of the job',
      },
    ])
    expect(checkDeliveries(running, [attempt()], 0).map(({ rule }) => rule))
      .toEqual(['deliveries are of events of their job'])
  })

  const lowBalance = { thresholdMicros: 1, availableMicros: 0 }
  it.each<{ type: EventType, tenth?: number, change?: Partial<Job>, known: boolean[] }>([
    { type: 'job.accepted', known: [false, true] },
    { type: 'job.progress', tenth: 9, known: [false, true] },
    { type: 'job.progress', tenth: 10, known: [false, false] },
    { type: 'balance.low', change: { lowBalance }, known: [false, true] },
    { type: 'balance.low', known: [false, false] },
    { type: 'job.completed', known: [true, true] },
    { type: 'job.completed', change: { status: 'cancelled' }, known: [false, false] },
    { type: 'job.cancelled', change: { status: 'cancelled' }, known: [true, true] },
  ])('knows $type of a job with $change at its webhook and at an endpoint: $known',
    ({ type, tenth, change, known }) => {
      const event = eventIdOf(JOB, type, tenth)
      const isKnown = (endpoint: string) => checkDeliveries(
        endedJob(change), [attempt({ type, event: deliveryIdOf(event, endpoint) })], 0
      ).length === 0
      expect([isKnown(''), isKnown(ENDPOINT_ID)]).toEqual(known)
    })

  it('finds the one delivery of several that does not end', () => {
    const to = (endpoint: string, change: Partial<Attempt> = {}) =>
      attempt({ event: deliveryIdOf(eventIdOf(JOB, type), endpoint), ...change })
    const made = [to('we_1'), to('we_2'), to('we_1', { outcome: 'delivered' })]
    expect(checkDeliveries(endedJob(), made, 9 * DAY_MS).map(({ detail }) => detail)).toEqual([
      `the last of 1 attempts to deliver ${eventIdOf(JOB, type)}.we_2 failed more than 4 days ` +
        'ago, and no other followed',
    ])
    const progress = eventIdOf(JOB, 'job.progress', 3)
    const replaced = attempt({ type: 'job.progress', event: deliveryIdOf(progress, 'we_1') })
    expect(checkDeliveries(endedJob(), [replaced], 9 * DAY_MS)).toEqual([])
  })

  it('finds a failed delivery without another attempt within four days', () => {
    const job = endedJob()
    expect(checkDeliveries(job, [attempt(), attempt()], 1_000 + 4 * DAY_MS)).toEqual([])
    expect(checkDeliveries(job, [attempt(), attempt()], 1_001 + 4 * DAY_MS)).toEqual([{
      rule: 'every delivery ends',
      job: JOB,
      detail: `the last of 2 attempts to deliver ${eventIdOf(JOB, type)} failed more than 4 days ` +
        'ago, and no other followed',
    }])
    const exhausted = [attempt(), attempt({ outcome: 'exhausted' })]
    expect(checkDeliveries(job, exhausted, 9 * DAY_MS)).toEqual([])
  })
})

describe('the explanation of a journal', () => {
  it('has one line per movement, in order, with the rows of a charge', () => {
    const job = endedJob({
      unitPriceMicros: 4, counts: { ...endedJob().counts, freshRecords: 3 },
    })
    const amounts = { amountMicros: 40, availableMicros: 60 }
    expect(explain([
      entry({ seq: 4, type: 'void', job: 'job_x', chargeMicros: 0, ...amounts }),
      entry({ seq: 3, type: 'settle', job: JOB, chargeMicros: 12, ...amounts }),
      entry({ seq: 2, type: 'reserve', job: JOB, ...amounts }),
      entry({
        seq: 1,
        type: 'topup',
        job: '',
        reason: 'paid',
        amountMicros: 100,
        availableMicros: 100,
      }),
    ], [job])).toEqual([
      '1 topup of 100 (paid); available 100',
      `2 ${JOB} reserves 40; available 60`,
      `3 ${JOB} is charged 12 = 3 rows x 4, 28 is released; available 60`,
      '4 job_x is charged 0, 40 is released; available 60',
    ])
  })
})
