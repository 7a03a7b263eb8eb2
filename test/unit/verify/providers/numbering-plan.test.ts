import { describe, expect, it } from 'vitest'
import { packChecks, unpackChecks } from '../../../../services/cache/evidence.ts'
import {
  createNumberingPlanProvider, rangeVerdictOf,
} from '../../../../services/verify/providers/numbering-plan.ts'
import { loadRangeData } from '../../../../services/verify/providers/range-data.ts'
import type { ServiceSlug } from '../../../../services/topology.ts'

const ranges = loadRangeData()
const options = {
  service: 'phone-validation', signal: new AbortController().signal, deadlineMs: 0,
} as const

describe('the verdict of a phone number', () => {
  it.each([
    ['+12127365000', {
      line_type: 'fixed_line_or_mobile',
      region: 'NY',
      locality: 'New York',
      timezone: 'America/New_York',
    }],
    ['+4930901820', { line_type: 'landline', locality: 'Berlin', timezone: 'Europe/Berlin' }],
    ['+4915112345678', { line_type: 'mobile', carrier: 'T-Mobile', timezone: 'Europe/Berlin' }],
    ['+18002345678', { line_type: 'toll_free' }],
    ['+5491123451300', {
      line_type: 'mobile',
      locality: 'Buenos Aires',
      timezone: 'America/Buenos_Aires',
    }],
    ['+2908999', {
      line_type: 'landline',
      locality: 'Tristan da Cunha',
      timezone: 'Atlantic/St_Helena',
    }],
  ])('%s is assigned', (e164, fields) => {
    const { confidence, evidence, ...verdict } = rangeVerdictOf(e164, ranges)
    expect(verdict).toEqual({ status: 'valid', reason: 'assigned_range', fields })
    expect(unpackChecks(evidence ?? 0)).toMatchObject({ numbering_plan: 'passed' })
    // A known carrier supports that the range is in use.
    expect(confidence).toBe('carrier' in fields ? 93 : 90)
  })

  it.each([
    ['+4930901820', { numbering_plan: 'passed' }],
    ['+12127365000', { numbering_plan: 'passed', carrier_range: 'inconclusive' }],
    ['+4915112345678', { numbering_plan: 'passed', carrier_range: 'caution' }],
    ['+84912345678', { numbering_plan: 'passed', carrier_range: 'passed' }],
    ['+15000000000', { numbering_plan: 'failed' }],
  ])('%s has the checks %o', (e164, checks) => {
    for (const service of ['phone-validation', 'carrier-lookup'] as const) {
      expect(unpackChecks(rangeVerdictOf(e164, ranges, service).evidence ?? 0)).toEqual(checks)
    }
  })

  it.each([
    ['+4915112345678', 'T-Mobile', 60], ['+84912345678', 'Vinaphone', 90],
  ] as const)('%s has the carrier %s, less certain where numbers are ported: %d', (
    e164, carrier, confidence
  ) => {
    for (const service of ['carrier-single', 'carrier-lookup'] as const) {
      expect(rangeVerdictOf(e164, ranges, service))
        .toMatchObject({ confidence, fields: { carrier } })
    }
    expect(rangeVerdictOf(e164, ranges).confidence).toBe(93)
  })

  it('has the network code that the name of its carrier determines, for carrier services', () => {
    const fieldsOf = (e164: string, service: ServiceSlug) =>
      rangeVerdictOf(e164, ranges, service).fields
    for (const service of ['carrier-single', 'carrier-lookup'] as const) {
      expect(fieldsOf('+355692123456', service))
        .toMatchObject({ carrier: 'Vodafone', mcc: '276', mnc: '02' })
    }
    expect(fieldsOf('+355692123456', 'phone-validation')).not.toHaveProperty('mcc')
    expect(fieldsOf('+12127365000', 'carrier-lookup')).not.toHaveProperty('mcc')
  })

  it('is invalid for a possible number of an unassigned range', () => {
    expect(rangeVerdictOf('+15000000000', ranges)).toEqual({
      status: 'invalid',
      reason: 'unassigned_range',
      confidence: 80,
      evidence: packChecks({ numbering_plan: 'failed' }),
      fields: { line_type: 'unknown' },
    })
  })
})

describe('the provider numbering-plan', () => {
  it('answers every row by its number', async () => {
    const provider = createNumberingPlanProvider(ranges)
    const answers = await provider.check([
      { row: 7, canonical: '+15000000000' }, { row: 3, canonical: '+12127365000' },
    ], options)
    expect(answers.map(({ row, verdict }) => [row, verdict.status]))
      .toEqual([[7, 'invalid'], [3, 'valid']])
  })

  it('returns one object for equal verdicts', async () => {
    const e164s = ['+12127365000', '+12127365001', '+4930901820', '+12127365002']
    const answers = await createNumberingPlanProvider(ranges).check(
      e164s.map((canonical, row) => ({ row, canonical })), options)
    const verdicts = answers.map(({ verdict }) => verdict)
    expect(verdicts).toEqual(e164s.map((e164) => rangeVerdictOf(e164, ranges)))
    expect(new Set(verdicts).size).toBe(2)
  })

  it('keeps the verdicts of the services apart', async () => {
    const provider = createNumberingPlanProvider(ranges)
    const rows = [{ row: 0, canonical: '+4915112345678' }]
    const confidences: (number | undefined)[] = []
    for (const service of ['phone-validation', 'carrier-lookup', 'phone-validation'] as const) {
      const [answer] = await provider.check(rows, { ...options, service })
      confidences.push(answer?.verdict.confidence)
    }
    expect(confidences).toEqual([93, 60, 93])
  })

  it('serves the three services that numbering plans have data for', () => {
    expect(createNumberingPlanProvider(ranges).services)
      .toEqual(['phone-validation', 'carrier-lookup', 'carrier-single'])
  })
})
