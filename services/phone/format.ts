import parsePhoneNumber from 'libphonenumber-js/max'
import { matchCountry } from './calling-codes.ts'
import { readE164 } from './describe.ts'
import { fillLayout, type FormatRule, type Layouts } from './layout.ts'
import type { SplitNumber } from './national.ts'

export type WrittenPhone = {
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
  return (number && written(number)) ?? writtenByLibrary(e164)
}

function written ({ callingCode, national }: SplitNumber): WrittenPhone | undefined {
  const { country, plan } = matchCountry(callingCode, national)
  if (plan.formats === undefined) return undefined
  const layouts = layoutsFor(plan.formats, national)
  if (layouts === undefined) {
    return { country, international: `+${callingCode.digits} ${national}`, national }
  }
  return {
    country,
    international: fillLayout(layouts.international, national),
    national: fillLayout(layouts.national, national),
  }
}

/** The first rule whose leading digits and length match, as in the library. */
function layoutsFor (formats: readonly FormatRule[], national: string): Layouts | undefined {
  for (const { layouts, leadingDigits } of formats) {
    const found = layouts[national.length]
    if (found !== undefined && (leadingDigits?.test(national) ?? true)) return found
  }
  return undefined
}

function writtenByLibrary (e164: string): WrittenPhone | undefined {
  const number = parsePhoneNumber(e164)
  return number && {
    country: number.country,
    international: number.formatInternational(),
    national: number.formatNational(),
  }
}
