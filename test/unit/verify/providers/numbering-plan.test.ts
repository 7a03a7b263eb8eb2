import { describe, expect, it } from 'vitest'
import { unpackChecks } from '../../../../services/cache/evidence.ts'
import type { ServiceSlug } from '../../../../services/topology.ts'
import {
  createNumberingPlanProvider,
} from '../../../../services/verify/providers/numbering-plan.ts'
import { loadRangeData, splitPlace } from '../../../../services/verify/providers/range-data.ts'

const provider = createNumberingPlanProvider(loadRangeData())

async function check (e164s: readonly string[], service: ServiceSlug = 'phone-validation') {
  return await provider.check(e164s.map((canonical, row) => ({ row, canonical })),
    { service, mode: 'live', signal: new AbortController().signal, deadlineMs: 0 })
}
const verdictOf = async (e164: string, service?: ServiceSlug) =>
  (await check([e164], service))[0]!.verdict

describe('the verdict of a phone number', () => {
  it.each<readonly [e164: string, checks: object]>([
    ['+4930901820', { numbering_plan: 'passed' }],
    ['+12127365000', { numbering_plan: 'passed', carrier_range: 'inconclusive' }],
    ['+4915112345678', { numbering_plan: 'passed', carrier_range: 'caution' }],
    ['+84912345678', { numbering_plan: 'passed', carrier_range: 'passed' }],
    ['+15000000000', { numbering_plan: 'failed' }],
    // Area codes in service that the library lacks.
    ...['436', '621', '624', '679', '861'].map(area =>
      [`+1${area}2345678`, { numbering_plan: 'passed', carrier_range: 'inconclusive' }] as const),
    ['+16241345678', { numbering_plan: 'failed' }],
  ])('%s has the checks %o', async (e164, checks) => {
    for (const service of ['phone-validation', 'carrier-lookup'] as const) {
      expect(unpackChecks((await verdictOf(e164, service)).evidence ?? 0)).toEqual(checks)
    }
  })

  it.each([
    ['+4915112345678', 'T-Mobile', 60], ['+84912345678', 'Vinaphone', 90],
  ] as const)('%s has the carrier %s, less certain where numbers are ported: %d', async (
    e164, carrier, confidence
  ) => {
    for (const service of ['carrier-single', 'carrier-lookup'] as const) {
      expect(await verdictOf(e164, service)).toMatchObject({ confidence, fields: { carrier } })
    }
    expect((await verdictOf(e164)).confidence).toBe(60)
  })

  it('is less certain where no carrier is known', async () => {
    expect((await verdictOf('+4930901820')).confidence).toBe(50)
  })

  it.each([
    ['+355692123456', { carrier: 'Vodafone', mcc: '276', mnc: '02' }],
    ['+3548901234', { carrier: 'Síminn', mcc: '274', mnc: '01' }],
    // A name with several codes, and one with none.
    ['+491721234567', { carrier: 'Vodafone' }],
    ['+12127365000', {}],
  ])('%s has the network code that its carrier determines: %o', async (e164, fields) => {
    for (const service of ['carrier-single', 'carrier-lookup'] as const) {
      const { carrier, mcc, mnc } = (await verdictOf(e164, service)).fields
      expect({ carrier, mcc, mnc }).toEqual({ carrier: undefined, ...fields })
    }
    expect((await verdictOf(e164)).fields).not.toHaveProperty('mcc')
  })

  it('is one object for numbers with equal verdicts', async () => {
    const e164s = ['+12127365000', '+12127365001', '+4930901820', '+12127365002']
    const answers = await check(e164s)
    expect(answers.map(({ row }) => row)).toEqual([0, 1, 2, 3])
    expect(new Set(answers.map(({ verdict }) => verdict)).size).toBe(2)
    expect(answers[1]?.verdict).toBe(answers[0]?.verdict)
  })

  it('is of one service', async () => {
    const confidences: number[] = []
    for (const service of ['phone-validation', 'carrier-lookup', 'phone-validation'] as const) {
      confidences.push((await verdictOf('+84912345678', service)).confidence)
    }
    expect(confidences).toEqual([60, 90, 60])
  })
})

it.each([
  ['San Francisco, CA', '1', { region: 'CA', locality: 'San Francisco' }],
  ['Cherry Street, Philadelphia, PA', '1', { region: 'PA', locality: 'Philadelphia' }],
  ['New Jersey', '1', { region: 'NJ', locality: '' }],
  ['Eleuthera', '1', { region: 'Eleuthera', locality: '' }],
  ['Nova Scotia/Prince Edward Island', '1', { region: '', locality: '' }],
  ['Changzhou, Jiangsu', '86', { region: 'Jiangsu', locality: 'Changzhou' }],
])('a place of the range data "%s" of +%s has these columns', (description, callingCode, place) => {
  expect(splitPlace(description, callingCode)).toEqual(place)
})
