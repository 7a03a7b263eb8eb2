import {
  ParseError, parsePhoneNumberWithError, type CountryCode, type PhoneNumber, Metadata,
  type NumberingPlan,
} from 'libphonenumber-js/max'
import { parsePhone } from '../phone/parse.ts'
import type { PreflightReason } from '../../schemas/api/verdicts.ts'
import { inputFault, invalid, isTooLong, type Canonical } from './input.ts'

const ASCII_ONLY = /^[ -~]*$/
/** Invisible characters: bidirectional controls, zero-width characters, soft hyphens. */
const INVISIBLE = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu
/** Parsing a parsed number again is stable after one or two passes; more would be a loop. */
const MAX_PASSES = 4

/**
 * The E.164 form of a phone number, or why there is none.
 *
 * `country` (ISO 3166, upper case) is used for numbers that are not in international format, and
 * for its international prefix (`011` in the US, `00` in Germany). A number is invalid only if it
 * cannot be parsed or has an impossible length for its calling code: whether its range is assigned
 * is decided by a provider. Extensions are dropped, letters (1-800-FLOWERS) are not dialed. The
 * rules are those of Google's libphonenumber. Never throws; canonical forms map to themselves.
 */
export function canonicalPhone (input: string, country: string | undefined): Canonical {
  const number = parsePhone(input, country)
  if (number === undefined) return canonicalByLibrary(input, country)
  const { callingCode: { digits }, national } = number
  const fault = lengthFault(digits, national.length)
  return fault === undefined ? { ok: true, canonical: `+${digits}${national}` } : invalid(fault)
}

/**
 * The same as `canonicalPhone`, by the library only: for inputs in uncommon formats, for the
 * reasons of invalid inputs, and for comparison. Never throws.
 */
export function canonicalByLibrary (input: string, country: string | undefined): Canonical {
  const trimmed = input.trim()
  // Before the expansion of compatibility characters: one character can become eighteen.
  if (isTooLong(trimmed)) return invalid('too_long_input')
  const text = visible(trimmed)
  const fault = inputFault(text)
  if (fault !== undefined) return invalid(fault)
  const parsed = parse(text, country)
  return typeof parsed === 'string' ? invalid(parsed) : stableForm(parsed)
}

/** Replaces compatibility characters (full-width digits and signs) and removes invisible ones. */
function visible (text: string): string {
  if (ASCII_ONLY.test(text)) return text
  return text.normalize('NFKC').replace(INVISIBLE, '').trim()
}

function parse (text: string, country: string | undefined): PhoneNumber | PreflightReason {
  try {
    return parsePhoneNumberWithError(text, country as CountryCode | undefined)
  } catch (error) {
    if (error instanceof ParseError) return reasonOf(error.message, text)
    throw error
  }
}

function reasonOf (message: string, text: string): PreflightReason {
  switch (message) {
    case 'TOO_SHORT': return 'too_short'
    case 'TOO_LONG': return 'too_long'
    case 'INVALID_COUNTRY': return text.includes('+') ? 'unknown_calling_code' : 'no_calling_code'
    default: return 'not_a_phone_number'
  }
}

/**
 * Parses the number until it is stable. The library removes anything that may be a national prefix,
 * so for some unassigned numbers its result parses to another number, but equal contacts must have
 * one canonical form. Nearly all numbers are recognized as stable without parsing.
 */
function stableForm (first: PhoneNumber): Canonical {
  let number = first
  for (let pass = 0; pass < MAX_PASSES; pass++) {
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

type Plan = { readonly lengths: ReadonlySet<number>, readonly nationalPrefix: RegExp | undefined }

/** The library has this method but does not declare it. */
type PrefixedPlan = NumberingPlan & { nationalPrefixForParsing: () => string | undefined }

const plans = new Map<string, Plan>()

/**
 * Why a national number with this number of digits is impossible for a calling code, or undefined.
 * Uses the plan of the main country of the calling code, as Google's libphonenumber does, so the
 * result depends on the canonical form alone, not on the country of the job.
 */
export function lengthFault (callingCode: string, digits: number): PreflightReason | undefined {
  const { lengths } = planOf(callingCode)
  if (lengths.has(digits)) return undefined
  if (digits < Math.min(...lengths)) return 'too_short'
  return digits > Math.max(...lengths) ? 'too_long' : 'impossible_length'
}

/** Whether an international number starts with a possible national prefix of its plan. */
export function mayParseDifferently (callingCode: string, nationalNumber: string): boolean {
  return planOf(callingCode).nationalPrefix?.test(nationalNumber) ?? false
}

function planOf (callingCode: string): Plan {
  const known = plans.get(callingCode)
  if (known !== undefined) return known
  const plan = readPlan(callingCode)
  plans.set(callingCode, plan)
  return plan
}

function readPlan (callingCode: string): Plan {
  const metadata = new Metadata()
  // A calling code selects the plan of its main country; the declaration allows only countries.
  metadata.selectNumberingPlan(callingCode as CountryCode)
  const plan = metadata.numberingPlan as PrefixedPlan
  const prefix = plan.nationalPrefixForParsing()
  return {
    lengths: new Set(plan.possibleLengths()),
    nationalPrefix: prefix ? new RegExp(`^(?:${prefix})`) : undefined,
  }
}
