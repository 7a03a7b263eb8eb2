import parsePhoneNumber from 'libphonenumber-js/max'
import { homeOf } from './calling-codes.ts'
import { readE164 } from './describe.ts'
import { write, type FormatRule, type Layouts } from './layout.ts'
import type { SplitNumber } from './national.ts'

export type WrittenPhone = {
  /** ISO 3166; undefined if the number's range belongs to no single country. */
  readonly country: string | undefined
  /** As people write it, with the calling code: `+1 212 736 5000`. */
  readonly international: string
  /** As people in the country write it, with its national prefix: `(212) 736-5000`. */
  readonly national: string
}

/**
 * An E.164 number as people write it, the same as `parsePhoneNumber(e164)` and its `country`,
 * `formatInternational()` and `formatNational()`. Undefined if the library can't parse it.
 */
export function formatPhone (e164: string): WrittenPhone | undefined {
  const number = readE164(e164)
  return (number && written(number)) ?? writtenByLibrary(e164)
}

function written ({ callingCode, national }: SplitNumber): WrittenPhone | undefined {
  const { country, plan } = homeOf(callingCode, national)
  if (plan.formats === undefined) return undefined
  const layouts = layoutsFor(plan.formats, national)
  if (layouts === undefined) {
    return { country, international: `+${callingCode.digits} ${national}`, national }
  }
  return {
    country,
    international: write(layouts.international, national),
    national: write(layouts.national, national),
  }
}

/** The first rule whose leading digits and length fit, as in the library. */
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
