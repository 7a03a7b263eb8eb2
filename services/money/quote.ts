/**
 * The guaranteed maximum price of a job in micros: unit price x (fresh checks + cache hits). Hits
 * count because an entry may leave the cache between quote and use; duplicates and invalid rows
 * never count.
 * @throws RangeError when a factor is not an integer from 0, or the product is not below 10^15, the
 *   upper bound of a wallet.
 */
export function maxQuoteMicros (factors: {
  readonly freshChecks: number
  readonly cacheHits: number
  readonly unitPriceMicros: number
}): number {
  const { freshChecks, cacheHits, unitPriceMicros } = factors
  const areIntegers = [freshChecks, cacheHits, unitPriceMicros].every((n) =>
    Number.isSafeInteger(n) && n >= 0)
  if (!areIntegers) {
    throw new RangeError(`a quote needs integers from 0: ${JSON.stringify(factors)}`)
  }
  const product = BigInt(freshChecks + cacheHits) * BigInt(unitPriceMicros)
  if (product >= MAX_AMOUNT) {
    throw new RangeError(`the quote of ${product} micros exceeds the maximum of a wallet`)
  }
  return Number(product)
}

/** Amounts have at most 15 digits, so that the doubles of Lua hold them exactly. */
const MAX_AMOUNT = 10n ** 15n
