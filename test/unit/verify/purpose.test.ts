import { describe, expect, it } from 'vitest'
import type { ProviderVerdict } from '../../../services/verify/provider.ts'
import { verdictFor } from '../../../services/verify/checker.ts'

const assigned = (fields: Record<string, string>): ProviderVerdict =>
  ({ status: 'valid', reason: 'assigned_range', confidence: 90, fields })
const carriers: readonly Record<string, string>[] =
  [{ carrier: 'Example Mobile' }, { mcc: '262', mnc: '01' }]
const none: readonly Record<string, string>[] =
  [{}, { mcc: '262' }, { mnc: '01' }, { timezone: 'Europe/Berlin' }]
const messenger = (
  status: 'valid' | 'invalid' | 'risky', whatsapp?: string, reason: 'registered' |
    'not_registered' = status === 'invalid' ? 'not_registered' : 'registered'
): ProviderVerdict =>
  ({ status, reason, confidence: 90, fields: whatsapp === undefined ? {} : { whatsapp } })
const unclear = { status: 'unknown', reason: 'unclear_answer', confidence: 0, fields: {} }

describe.each(['carrier-single', 'carrier-lookup'] as const)('a verdict of %s', (service) => {
  it.each(carriers)('counts with %o', (fields) => {
    const verdict = assigned(fields)
    expect(verdictFor(service, verdict)).toBe(verdict)
  })

  it.each(none)('is unknown with %o, and keeps these columns', (fields) => {
    expect(verdictFor(service, assigned(fields)))
      .toEqual({ status: 'unknown', reason: 'carrier_unknown', confidence: 0, fields })
  })

  it('is unknown for an unassigned range, and says so', () => {
    const invalid = { ...assigned({}), status: 'invalid', reason: 'unassigned_range' } as const
    expect(verdictFor(service, invalid))
      .toMatchObject({ status: 'unknown', reason: 'unassigned_range' })
  })

  it('stays one object for equal verdicts', () => {
    const verdict = assigned({})
    expect(verdictFor(service, verdict)).toBe(verdictFor(service, verdict))
  })
})

describe('a verdict of a messenger', () => {
  it.each([
    messenger('valid', 'true'), messenger('risky', 'true'), messenger('invalid', 'false'),
  ])('counts if status and registration agree: %o', (verdict) => {
    expect(verdictFor('whatsapp', verdict)).toBe(verdict)
  })

  it.each([
    messenger('valid'), messenger('invalid'), messenger('valid', 'false'),
    messenger('risky', 'false'), messenger('invalid', 'true'),
    messenger('valid', 'true', 'not_registered'),
  ])('is unknown otherwise: %o', (verdict) => {
    expect(verdictFor('whatsapp', verdict)).toEqual(unclear)
  })

  it('is not that of the other messenger', () => {
    expect(verdictFor('telegram', messenger('valid', 'true'))).toEqual(unclear)
  })
})

it('verdicts of other services, and unknown ones, stay as they are', () => {
  const verdict = assigned({})
  expect(verdictFor('phone-validation', verdict)).toBe(verdict)
  const unknown = { ...verdict, status: 'unknown', reason: 'no_answer' } as const
  expect(verdictFor('carrier-lookup', unknown)).toBe(unknown)
})
