import { SERVICE_SLUGS } from '../topology.ts'
import type { ServiceSlug } from '../topology.ts'

export type Prices = Readonly<Record<ServiceSlug, number>>

/** Default prices of one live check, in USD micros. */
export const DEFAULT_PRICES_MICROS: Prices = {
  'phone-validation': 2_000,
  whatsapp: 4_000,
  telegram: 4_000,
  'carrier-single': 5_000,
  'carrier-lookup': 5_000,
  'email-validation': 2_000,
}

/**
 * 1,000 USD a row. Above it is a typing error; below it 100,000 rows stay far below 2^53 micros.
 */
const MAX_PRICE_MICROS = 1_000_000_000

const isSlug = (name: string): name is ServiceSlug =>
  (SERVICE_SLUGS as readonly string[]).includes(name)

const checkPrice = (service: string, price: unknown): number => {
  if (!isSlug(service)) {
    throw new RangeError(`PRICES: unknown service "${service}"; use ${SERVICE_SLUGS.join(', ')}`)
  }
  const isInteger = typeof price === 'number' && Number.isSafeInteger(price)
  if (!isInteger || price < 0 || price > MAX_PRICE_MICROS) {
    throw new RangeError(
      `PRICES: ${service} is ${JSON.stringify(price)}; use a whole number of micros from ` +
        `0 to ${MAX_PRICE_MICROS}`)
  }
  return price
}

/**
 * Unit prices in micros: the defaults, overridden by `override`, the JSON text of the setting
 * PRICES, for example `{"whatsapp": 3500}`.
 * @throws RangeError or SyntaxError, with what to write instead.
 */
export function readPrices (override = ''): Prices {
  if (override === '') return DEFAULT_PRICES_MICROS
  const given: unknown = JSON.parse(override)
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new RangeError('PRICES must be a JSON object of service to micros: {"whatsapp":3500}')
  }
  const checked = Object.entries(given)
    .map(([service, price]) => [service, checkPrice(service, price)])
  return { ...DEFAULT_PRICES_MICROS, ...Object.fromEntries(checked) }
}

/** Price of one live check in micros; 0 in test mode. */
export function unitPriceMicros (
  prices: Prices, service: ServiceSlug, mode: 'live' | 'test'
): number {
  return mode === 'test' ? 0 : prices[service]
}
