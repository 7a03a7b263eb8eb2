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
