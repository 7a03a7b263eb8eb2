const DECIMALS = 6

/**
 * USD micros of a decimal text such as `12.50`, exactly: digits are moved, nothing is calculated in
 * floating point. Throws RangeError for anything but a positive amount of at most six decimals.
 */
export function usdToMicros (text: string): number {
  const match = /^(\d{1,9})(?:\.(\d{1,6}))?$/.exec(text)
  if (match === null) {
    throw new RangeError('Write an amount in USD like 25 or 12.50, up to six decimals.')
  }
  const [, whole = '', fraction = ''] = match
  return microsOf(whole + fraction.padEnd(DECIMALS, '0'))
}

/** USD micros of a whole number in digits; throws RangeError for anything else, and for 0. */
export function microsOf (text: string): number {
  const micros = Number(text)
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(micros) || micros === 0) {
    throw new RangeError('Write an amount in micros as a whole number above 0; 1 USD is 1000000.')
  }
  return micros
}

/** The USD of an amount in micros, with all six decimals, for people. */
export function usdOf (micros: number): string {
  const digits = String(Math.abs(micros)).padStart(DECIMALS + 1, '0')
  const at = digits.length - DECIMALS
  return `${micros < 0 ? '-' : ''}${digits.slice(0, at)}.${digits.slice(at)}`
}
