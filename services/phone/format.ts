import parsePhoneNumber from 'libphonenumber-js/max'
import { readInternational, type SplitNumber } from './dial.ts'
import type { AssignedType } from './library.ts'
import { fillLayout, matchCountry, ruleFor, typeOfMatch } from './plans.ts'

type WrittenPhone = {
  /** ISO 3166; undefined if the range of the number has no single country. */
  readonly country: string | undefined
  /** With the calling code: `+1 212 736 5000`. */
  readonly international: string
  /** As written in the country, with its national prefix: `(212) 736-5000`. */
  readonly national: string
}

/**
 * Formats an E.164 number, equal to `parsePhoneNumber(e164)` and its `country`,
 * `formatInternational()` and `formatNational()`. Undefined if the library cannot parse it.
 */
export function formatPhone (e164: string): WrittenPhone | undefined {
  const number = readE164(e164)
  const match = number && matchCountry(number.callingCode, number.national)
  if (number === undefined || match?.plan.formats === undefined) {
    const parsed = parsePhoneNumber(e164)
    return parsed && {
      country: parsed.country,
      international: parsed.formatInternational(),
      national: parsed.formatNational(),
    }
  }
  const { callingCode: { digits }, national } = number
  const layouts = ruleFor(match.plan.formats, national)?.layouts[national.length]
  return {
    country: match.country,
    international: layouts ? fillLayout(layouts.international, national) : `+${digits} ${national}`,
    national: layouts ? fillLayout(layouts.national, national) : national,
  }
}

export type PhoneDescription = {
  readonly callingCode: string
  readonly national: string
  /** ISO 3166; undefined if the range of the number has no single country. */
  readonly country: string | undefined
  /** Undefined if the number is not valid: its range is not assigned. */
  readonly type: AssignedType | undefined
}

/**
 * The description of an E.164 number by the numbering plans, equal to `parsePhoneNumber(e164)` and
 * its `country` and `getType()`. Undefined if the library cannot parse it.
 */
export function describePhone (e164: string): PhoneDescription | undefined {
  const number = readE164(e164)
  if (number === undefined) {
    const parsed = parsePhoneNumber(e164)
    return parsed && {
      callingCode: parsed.countryCallingCode,
      national: parsed.nationalNumber,
      country: parsed.country,
      type: parsed.getType(),
    }
  }
  const { callingCode, national } = number
  const match = matchCountry(callingCode, national)
  const type = typeOfMatch(match, national)
  return { callingCode: callingCode.digits, national, country: match.country, type }
}

/** Shorter and longer numbers are left to the library. */
const E164 = /^\+[1-9]\d{2,24}$/

/** An E.164 number split by its plan; undefined if the library has to parse it. */
function readE164 (e164: string): SplitNumber | undefined {
  return E164.test(e164) ? readInternational(e164, 1) : undefined
}
