import { all } from 'mcc-mnc-list'
import { rateConfidence, packChecks } from '../../cache/evidence.ts'
import type { LineType } from '../../../schemas/api/verdicts.ts'
import { type AssignedType, describePhone } from '../../phone/plans.ts'
import type { Provider, ProviderVerdict } from '../provider.ts'
import type { ServiceSlug } from '../../topology.ts'
import { type RangeData, splitPlace } from './range-data.ts'

const LINE_TYPE_OF = {
  MOBILE: 'mobile',
  FIXED_LINE: 'landline',
  FIXED_LINE_OR_MOBILE: 'fixed_line_or_mobile',
  VOIP: 'voip',
  TOLL_FREE: 'toll_free',
  PREMIUM_RATE: 'premium_rate',
  SHARED_COST: 'shared_cost',
  PERSONAL_NUMBER: 'personal_number',
  PAGER: 'pager',
  UAN: 'uan',
  VOICEMAIL: 'voicemail',
} as const satisfies Record<AssignedType, LineType>

/** Countries with portability of mobile numbers (Google's PhoneNumberMetadata, July 2026). */
const PORTABLE: ReadonlySet<string | undefined> = new Set((
  'AG AI AL AM AR AT AU AZ BA BB BE BG BH BJ BL BM BR BS BY CA CH CL CM CO CY CZ DE DK DM DO EC ' +
  'EE EG ES FI FR GB GD GE GF GH GI GP GR HK HR HU IE IL IN IR IS IT JM JO JP KE KN KR KW KY KZ ' +
  'LC LT LU LV MA MD MF MK MQ MS MT MX MY NG NL NO NZ OM PA PE PK PL PR PT PY QA RO RS RU SA SE ' +
  'SG SI SK SX TC TH TR TT TW US VA VC VG ZA').split(' '))

/** Types with carrier data (Google's PhoneNumberToCarrierMapper). */
const CARRIER_TYPES: ReadonlySet<AssignedType> = new Set([
  'MOBILE', 'FIXED_LINE_OR_MOBILE', 'PAGER',
])
/** Calling codes whose mobile numbers have area codes (Google's GEO_MOBILE_COUNTRIES). */
const GEOGRAPHIC_MOBILE: ReadonlySet<string> = new Set(['52', '54', '55', '62', '86'])
const ARGENTINA = '54'
const ARGENTINE_MOBILE_TOKEN = '9'

/**
 * Checks numbers offline, by the world's numbering plans: whether the range is assigned, and its
 * type, carrier, place and time zone; `mcc` and `mnc` where the carrier's name determines them. The
 * plans have no portings, so `ported` stays blank, and the confidence of a carrier depends on the
 * country.
 */
export function createNumberingPlanProvider (ranges: RangeData): Provider {
  const verdictFor = createSharedVerdicts()
  return {
    id: 1,
    isOffline: true,
    services: ['phone-validation', 'carrier-lookup', 'carrier-single'],
    check: async (rows, { service }) => rows.map(({ row, canonical }) =>
      ({ row, verdict: verdictFor(findRange(canonical, ranges), service) })),
  }
}

/** The range of an assigned number. */
type Range = {
  readonly type: AssignedType
  readonly callingCode: string
  /** As the range data describe it, blank if unknown. */
  readonly place: string
  readonly carrier: string
  readonly timezone: string
  /** ISO 3166-1 alpha-2; undefined for numbers of no country. */
  readonly country: string | undefined
}

/** The shared verdicts are cleared at this number; places and carriers limit their number. */
const MAX_SHARED = 10_000

/** Returns equal verdicts as one object, so that the cache serializes each only once. */
function createSharedVerdicts () {
  const verdicts = new Map<string, ProviderVerdict>()
  return (range: Range | undefined, service: ServiceSlug): ProviderVerdict => {
    if (range === undefined) return UNASSIGNED
    const { country, type, place, carrier, timezone } = range
    const key = `${service}|${country}|${type}|${timezone}|${carrier}|${place}`
    const shared = verdicts.get(key)
    if (shared !== undefined) return shared
    const verdict = assignedVerdict(range, service)
    if (verdicts.size === MAX_SHARED) verdicts.clear()
    verdicts.set(key, verdict)
    return verdict
  }
}

const FAILED = packChecks({ numbering_plan: 'failed' })

