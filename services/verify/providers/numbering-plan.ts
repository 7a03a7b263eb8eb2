import { describePhone, type PhoneDescription } from '../../records/numbering/describe.ts'
import type { AssignedType } from '../../records/numbering/library.ts'
import type { LineType } from '../../records/record.ts'
import type { Provider, ProviderVerdict } from '../provider.ts'
import type { RangeData } from './range-data.ts'

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
      ({ row, verdict: shared(verdictOf(canonical, ranges)) })),
  }
}

/** More different verdicts than this are forgotten; there are as many as places and carriers. */
const MOST_SHARED = 10_000

/** Gives equal verdicts as one object, for whoever writes them down to do so once for all rows. */
function createSharing (): (verdict: ProviderVerdict) => ProviderVerdict {
  const known = new Map<string, ProviderVerdict>()
  return (verdict) => {
    if (verdict === UNASSIGNED) return verdict
    const { line_type: type, carrier = '', region = '', locality = '', timezone } = verdict.fields
    const name = `${type}\n${carrier}\n${region}\n${locality}\n${timezone}`
    const found = known.get(name)
    if (found !== undefined) return found
    if (known.size >= MOST_SHARED) known.clear()
    known.set(name, verdict)
    return verdict
  }
}

/** The verdict for one E.164 number. */
export function verdictOf (e164: string, ranges: RangeData): ProviderVerdict {
  const number = describePhone(e164)
  // With the full metadata a number is valid exactly if it has a type, so one call decides both.
  const type = number && typeOf(number)
  if (number === undefined || type === undefined) return UNASSIGNED
  return {
    status: 'valid',
    reason: 'assigned_range',
    confidence: CONFIDENCE.assigned,
    fields: fieldsOf(number, type, ranges),
  }
}

const UNASSIGNED: ProviderVerdict = {
  status: 'invalid',
  reason: 'unassigned_range',
  confidence: CONFIDENCE.unassigned,
  fields: { line_type: 'unknown' },
}

function fieldsOf (
  { callingCode, national }: PhoneDescription, type: AssignedType, ranges: RangeData
): Record<string, string> {
  const geographic = isGeographic(type, callingCode)
  const fields: Record<string, string> = { line_type: LINE_TYPE_OF[type] }
  if (CARRIER_TYPES.has(type)) put(fields, 'carrier', ranges.carrierOf({ callingCode, national }))
  if (geographic) {
    const area = withoutMobileToken(type, callingCode, national)
    const place = ranges.placeOf({ callingCode, national: area })
    put(fields, 'region', place.region)
    put(fields, 'locality', place.locality)
  }
  put(fields, 'timezone', ranges.timezoneOf(geographic ? callingCode + national : callingCode))
  return fields
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
