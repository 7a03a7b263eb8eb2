import { describe, expect, it } from 'vitest'
import type { Job } from '../../../services/jobs/job.ts'
import {
  fieldsOf, jobOf, RECORD_FIELDS, recordFields, recordOf, refusalOf,
} from '../../../services/jobs/job-record.ts'

const numbers = [
  'totalRows', 'invalidRows', 'duplicateRows', 'quotedHits', 'quotedFresh', 'maxQuoteMicros',
  'chunks',
  'unitPriceMicros', 'createdAtMs', 'updatedAtMs', 'endedAtMs', 'finishedRows', 'inputBlocks',
  'cacheHits', 'freshRecords', 'invalidRecords', 'duplicateRecords',
  'unknownRecords', 'cancelledRecords', 'successRecords', 'failedRecords', 'chargedMicros',
  'releasedMicros',
]
/** Every number differs, so that a mix-up of fields is detected. */
const pairs = [
  ...numbers.flatMap((name, index) => [name, String(index + 1)]),
  'id', 'job_1', 'status', 'verifying', 'service', 'whatsapp', 'lane', 'bulk', 'quoteId', 'quot_1',
  'verdicts', '{"valid deliverable":3}',
  'forceFresh', '1', 'announced', '1', 'ended', '0', 'closed', '0', 'header', 'AQI=',
]
const job = {
  id: 'job_1',
  tenant: 'org_1.live',
  service: 'whatsapp',
  lane: 'bulk',
  status: 'verifying',
  preflight: {
    totalRows: 1,
    invalidRows: 2,
    duplicateRows: 3,
    cacheHits: 4,
    freshChecks: 5,
    maxQuoteMicros: 6,
    quoteId: 'quot_1',
  },
  chunks: 7,
  unitPriceMicros: 8,
  forceFresh: true,
  header: Buffer.of(1, 2),
  createdAtMs: 9,
  updatedAtMs: 10,
  announced: true,
  rebuilt: false,
  ended: false,
  closed: false,
  endedAtMs: 11,
  counts: {
    finishedRows: 12,
    inputBlocks: 13,
    cacheHits: 14,
    freshRecords: 15,
    invalidRecords: 16,
    duplicateRecords: 17,
    unknownRecords: 18,
    cancelledRecords: 19,
    successRecords: 20,
    failedRecords: 21,
  },
  verdicts: { 'valid deliverable': 3 },
  chargedMicros: 22,
  releasedMicros: 23,
}
const refusal = ['refusal', 'insufficient_balance', 'requiredMicros', '7', 'availableMicros', '3']
describe('a record', () => {
  it('is a job', () => {
    expect(jobOf('org_1.live', fieldsOf(pairs))).toEqual(job)
  })

  it('is read by the names of its fields, and has none that is not among them', () => {
    const whole = { ...job, feed: { partner: 'acme', partition: 12 } } as Job
    const written = fieldsOf(recordOf(whole))
    const found = recordFields(RECORD_FIELDS.map(name => written[name] ?? null))
    expect(found).toEqual({ ...written })
    expect(jobOf(job.tenant, found)).toEqual(whole)
  })

  it('of an older release has no verdicts', () => {
    const older = Object.fromEntries(
      Object.entries(fieldsOf(pairs)).filter(([name]) => name !== 'verdicts'))
    expect(jobOf('org_1.live', older)).toEqual({ ...job, verdicts: {} })
  })

  it('with a count that is no number is an error', () => {
    expect(() => jobOf('t', fieldsOf([...pairs, 'totalRows', '1e+14'])))
      .toThrow('not a safe integer')
  })

  it('may hold a refusal', () => {
    expect(refusalOf('job_1', fieldsOf(refusal))).toEqual({
      code: 'insufficient_balance', requiredMicros: 7, availableMicros: 3,
    })
    expect(refusalOf('job_1', fieldsOf(['refusal', 'expired']))).toEqual({ code: 'expired' })
    expect(refusalOf('job_1', fieldsOf(pairs))).toBeUndefined()
    expect(() => refusalOf('job_1', fieldsOf(['refusal', 'mood'])))
      .toThrow('job job_1 has the unknown refusal code "mood"')
  })
})

it('a feed job says where its contacts came from', () => {
  expect(jobOf('org_1.live', fieldsOf([...pairs, 'feed', 'acme:12'])).feed)
    .toEqual({ partner: 'acme', partition: 12 })
  expect(jobOf('org_1.live', fieldsOf(pairs))).not.toHaveProperty('feed')
  expect(refusalOf('job_1', { refusal: 'cursor_moved' })).toEqual({ code: 'cursor_moved' })
})