const UNASSIGNED: ProviderVerdict = {
  status: 'invalid',
  reason: 'unassigned_range',
  confidence: rateConfidence('unassigned_range', FAILED),
  evidence: FAILED,
  fields: { line_type: 'unknown' },
}

function assignedVerdict (
  range: Range, service: ServiceSlug
): ProviderVerdict {
  const { country, callingCode, type, carrier, timezone } = range
  const { region, locality } = splitPlace(range.place, callingCode)
  const isOfCarrier = service !== 'phone-validation'
  const holder = PORTABLE.has(country) ? 'caution' : 'passed'
  const evidence = packChecks({
    numbering_plan: 'passed',
    ...(CARRIER_TYPES.has(type) && {
      carrier_range: carrier === '' ? 'inconclusive' : holder,
    }),
  })
  const confidence = rateConfidence(isOfCarrier ? 'carrier' : 'assigned_range', evidence)
  const fields: Record<string, string> = { line_type: LINE_TYPE_OF[type] }
  put(fields, 'carrier', carrier)
  put(fields, 'region', region)
  put(fields, 'locality', locality)
  put(fields, 'timezone', timezone)
  if (isOfCarrier) {
    codes ??= readCodes()
    // Undefined unless the name, as brand or operator, has exactly one code in operation there.
    Object.assign(fields, codes.get(nameIn(country ?? '', carrier)))
  }
  return { status: 'valid', reason: 'assigned_range', confidence, evidence, fields }
}

/** The range of a number; undefined if it is not assigned. */
function findRange (e164: string, ranges: RangeData): Range | undefined {
  const number = describePhone(e164)
  // With the full metadata a number is valid if and only if it has a type: one call does both.
  if (number?.type === undefined) return undefined
  const { callingCode, national, country } = number
  // For a plan without mobile ranges the library returns FIXED_LINE_OR_MOBILE, and Google returns
  // FIXED_LINE. Tristan da Cunha is the only such country.
  const isTristan = number.type === 'FIXED_LINE_OR_MOBILE' && country === 'TA'
  const type = isTristan ? 'FIXED_LINE' : number.type
  const carrier = CARRIER_TYPES.has(type) ? ranges.carrierOf(callingCode + national) : ''
  const isMobile = type === 'MOBILE'
  // Most mobile prefixes have no place.
  const isGeographic = type === 'FIXED_LINE' || type === 'FIXED_LINE_OR_MOBILE' ||
    (isMobile && GEOGRAPHIC_MOBILE.has(callingCode))
  if (!isGeographic) {
    const timezone = ranges.timezoneOf(callingCode)
    return { type, place: '', carrier, timezone, country, callingCode }
  }
  // Argentine mobile numbers have a 9 before the area code, which the place data omits.
  const hasToken = isMobile && callingCode === ARGENTINA &&
    national.startsWith(ARGENTINE_MOBILE_TOKEN)
  const place = ranges.placeOf(callingCode + (hasToken ? national.slice(1) : national))
  const timezone = ranges.timezoneOf(callingCode + national)
  return { type, place, carrier, timezone, country, callingCode }
}

function put (fields: Record<string, string>, column: string, value: string): void {
  if (value !== '') fields[column] = value
}

/** Mobile country code and mobile network code (ITU-T E.212), 3 digits and 2 or 3 digits. */
type NetworkCode = { readonly mcc: string, readonly mnc: string }

let codes: ReadonlyMap<string, NetworkCode | undefined> | undefined

/**
 * The public E.212 codes by country (ISO 3166-1 alpha-2) and name; undefined for a name with
 * several.
 */
function readCodes () {
  const byName = new Map<string, NetworkCode | undefined>()
  for (const { countryCode, mcc, mnc, brand, operator, status } of all()) {
    if (status !== 'Operational' || !/^\d{2,3}$/.test(mnc)) continue
    // International networks have no country, and some of overseas territories have several.
    for (const country of countryCode?.split('/') ?? []) {
      const names = [brand, operator].filter(Boolean).map((name) => nameIn(country, name))
      for (const name of new Set(names)) {
        byName.set(name, byName.has(name) ? undefined : { mcc, mnc })
      }
    }
  }
  return byName
}

/** Spelling, case and accents of names differ between the published lists. */
function nameIn (country: string, name: string): string {
  return `${country} ${name.toLowerCase().normalize('NFD').replace(/[^\p{L}\p{N}]+/gu, '')}`
}
