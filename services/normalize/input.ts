import type { PreflightReason } from '../../schemas/api/verdicts.ts'

/** The canonical form of a contact, or why there is none. */
export type Canonical =
  | { readonly ok: true, readonly canonical: string }
  | { readonly ok: false, readonly reason: PreflightReason }

/** A longer input is an invalid row, which is free; counted in characters, not in bytes. */
export const MAX_CONTACT_CHARACTERS = 320

const PRINTABLE_ASCII = /^[ -~]+$/
// eslint-disable-next-line no-control-regex -- control characters are what is looked for
const CONTROL_CHARACTER = /[\u0000-\u001f\u007f-\u009f]/

/** The result for an invalid row. */
export function invalid (reason: PreflightReason): Canonical {
  return { ok: false, reason }
}

/**
 * Checks an input before it is parsed as a phone number or an e-mail address. Returns undefined if
 * it is fine. `trimmed` is the input without outer white space, so a trailing line break is
 * accepted.
 */
export function inputFault (trimmed: string): PreflightReason | undefined {
  if (trimmed === '') return 'empty'
  if (isTooLong(trimmed)) return 'too_long_input'
  if (PRINTABLE_ASCII.test(trimmed)) return undefined
  if (CONTROL_CHARACTER.test(trimmed)) return 'control_character'
  if (!trimmed.isWellFormed()) return 'malformed_unicode'
  return undefined
}

/** Whether a text exceeds the maximum length of an input. */
export function isTooLong (text: string): boolean {
  if (text.length <= MAX_CONTACT_CHARACTERS) return false
  // A character outside the basic plane has two code units; only code points are counted.
  return text.length > 2 * MAX_CONTACT_CHARACTERS || [...text].length > MAX_CONTACT_CHARACTERS
}
