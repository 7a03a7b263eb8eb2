/**
 * The guaranteed maximum price of a job in micros: unit price x (fresh checks + cache hits). Hits
 * are in it because a cache may forget between quote and use; duplicates and invalid rows never
 * are.
 * @throws RangeError when a part is no whole number from 0, or the product is not below 10^15, the
 *   largest amount the wallet takes.
 */
export function maxQuoteMicros (parts: {
  readonly freshChecks: number
  readonly cacheHits: number
  readonly unitPriceMicros: number
}): number {
  const { freshChecks, cacheHits, unitPriceMicros } = parts
  const whole = [freshChecks, cacheHits, unitPriceMicros].every((n) =>
    Number.isSafeInteger(n) && n >= 0)
  if (!whole) throw new RangeError('a quote is made of whole numbers from 0')
  const product = BigInt(freshChecks + cacheHits) * BigInt(unitPriceMicros)
  if (product >= MAX_AMOUNT) {
    throw new RangeError('the quote exceeds the largest amount of a wallet')
  }
  return Number(product)
}

/** Amounts have at most 15 digits, so that doubles inside Lua hold every one of them exactly. */
const MAX_AMOUNT = 10n ** 15n
