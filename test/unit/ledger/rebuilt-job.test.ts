import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import { fieldsOf, jobOf } from '../../../services/jobs/job-record.ts'
import { closedJobOf, hasTerms, openJobOf } from '../../../services/ledger/rebuilt-job.ts'
import { endedJob } from '../../support/results.ts'
import { entryOf, JOB, NO_COUNTS, TENANT } from '../../support/stage-doubles.ts'

const DAY_MS = 86_400_000
/** As accept.lua writes them: all values are text. */
const terms = {
  unitPriceMicros: '4',
  acceptBy: '60',
  idempotencyKey: 'k',
  fingerprint: 'f',
  claimedAt: '1000',
  cursor: 'c',
  cursorTo: '8',
  service: 'whatsapp',
  lane: 'bulk',
  totalRows: '20',
  invalidRows: '3',
  duplicateRows: '2',
  quotedHits: '5',
  quotedFresh: '10',
  quoteId: 'quot_9',
  chunks: '2',
  forceFresh: '1',
  createdAtMs: '900',
  feed: 'acme:3',
  apiKey: 'key_1',
}
const reserve: Journal = {
  ...entryOf(TENANT, endedJob()),
  seq: 6,
  amountMicros: 60,
  at: 1_500,
  header: Buffer.from('sealed'),
  reason: JSON.stringify(terms),
}
const end: Journal = { ...reserve, type: 'settle', seq: 9, chargeMicros: 24 }

describe('a job from its reserve entry', () => {
  it('is the one that was accepted, before anything of it was counted', () => {
    const { fields, ...binding } = openJobOf(reserve, 2_000)
    expect(binding).toEqual({
      tenant: TENANT,
      job: JOB,
      nowMs: 2_000,
      idempotencyKey: 'k',
      fingerprint: 'f',
      claimedAt: '1000',
      feed: { partner: 'acme', partition: 3, cursor: 'c', to: '8' },
      settled: undefined,
      isClosed: false,
    })
    expect(jobOf(TENANT, fieldsOf(fields))).toEqual({
      id: JOB,
      tenant: TENANT,
      apiKey: 'key_1',
      service: 'whatsapp',
      lane: 'bulk',
      status: 'verifying',
      preflight: {
        totalRows: 20,
        invalidRows: 3,
        duplicateRows: 2,
        cacheHits: 5,
        freshChecks: 10,
        maxQuoteMicros: 60,
        quoteId: 'quot_9',
      },
      unitPriceMicros: 4,
      chunks: 2,
      feed: { partner: 'acme', partition: 3 },
      forceFresh: true,
      header: Buffer.from('sealed'),
      createdAtMs: 900,
      updatedAtMs: 1_500,
      announced: false,
      rebuilt: true,
      ended: false,
      closed: false,
      endedAtMs: 0,
      counts: NO_COUNTS,
      chargedMicros: 0,
      releasedMicros: 0,
    })
    expect(fieldsOf(fields)).toMatchObject({ reserveSeq: '6', idempotencyKey: 'k' })
    expect(fieldsOf(fields)).not.toHaveProperty('fingerprint')
  })

  it('has the end the journal knows', () => {
    expect(openJobOf(reserve, 2_000, end).settled).toEqual({ seq: 9, chargeMicros: 24 })
  })

  it('keeps its key for 24 hours from its claim', () => {
    expect(openJobOf(reserve, 999 + DAY_MS).idempotencyKey).toBe('k')
    expect(openJobOf(reserve, 1_000 + DAY_MS).idempotencyKey).toBe('')
  })

  it('needs no key, feed or slot', () => {
    const { feed: _feed, ...rest } = terms
    const plain = { ...rest, idempotencyKey: '', claimedAt: '', cursor: '' }
    expect(openJobOf({ ...reserve, header: null, reason: JSON.stringify(plain) }, 2_000))
      .toMatchObject({
        idempotencyKey: '', feed: { partner: '', partition: -1, cursor: '' },
      })
  })

  it('can be made of an entry with terms only', () => {
    expect([hasTerms(reserve), hasTerms({ reason: '' })]).toEqual([true, false])
  })
})

describe('a closed job from the archive', () => {
  it('has the record it ended with', () => {
    const counts = {
      finishedRows: 20,
      inputBlocks: 2,
      cacheHits: 5,
      freshRecords: 6,
      invalidRecords: 3,
      duplicateRecords: 1,
      unknownRecords: 1,
      cancelledRecords: 4,
      successRecords: 11,
      failedRecords: 9,
    }
    const job = endedJob({
      status: 'cancelled', counts, endedAtMs: 7_000, chargedMicros: 24, releasedMicros: 36,
    })
    const rebuilt = closedJobOf(job, { reserve, end, nowMs: 2_000 })
    expect(rebuilt).toMatchObject({
      isClosed: true, settled: { seq: 9, chargeMicros: 24 }, idempotencyKey: 'k',
    })
    expect(jobOf(TENANT, fieldsOf(rebuilt.fields))).toMatchObject({
      id: JOB,
      status: 'cancelled',
      announced: true,
      ended: true,
      closed: true,
      endedAtMs: 7_000,
      counts,
      chargedMicros: 24,
      releasedMicros: 36,
      unitPriceMicros: job.unitPriceMicros,
      preflight: job.preflight,
    })
    expect(fieldsOf(rebuilt.fields)).toMatchObject({ settleSeq: '9' })
  })
})
