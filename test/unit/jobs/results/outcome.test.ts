import { describe, expect, it } from 'vitest'
import { rowOutcomeOf, withoutVerdict } from '../../../../services/jobs/results/outcome.ts'
import { cachedRecord } from '../../../support/stage-doubles.ts'

const subject = { service: 'phone-validation', canonical: '+12127365000', copies: 2 } as const

describe('the outcome of a record', () => {
  it('combines the stored fields with those derived from the contact', () => {
    const record = cachedRecord({ checkedAtMs: 100, fields: { carrier: 'Acme', e164: 'stale' } })
    expect(rowOutcomeOf(record, subject, { source: 'cache', freshnessMs: 50 })).toMatchObject({
      status: 'valid',
      source: 'cache',
      confidence: 90,
      checkedAtMs: 100,
      expiresAtMs: 150,
      copies: 2,
      contact: { e164: '+12127365000', phone: '+1 212 736 5000' },
    })
    const { fields } = rowOutcomeOf(record, subject, { source: 'live', freshnessMs: 50 })
    expect(fields).toBe(record.fields)
  })

  it('has the evidence of the record, none from a release that stored none', () => {
    const evidenceOf = (evidence: { evidence?: number }) =>
      rowOutcomeOf(cachedRecord(evidence), subject, { source: 'cache', freshnessMs: 50 }).evidence
    expect([evidenceOf({ evidence: 9 }), evidenceOf({})]).toEqual([9, undefined])
  })

  it('without a verdict has the check of the syntax only, if its contact is known', () => {
    expect(withoutVerdict('timeout', { atMs: 0, subject }).evidence).toBe(0)
    expect(withoutVerdict('internal', { atMs: 0 }).evidence).toBeUndefined()
  })

  it('expires at once when there is no verdict', () => {
    const record = cachedRecord({ status: 'unknown', reason: 'no_answer', checkedAtMs: 100 })
    expect(rowOutcomeOf(record, subject, { source: 'live', freshnessMs: 50 }).expiresAtMs).toBe(100)
  })
})
