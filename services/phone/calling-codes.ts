import { countriesOf, isKnownCountry, type AssignedType } from './library.ts'
import { compilePlan, assignedTypeOf, type Plan } from './plan.ts'

/** The countries that share a calling code; most codes have one, global services have none. */
export type CallingCode = {
  readonly digits: string
  /** The plan of the main country, which has the formats of all of them. */
  readonly main: Plan
  readonly countries: readonly Plan[]
}

/** The country and plan of a number. `type` is known if it was needed to find the country. */
export type CountryMatch = {
  readonly country: string | undefined
  readonly plan: Plan
  readonly type: AssignedType | undefined | 'not_looked_up'
}

const MAX_CODE_DIGITS = 3
const ZERO = '0'.charCodeAt(0)

/** By the value of the digits; null if the library has no such code. */
const callingCodes = new Array<CallingCode | null | undefined>(10 ** MAX_CODE_DIGITS)
const countryPlans = new Map<string, Plan>()

/**
 * The calling code at `start` of the digits of an international number; undefined if there is none.
 * No calling code is a prefix of another one, and none starts with 0.
 */
export function callingCodeAt (digits: string, start: number): CallingCode | undefined {
  const end = Math.min(start + MAX_CODE_DIGITS, digits.length)
  let value = 0
  for (let index = start; index < end; index++) {
    value = value * 10 + digits.charCodeAt(index) - ZERO
    if (value === 0) return undefined
    const known = callingCodes[value]
    const found = known === undefined ? lookUp(value) : known
    if (found !== null) return found
  }
  return undefined
}

/** The plan of a country (ISO 3166, upper case), undefined if the library has none. */
export function planOfCountry (country: string): Plan | undefined {
  const known = countryPlans.get(country)
  if (known !== undefined || !isKnownCountry(country)) return known
  const plan = compilePlan(country)
  countryPlans.set(country, plan)
  return plan
}

/** The countries of the calling code of a plan. */
export function callingCodeOf (plan: Plan): CallingCode {
  const found = callingCodeAt(plan.callingCode, 0)
  if (found === undefined) throw new Error(`the library has no calling code ${plan.callingCode}`)
  return found
}

/**
 * The country of a national number, by the rules of the library: the only country of the calling
 * code, or the first whose leading digits match or, without leading digits, that has a type for the
 * number. Otherwise the main plan applies.
 */
export function matchCountry (callingCode: CallingCode, national: string): CountryMatch {
  const { main, countries } = callingCode
  if (countries.length < 2) {
    return { country: main.country, plan: main, type: 'not_looked_up' }
  }
  for (const plan of countries) {
    const { country, leadingDigits } = plan
    if (leadingDigits !== undefined) {
      if (leadingDigits.test(national)) return { country, plan, type: 'not_looked_up' }
      continue
    }
    const type = assignedTypeOf(plan, national)
    if (type !== undefined) return { country, plan, type }
  }
  return { country: undefined, plan: main, type: 'not_looked_up' }
}

function lookUp (value: number): CallingCode | null {
  const digits = String(value)
  const countries = countriesOf(digits)
  const found = countries === undefined ? null : read(digits, countries)
  callingCodes[value] = found
  return found
}

function read (digits: string, countries: readonly string[]): CallingCode {
  const plans = countries.map(country => planOfCountry(country))
    .filter(plan => plan !== undefined)
  return { digits, main: plans[0] ?? compilePlan(digits), countries: plans }
}
