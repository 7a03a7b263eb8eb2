import {
  ParseError, parsePhoneNumberWithError, type CountryCode, type PhoneNumber,
} from 'libphonenumber-js/max'
import { parsePhone } from '../phone/parse.ts'
import { inputFault, invalid, isTooLong, type Canonical, type InvalidReason } from './input.ts'
import { lengthFault, mayParseDifferently } from './numbering-plans.ts'

const ASCII_ONLY = /^[ -~]*$/
/** Marks that show nothing: bidirectional controls, zero-width characters, soft hyphens. */
const INVISIBLE = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu
/** Parsing a parsed number again settles at once or twice; more turns would be a loop. */
const MAX_TURNS = 4

/**
 * The E.164 form of a phone number as people write it, or why there is none.
 * `country` (ISO 3166, upper case) is used for numbers that are not in international format, and
 * for its international prefix (`011` in the US, `00` in Germany). A number is invalid only if it
 * can't be parsed or has an impossible length for its calling code: whether its range is assigned
 * is for a provider to say. An extension is left out, letters (1-800-FLOWERS) are not dialled.
 * Rules are those of Google's libphonenumber. Never throws; canonical forms map to themselves.
 */
export function canonicalPhone (input: string, country: string | undefined): Canonical {
  const number = parsePhone(input, country)
  if (number === undefined) return canonicalByLibrary(input, country)
  const { callingCode: { digits }, national } = number
  const fault = lengthFault(digits, national.length)
  return fault === undefined ? { ok: true, canonical: `+${digits}${national}` } : invalid(fault)
}

/**
 * The same as `canonicalPhone`, entirely by the library: for what is not written in one of the
 * common forms, for the reasons of what can't be parsed, and to compare with. Never throws.
 */
export function canonicalByLibrary (input: string, country: string | undefined): Canonical {
  const trimmed = input.trim()
  // Before compatibility forms are spelled out: one character can become eighteen.
  if (isTooLong(trimmed)) return invalid('too_long_input')
  const text = visible(trimmed)
  const fault = inputFault(text)
  if (fault !== undefined) return invalid(fault)
  const parsed = parse(text, country)
  return typeof parsed === 'string' ? invalid(parsed) : settled(parsed)
}

/** Compatibility forms (full-width digits and signs) as plain ones, invisible marks removed. */
function visible (text: string): string {
  if (ASCII_ONLY.test(text)) return text
  return text.normalize('NFKC').replace(INVISIBLE, '').trim()
}

function parse (text: string, country: string | undefined): PhoneNumber | InvalidReason {
  try {
    return parsePhoneNumberWithError(text, country as CountryCode | undefined)
  } catch (error) {
    if (error instanceof ParseError) return reasonOf(error.message, text)
    throw error
  }
}

function reasonOf (message: string, text: string): InvalidReason {
  switch (message) {
    case 'TOO_SHORT': return 'too_short'
    case 'TOO_LONG': return 'too_long'
    case 'INVALID_COUNTRY': return text.includes('+') ? 'unknown_calling_code' : 'no_calling_code'
    default: return 'not_a_phone_number'
  }
}

/**
 * The library takes a national prefix off wherever it may be one, so for some unassigned numbers
 * its answer parses to yet another number. Equal contacts must have one canonical form, hence the
 * number is parsed until it stays as it is; nearly all are recognized as settled without parsing.
 */
function settled (first: PhoneNumber): Canonical {
  let number = first
  for (let turn = 0; turn < MAX_TURNS; turn++) {
    const { countryCallingCode, nationalNumber } = number
    const again = mayParseDifferently(countryCallingCode, nationalNumber)
      ? parse(number.number, undefined)
      : number
    if (typeof again === 'string') return invalid(again)
    if (again.number === number.number) {
      const fault = lengthFault(countryCallingCode, nationalNumber.length)
      return fault === undefined ? { ok: true, canonical: number.number } : invalid(fault)
    }
    number = again
  }
  return invalid('not_a_phone_number')
}
