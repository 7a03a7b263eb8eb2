import Type from 'typebox'
import type { Journal } from '../../schemas/types.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../topology.ts'

export type Prices = Readonly<Record<ServiceSlug, number>>

/** Default prices of one live check, in USD micros. */
const DEFAULT_PRICES_MICROS: Prices = {
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
export const MAX_PRICE_MICROS = 1_000_000_000

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

export const unitPricesConfig = {
  PRICES: Type.String({
    default: '',
    description: 'Unit prices in micros that differ from the defaults: JSON, service to micros.',
    examples: ['{"whatsapp":3500}'],
  }),
}

/**
 * Unit prices in micros: the defaults, overridden by `override`, the JSON text of the setting
 * PRICES, for example `{"whatsapp": 3500}`.
 * @throws RangeError or SyntaxError, with what to write instead.
 */
export function readPrices (override = ''): Prices {
  if (override === '') return DEFAULT_PRICES_MICROS
  const overrides: unknown = JSON.parse(override)
  if (typeof overrides !== 'object' || overrides === null || Array.isArray(overrides)) {
    throw new RangeError('PRICES must be a JSON object of service to micros: {"whatsapp":3500}')
  }
  const checked = Object.entries(overrides)
    .map(([service, price]) => [service, checkPrice(service, price)])
  return { ...DEFAULT_PRICES_MICROS, ...Object.fromEntries(checked) }
}

/** Price of one live check in micros; 0 in test mode. */
export function unitPriceMicros (
  prices: Prices, service: ServiceSlug, mode: 'live' | 'test'
): number {
  return mode === 'test' ? 0 : prices[service]
}

/**
 * The guaranteed maximum price of a job in micros: unit price x (fresh checks + cache hits). Hits
 * count because an entry may leave the cache between quote and use; duplicates and invalid rows
 * never count.
 * @throws RangeError when a factor is not an integer from 0, or the product is above the maximum of
 *   a wallet.
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
  if (product > MAX_AMOUNT_MICROS) {
    throw new RangeError(`the quote of ${product} micros exceeds the maximum of a wallet`)
  }
  return Number(product)
}

/** As in wallet.lua: at most 15 digits, so that the doubles of Lua hold amounts exactly. */
export const MAX_AMOUNT_MICROS = 999_999_999_999_999

/** The four amounts of a wallet, in USD micros. */
export type Amounts = {
  readonly availableMicros: number
  readonly reservedMicros: number
  readonly chargedMicros: number
  readonly fundedMicros: number
}

export const AMOUNTS = [
  'availableMicros', 'reservedMicros', 'chargedMicros', 'fundedMicros',
] as const satisfies readonly (keyof Amounts)[]

/** The amounts of a new wallet. */
export const ZERO_AMOUNTS: Amounts = {
  availableMicros: 0, reservedMicros: 0, chargedMicros: 0, fundedMicros: 0,
}

/** The amounts after a movement. */
export function post (
  amounts: Amounts,
  { type, amountMicros, chargeMicros }: Pick<Journal, 'type' | 'amountMicros' | 'chargeMicros'>
): Amounts {
  const { availableMicros, reservedMicros, chargedMicros, fundedMicros } = amounts
  switch (type) {
    case 'topup':
    case 'adjust':
      return {
        ...amounts,
        availableMicros: availableMicros + amountMicros,
        fundedMicros: fundedMicros + amountMicros,
      }
    case 'reserve':
      return {
        ...amounts,
        availableMicros: availableMicros - amountMicros,
        reservedMicros: reservedMicros + amountMicros,
      }
    default:
      return {
        ...amounts,
        availableMicros: availableMicros + amountMicros - chargeMicros,
        reservedMicros: reservedMicros - amountMicros,
        chargedMicros: chargedMicros + chargeMicros,
      }
  }
}

/** The amounts less others. */
export function subtract (amounts: Amounts, taken: Amounts): Amounts {
  const differences = AMOUNTS.map(name => [name, amounts[name] - taken[name]])
  return Object.fromEntries(differences) as Amounts
}

/** Whether all four amounts are equal. */
export function areEqual (one: Amounts, other: Amounts): boolean {
  return AMOUNTS.every(name => one[name] === other[name])
}

/** The amounts as text, for reasons and logs. */
export function formatAmounts (amounts: Amounts): string {
  return AMOUNTS.map(name => `${name} ${amounts[name]}`).join(', ')
}

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
  const micros = Number(whole + fraction.padEnd(DECIMALS, '0'))
  if (micros === 0) {
    throw new RangeError(`invalid amount in USD: "${text}". It must be more than 0.`)
  }
  return micros
}

/**
 * USD micros from digits, which may have a minus where that is allowed.
 * @throws RangeError unless they are a whole number other than 0 that a balance can hold.
 */
export function parseMicros (text: string, sign: 'positive' | 'signed' = 'positive'): number {
  const micros = Number(text)
  const isWhole = (sign === 'signed' ? /^-?\d+$/ : /^\d+$/).test(text)
  if (!isWhole || micros === 0 || Math.abs(micros) > MAX_AMOUNT_MICROS) {
    throw new RangeError(`invalid amount in micros: "${text}". Write a whole number ` +
      `${sign === 'signed' ? 'other than' : 'above'} 0, at most ${MAX_AMOUNT_MICROS}; 1 USD is ` +
      '1000000.')
  }
  return micros
}

/** Micros as USD with all six decimals: `12.500000`. */
export function formatUsd (micros: number): string {
  const digits = String(Math.abs(micros)).padStart(DECIMALS + 1, '0')
  const at = digits.length - DECIMALS
  return `${micros < 0 ? '-' : ''}${digits.slice(0, at)}.${digits.slice(at)}`
}
