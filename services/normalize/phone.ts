import { readCell } from '../phone/cell.ts'
import { type SplitNumber, typeOfNumber } from '../phone/dial.ts'
import { parsePhone } from '../phone/parse.ts'
import { hasLength } from '../phone/plans.ts'
import type { PreflightReason } from '../../schemas/api/verdicts.ts'
import { inputFault, invalid, isTooLong, type Canonical } from './input.ts'

/** Bidirectional controls, zero-width characters, soft hyphens. */
const INVISIBLE = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu

/**
 * The E.164 form of a phone number, or why there is none.
 *
 * `country` (ISO 3166, upper case) is used for numbers that are not in international format, and
 * for its international prefix (`011` in the US, `00` in Germany). A number is invalid only if it
 * cannot be parsed, has an impossible length for its calling code, or if the cell may mean several:
 * whether its range is assigned is decided by a provider. The rules are those of Google's
 * libphonenumber, and of `readCell` for what people and spreadsheets write. Never throws; canonical
 * forms map to themselves.
 */
export function canonicalPhone (input: string, country: string | undefined): Canonical {
  const usual = parsePhone(input, country)
  if (usual !== undefined) return canonicalOf(usual)
  const trimmed = input.trim()
  // Before anything is expanded or searched.
  if (isTooLong(trimmed)) return invalid('too_long_input')
  const fault = inputFault(trimmed.replace(INVISIBLE, '').trim())
  if (fault !== undefined) return invalid(fault)
  const reading = readCell(trimmed, country)
  return 'fault' in reading ? invalid(reading.fault) : canonicalOf(reading.number)
}

function canonicalOf (number: SplitNumber): Canonical {
  const fault = lengthFault(number)
  if (fault !== undefined) return invalid(fault)
  return { ok: true, canonical: `+${number.callingCode.digits}${number.national}` }
}

/**
 * Why the number of digits is impossible, or undefined. Uses the plan of the main country of the
 * calling code, as Google's libphonenumber does, so the result depends on the canonical form alone,
 * not on the country of the job. Other countries of the calling code may have assigned numbers of
 * other lengths: 310-1234 in Canada.
 */
export function lengthFault (number: SplitNumber): PreflightReason | undefined {
  const { callingCode: { main: { lengths, maxLength } }, national: { length } } = number
  if (hasLength(lengths, length) || typeOfNumber(number) !== undefined) return undefined
  if (length > maxLength) return 'too_long'
  return lengths << (BITS - length) === 0 ? 'too_short' : 'impossible_length'
}

/** Of a set of lengths. */
const BITS = 32
