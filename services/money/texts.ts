import type { Journal } from '../../schemas/types.ts'

const DECIMALS = 6

/**
 * Converts a decimal text in USD such as `12.50` to micros exactly, without floating point.
 * @throws RangeError unless the amount is positive and has at most six decimals.
 */
export function usdToMicros (text: string): number {
  const match = /^(\d{1,9})(?:\.(\d{1,6}))?$/.exec(text)
  if (match === null) {
    throw new RangeError(`invalid amount in USD: "${text}". Write it like 25 or 12.50, with at ` +
      'most six decimals.')
  }
  const [, whole = '', fraction = ''] = match
  return microsOf(whole + fraction.padEnd(DECIMALS, '0'))
}

/** USD micros from digits; throws RangeError unless they are a whole number above 0. */
export function microsOf (text: string): number {
  const micros = Number(text)
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(micros) || micros === 0) {
    throw new RangeError(`invalid amount in micros: "${text}". Write a whole number above 0; ` +
      '1 USD is 1000000.')
  }
  return micros
}

/** Micros as USD with all six decimals: `12.500000`. */
export function usdOf (micros: number): string {
  const digits = String(Math.abs(micros)).padStart(DECIMALS + 1, '0')
  const at = digits.length - DECIMALS
  return `${micros < 0 ? '-' : ''}${digits.slice(0, at)}.${digits.slice(at)}`
}

/** What an operator writes with a top-up or an adjustment. */
type MovementTexts = {
  /** For operators only. */
  readonly reason: string
  /** For the customer. */
  readonly note?: string | undefined
}

/** How JSON of both begins; a reason that begins so is written as JSON, too. */
const BOTH = '{"reason":'

/** Both texts as the `reason` of a journal entry: the reason, or with a note JSON of both. */
export function writeTexts ({ reason, note = '' }: MovementTexts): string {
  return note === '' && !reason.startsWith(BOTH) ? reason : JSON.stringify({ reason, note })
}

/** The text for the customer in a journal entry; '' if there is none. */
export function readNote ({ type, reason }: Pick<Journal, 'type' | 'reason'>): string {
  if ((type !== 'topup' && type !== 'adjust') || !reason.startsWith(BOTH)) return ''
  const { note } = JSON.parse(reason) as { readonly note: string }
  return note
}
