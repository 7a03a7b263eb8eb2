import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import type { Attempt } from '../../../services/jobs/delivery-history.ts'
import { eventIdOf } from '../../../services/jobs/events.ts'
import {
  checkAges, checkDeliveries, checkIds, explain,
} from '../../../services/workspace/audit-history.ts'
import { endedJob } from '../../support/results.ts'
import { entryOf, JOB, TENANT } from '../../support/stage-doubles.ts'

const DAY_MS = 86_400_000
const entry = (change: Partial<Journal> = {}): Journal => ({
  ...entryOf(TENANT, endedJob()), seq: 1, ...change,
})
const reserve = (job: string, claimedAt: number, idempotencyKey: string) => entry({
  job,
  entryId: `${job}:reserve`,
  reason: JSON.stringify({ idempotencyKey, claimedAt: String(claimedAt) }),
})

describe('the ids of entries', () => {
  it('are each of one entry', () => {
    const entries = [
      entry({ seq: 1, entryId: 'topup:a', job: '' }),
      entry({ seq: 2, entryId: 'topup:b', job: '' }),
      entry({ seq: 5, entryId: 'topup:a', job: '' }),
    ]
    expect(checkIds(entries.slice(0, 2))).toEqual([])
    expect(checkIds(entries)).toEqual([{
      law: 'every entry has an id of its own',
      job: '',
      detail: 'the entries 1 and 5 are both topup:a',
    }])
  })

  it('and keys have one job in 24 hours, to the millisecond', () => {
    const first = reserve('job_a', 5, 'k')
    expect(checkIds([first, reserve('job_b', 5 + DAY_MS, 'k')])).toEqual([])
    expect(checkIds([first, reserve('job_b', 4 + DAY_MS, 'k')])).toEqual([{
      law: 'one job an Idempotency-Key',
      job: 'job_b',
      detail: 'its key made job_a less than 24 hours before',
    }])
    const [second, third] = [reserve('job_b', 5 + DAY_MS, 'k'), reserve('job_c', 6 + DAY_MS, 'k')]
    expect(checkIds([first, second, third]).map(({ job }) => job)).toEqual(['job_c'])
  })

  it('which jobs without a key, or from before terms were written, never share', () => {
    const old = (job: string) => entry({ job, entryId: `${job}:reserve`, reason: '' })
    expect(checkIds([reserve('job_a', 5, ''), reserve('job_b', 5, ''), old('job_c'), old('job_d')]))
      .toEqual([])
    const topup = { type: 'topup', job: '', reason: 'no JSON' }
    expect(checkIds([entry({ ...topup, entryId: 'a' }), entry({ ...topup, entryId: 'b' })]))
      .toEqual([])
  })
})

describe('a job', () => {
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

  it('runs for less than a day', () => {
    expect(checkAges([running], 999 + DAY_MS)).toEqual([])
    expect(checkAges([running], 1_000 + DAY_MS)).toEqual([{
      law: 'every job ends within a day',
      job: JOB,
      detail: 'it runs since 1970-01-01T00:00:01.000Z',
    }])
  })

  it('has one event, its own', () => {
    const job = endedJob()
    expect(checkDeliveries(job, [], 0)).toEqual([])
    expect(checkDeliveries(job, [attempt(), attempt({ outcome: 'delivered' })], 0)).toEqual([])
    const strange = attempt({ event: 'evt_x', outcome: 'delivered' })
    expect(checkDeliveries(job, [attempt(), strange], 0)).toEqual([
      { law: 'one event a job', job: JOB, detail: 'evt_x is not its event' },
    ])
    expect(checkDeliveries(running, [attempt()], 0).map(({ law }) => law))
      .toEqual(['one event a job'])
  })

  it('is delivered or given up within four days of its last attempt', () => {
    const job = endedJob()
    expect(checkDeliveries(job, [attempt(), attempt()], 1_000 + 4 * DAY_MS)).toEqual([])
    expect(checkDeliveries(job, [attempt(), attempt()], 1_001 + 4 * DAY_MS)).toEqual([{
      law: 'every delivery comes to its end',
      job: JOB,
      detail: 'the last of 2 attempts has failed and no other follows',
    }])
    const given = [attempt(), attempt({ outcome: 'exhausted' })]
    expect(checkDeliveries(job, given, 9 * DAY_MS)).toEqual([])
  })
})

describe('the money of a tenant in words', () => {
  it('has a line for each movement, in order, and the rows a charge is for', () => {
    const job = endedJob({
      unitPriceMicros: 4, counts: { ...endedJob().counts, billableRows: 3 },
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
      `3 ${JOB} is charged 12 = 3 rows x 4, 28 return; available 60`,
      '4 job_x is charged 0, 40 return; available 60',
    ])
  })
})
