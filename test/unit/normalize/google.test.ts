import { readFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { canonicalFor } from '../../../services/normalize/stage.ts'
import { columnsOf, SERVICES } from '../../../services/jobs/results/columns.ts'
import { derive } from '../../../services/jobs/results/outcome.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../../../services/topology.ts'
import type { ProviderVerdict } from '../../../services/verify/provider.ts'
import { createNumberingPlanProvider } from '../../../services/verify/providers/numbering-plan.ts'
import { loadRangeData, stateCode } from '../../../services/verify/providers/range-data.ts'
import { createSandboxProvider } from '../../../services/verify/providers/sandbox.ts'

/** The results of Google's library for one number; made once, by the versions in the file. */
type GoogleRow = readonly [
  input: string, country: string, length: string, valid: boolean, e164: string,
  international: string, national: string, region: string, type: string, carrier: string,
  place: string, timezones: readonly string[]
]

const file = new URL('../../support/data/numbers.google.json', import.meta.url)
const { rows: google } = JSON.parse(readFileSync(file, 'utf8')) as { rows: readonly GoogleRow[] }
const isPossible = ([, , length]: GoogleRow) => length === 'IS_POSSIBLE'
const possible = google.filter(isPossible)

/**
 * Differences that are known. The metadata of libphonenumber-js leaves out formats of numbers that
 * can't be dialled from abroad; our carrier data are newer than those of Google's archive; and of
 * territories that are one place the data leaves out what we show, as it is the country's name.
 */
const UNFORMATTED_NATIONAL: readonly string[] = ['+3114020', '+61131234', '+904441444']
const OTHER_CARRIER: readonly string[] = [
  '+233231234567', '+24740123', '+37251234567', '+5493512345678',
]
/** Of countries whose places Google's archive leaves out. */
const NEWER_PLACES: readonly string[] = [
  '+33142685300', '+37163123456', '+3723212345', '+60323856789',
]
const TERRITORIES: readonly string[] = [
  '+2908999', '+390669812345', '+39066982', '+441481256789', '+441534456789', '+441624756789',
  '+4779123456', '+61891641234',
]

/** The services whose inputs are phones, and their checker where no vendor is used. */
const byPlan: readonly ServiceSlug[] = ['phone-validation', 'carrier-single', 'carrier-lookup']
const bySandbox: readonly ServiceSlug[] = ['whatsapp', 'telegram']

const sandbox = createSandboxProvider({ slowMs: 0 })
let plan: ReturnType<typeof createNumberingPlanProvider>
beforeAll(() => { plan = createNumberingPlanProvider(loadRangeData()) })

const canonicalOf = (service: ServiceSlug, [input, country]: GoogleRow) =>
  canonicalFor(SERVICES[service].kind)(input, country === '' ? undefined : country)

type Checked = { readonly google: GoogleRow, readonly verdict: ProviderVerdict } &
  { readonly cells: Readonly<Record<string, string>> }

/** The cells of each possible number, by the way that every row of a job goes. */
async function checkAll (service: ServiceSlug): Promise<readonly Checked[]> {
  const canonicals = possible.map((row) => {
    const result = canonicalOf(service, row)
    if (!result.ok) throw new Error(`${row[0]} has no canonical form: ${result.reason}`)
    return result.canonical
  })
  const provider = byPlan.includes(service) ? plan : sandbox
  const rows = canonicals.map((canonical, row) => ({ row, canonical }))
  const { signal } = new AbortController()
  const answers = await provider.check(rows, { service, signal, deadlineMs: Infinity })
  const verdicts = new Map(answers.map(({ row, verdict }) => [row, verdict]))
  return possible.map((row, index) => {
    const verdict = verdicts.get(index)
    if (verdict === undefined) throw new Error(`${row[0]} has no verdict`)
    const { fields } = verdict
    return { google: row, verdict, cells: { ...fields, ...derive('phone', row[4], fields) } }
  })
}

const lineType = (type: string) => type === 'FIXED_LINE' ? 'landline' : type.toLowerCase()
/** Google writes separators as people of the country do, we write spaces. */
const spaced = (text: string) => text.replace(/[-.]/g, ' ')
const countryOf = (region: string) => region === '001' ? '' : region
const unlike = (checked: readonly Checked[], differs: (one: Checked) => boolean) =>
  [...new Set(checked.filter(differs).map(({ google: [, , , , e164] }) => e164))].sort()

describe('numbers of all countries, compared with Google\'s libphonenumber', () => {
  it('cover many countries and all types', () => {
    expect(google.length).toBeGreaterThanOrEqual(200)
    expect(new Set(google.map((row) => row[7])).size).toBeGreaterThanOrEqual(50)
    expect(new Set(possible.map((row) => row[8]))).toEqual(new Set([
      'MOBILE', 'FIXED_LINE', 'FIXED_LINE_OR_MOBILE', 'TOLL_FREE', 'PREMIUM_RATE', 'SHARED_COST',
      'VOIP', 'PERSONAL_NUMBER', 'PAGER', 'UAN', 'VOICEMAIL', 'UNKNOWN',
    ]))
  })

  it.each([...byPlan, ...bySandbox])('have the same canonical form for %s, or none', (service) => {
    const ours = google.map((row) => canonicalOf(service, row))
    expect(ours.map((result, index) => [google[index]?.[0], result.ok ? result.canonical : '']))
      .toEqual(google.map((row) => [row[0], isPossible(row) ? row[4] : '']))
  })

  it('are not e-mail addresses', () => {
    expect(google.map((row) => canonicalOf('email-validation', row).ok).includes(true)).toBe(false)
    expect(new Set([...byPlan, ...bySandbox, 'email-validation'])).toEqual(new Set(SERVICE_SLUGS))
  })

  it.each([...byPlan, ...bySandbox])('are formatted the same for %s', async (service) => {
    const checked = await checkAll(service)
    expect(checked.map(({ cells: { e164, phone, country } }) => [e164, phone, country]))
      .toEqual(possible.map((row) => [row[4], spaced(row[5]), countryOf(row[7])]))
    expect(unlike(checked, ({ cells, google: [, , , , , , national] }) =>
      cells['national_format'] !== national)).toEqual(UNFORMATTED_NATIONAL)
  })

  it.each(byPlan)('have the same verdict and fields for %s', async (service) => {
    const checked = await checkAll(service)
    const found = checked.map(({ verdict: { status }, cells }) =>
      [cells['e164'], status, cells['line_type']])
    expect(found).toEqual(possible.map((row) =>
      [row[4], row[3] ? 'valid' : 'invalid', lineType(row[8])]))
    expect(unlike(checked, ({ cells, google: row }) => (cells['carrier'] ?? '') !== row[9]))
      .toEqual(OTHER_CARRIER)
    const placeOf = ({ cells }: Checked) =>
      [cells['locality'], cells['region']].filter(Boolean).join(', ')
    // Google returns the names of states without a town, and their codes with one.
    const googlePlaceOf = ({ google: [, , , , e164, , , , , , place] }: Checked) =>
      e164.startsWith('+1') ? stateCode(place) : place
    expect(unlike(checked, (one) => placeOf(one) !== googlePlaceOf(one)))
      .toEqual([...TERRITORIES, ...NEWER_PLACES].sort())
    expect(columnsOf(service)).toContain('timezone')
    expect(checked.map(({ cells }) => [cells['e164'], cells['timezone'] ?? '']))
      .toEqual(checked.map(({ google: row, verdict }) => [row[4], zoneOf(row[11], verdict)]))
  })

  it.each(bySandbox)('keep their own verdict for %s', async (service) => {
    const checked = await checkAll(service)
    const ordinary = checked.filter(({ google: [, , , , e164] }) => !/000[1-7]$/.test(e164))
    expect(ordinary.length).toBeGreaterThan(200)
    expect(new Set(ordinary.map(({ cells }) => cells[service]))).toEqual(new Set(['true']))
  })
})

/** Several time zones do not locate the contact, nor do those of an unassigned number. */
function zoneOf (zones: readonly string[], { status }: ProviderVerdict): string {
  const [only = ''] = zones
  return zones.length === 1 && status === 'valid' && only !== 'Etc/Unknown' ? only : ''
}
