import { describePhone, type PhoneDescription } from '../../records/numbering/describe.ts'
import type { AssignedType } from '../../records/numbering/library.ts'
import type { LineType } from '../../records/record.ts'
import type { Provider, ProviderVerdict } from '../provider.ts'
import { NOWHERE, type Place, type RangeData } from './range-data.ts'

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

/**
 * How sure the published plan makes us, 0 to 100. That a range is assigned says nothing about the
 * one subscriber; and a range missing from the plan may have been opened since it was published.
 */
export const CONFIDENCE = { assigned: 90, unassigned: 80 } as const

/** Types whose ranges the carrier data covers (Google's PhoneNumberToCarrierMapper). */
const CARRIER_TYPES: ReadonlySet<AssignedType> = new Set([
  'MOBILE', 'FIXED_LINE_OR_MOBILE', 'PAGER',
])
/** Calling codes whose mobile numbers have area codes (Google's GEO_MOBILE_COUNTRIES). */
const GEOGRAPHIC_MOBILE: ReadonlySet<string> = new Set(['52', '54', '55', '62', '86'])
const ARGENTINA = '54'
const ARGENTINE_MOBILE_TOKEN = '9'

/**
 * What the world's numbering plans say about a number, without asking anyone: whether its range
 * is assigned, its type, the holder of the range, the place and time zone it was assigned for.
 * Portings and network codes are not in the plans, so `mcc`, `mnc` and `ported` stay blank.
 */
export function createNumberingPlanProvider (ranges: RangeData): Provider {
  const shared = createSharing()
  return {
    id: 1,
    asksNobody: true,
    services: ['phone-validation', 'carrier-lookup', 'carrier-single'],
    check: async (rows) => rows.map(({ row, canonical }) =>
      ({ row, verdict: shared(rangeOf(canonical, ranges)) })),
  }
}

/** The range of an assigned number. */
type Range = {
  readonly type: AssignedType
  readonly place: Place
  readonly carrier: string
  readonly timezone: string
}

/** More different verdicts than this are forgotten; there are as many as places and carriers. */
const MOST_SHARED = 10_000

/** Gives equal verdicts as one object, for whoever writes them down to do so once for all rows. */
function createSharing (): (range: Range | undefined) => ProviderVerdict {
  const known = new Map<AssignedType, Map<string, Map<string, Map<Place, ProviderVerdict>>>>()
  let verdicts = 0
  return (range) => {
    if (range === undefined) return UNASSIGNED
    const { type, place, carrier, timezone } = range
    const alike = branch(branch(branch(known, type), timezone), carrier)
    const found = alike.get(place)
    if (found !== undefined) return found
    const verdict = verdictFor(range)
    alike.set(place, verdict)
    if (++verdicts === MOST_SHARED) {
      known.clear()
      verdicts = 0
    }
    return verdict
  }
}

function branch<K, L, V> (tree: Map<K, Map<L, V>>, key: K): Map<L, V> {
  const found = tree.get(key)
  if (found !== undefined) return found
  const made = new Map<L, V>()
  tree.set(key, made)
  return made
}

/** The verdict for one E.164 number. */
export function verdictOf (e164: string, ranges: RangeData): ProviderVerdict {
  const range = rangeOf(e164, ranges)
  return range === undefined ? UNASSIGNED : verdictFor(range)
}

const UNASSIGNED: ProviderVerdict = {
  status: 'invalid',
  reason: 'unassigned_range',
  confidence: CONFIDENCE.unassigned,
  fields: { line_type: 'unknown' },
}

function verdictFor ({ type, place, carrier, timezone }: Range): ProviderVerdict {
  const fields: Record<string, string> = { line_type: LINE_TYPE_OF[type] }
  put(fields, 'carrier', carrier)
  put(fields, 'region', place.region)
  put(fields, 'locality', place.locality)
  put(fields, 'timezone', timezone)
  return {
    status: 'valid', reason: 'assigned_range', confidence: CONFIDENCE.assigned, fields,
  }
}

/** Undefined where no range is assigned. */
function rangeOf (e164: string, ranges: RangeData): Range | undefined {
  const number = describePhone(e164)
  // With the full metadata a number is valid exactly if it has a type, so one call decides both.
  const type = number && typeOf(number)
  if (number === undefined || type === undefined) return undefined
  const { callingCode, national } = number
  const carrier = CARRIER_TYPES.has(type) ? ranges.carrierOf(number) : ''
  if (!isGeographic(type, callingCode)) {
    return { type, place: NOWHERE, carrier, timezone: ranges.timezoneOf(callingCode) }
  }
  const area = withoutMobileToken(type, callingCode, national)
  const place = ranges.placeOf({ callingCode, national: area })
  return { type, place, carrier, timezone: ranges.timezoneOf(callingCode + national) }
}

/**
 * Where a plan has no mobile range at all the library answers `FIXED_LINE_OR_MOBILE`; Google says
 * `FIXED_LINE`. Tristan da Cunha is the one such country.
 */
function typeOf ({ country, type }: PhoneDescription): AssignedType | undefined {
  return type === 'FIXED_LINE_OR_MOBILE' && country === 'TA' ? 'FIXED_LINE' : type
}

/** Only such numbers say where their subscriber is; a mobile prefix elsewhere does not. */
function isGeographic (type: AssignedType, callingCode: string): boolean {
  if (type === 'FIXED_LINE' || type === 'FIXED_LINE_OR_MOBILE') return true
  return type === 'MOBILE' && GEOGRAPHIC_MOBILE.has(callingCode)
}

/** Argentine mobile numbers carry a 9 before the area code that the place data does not have. */
function withoutMobileToken (type: AssignedType, callingCode: string, national: string): string {
  const hasToken = type === 'MOBILE' && callingCode === ARGENTINA &&
    national.startsWith(ARGENTINE_MOBILE_TOKEN)
  return hasToken ? national.slice(1) : national
}

function put (fields: Record<string, string>, column: string, value: string): void {
  if (value !== '') fields[column] = value
}
