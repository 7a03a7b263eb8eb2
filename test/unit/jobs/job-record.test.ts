import { describe, expect, it } from 'vitest'
import type { Job } from '../../../services/jobs/job.ts'
import {
  toFields, parseJob, RECORD_FIELDS, recordFields, toRecord, parseRefusal,
} from '../../../services/jobs/job-record.ts'
import { endedJob } from '../../support/webhooks/deliveries.ts'

/** Every count differs, so that a mix-up of fields is detected. */
const numbered = <T extends object>(counts: T) =>
  Object.fromEntries(Object.keys(counts).map((name, index) => [name, index + 100])) as T
const ended = endedJob()
const job: Job = {
  ...ended,
  status: 'verifying',
  preflight: { ...numbered(ended.preflight), quoteId: 'quot_1' },
  counts: numbered(ended.counts),
  forceFresh: true,
  header: Buffer.of(1, 2),
  feed: { partner: 'acme', partition: 12 },
}
const pairs = toRecord(job)
const refusal = ['refusal', 'insufficient_balance', 'requiredMicros', '7', 'availableMicros', '3']
describe('a record', () => {
  it('is read by the names of its fields, and has none that is not among them', () => {
    const written = toFields(pairs)
    const found = recordFields(RECORD_FIELDS.map(name => written[name] ?? null))
    expect(found).toEqual({ ...written })
    expect(parseJob(job.tenant, found)).toEqual(job)
  })

  it('with a count that is no number is an error', () => {
    expect(() => parseJob('t', toFields([...pairs, 'totalRows', '1e+14'])))
      .toThrow('not a safe integer')
  })

  it('may hold a refusal', () => {
    expect(parseRefusal('job_1', toFields(refusal))).toEqual({
      code: 'insufficient_balance', requiredMicros: 7, availableMicros: 3,
    })
    expect(parseRefusal('job_1', toFields(['refusal', 'expired']))).toEqual({ code: 'expired' })
    expect(parseRefusal('job_1', { refusal: 'cursor_moved' })).toEqual({ code: 'cursor_moved' })
    expect(parseRefusal('job_1', toFields(pairs))).toBeUndefined()
    expect(() => parseRefusal('job_1', toFields(['refusal', 'mood'])))
      .toThrow('job job_1 has the unknown refusal code "mood"')
  })
})
