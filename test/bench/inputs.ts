import examples from 'libphonenumber-js/examples.mobile.json'
import { getExampleNumber, type CountryCode, type PhoneNumber } from 'libphonenumber-js/max'

const COUNTRIES = [
  'US', 'GB', 'DE', 'FR', 'IN', 'BR', 'AU', 'ES', 'IT', 'JP', 'MX', 'ZA',
] as const satisfies readonly CountryCode[]

/** Numbers from 0 to below 1, the same for the same seed (mulberry32). */
export function seededRandom (seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6D2B79F5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

function numberOf (country: CountryCode, serial: number): PhoneNumber {
  const example = getExampleNumber(country, examples)
  if (example === undefined) throw new Error(`no example number of ${country}`)
  const tail = String(serial).padStart(6, '0').slice(-6)
  example.nationalNumber = `${example.nationalNumber.slice(0, -6)}${tail}` as never
  example.number = `+${example.countryCallingCode}${example.nationalNumber}` as never
  return example
}

function written (number: PhoneNumber, how: number): string {
  if (how < 0.4) return number.number
  if (how < 0.65) return number.formatInternational()
  if (how < 0.8 || number.country !== 'US') return number.formatInternational().replaceAll(' ', '-')
  return number.formatNational()
}

/**
 * Phone numbers as customers send them: 12 countries, 40 % E.164, the rest written for people,
 * 5 % that are none, 5 % that repeat an earlier number in another format. `from` moves the serial
 * numbers, so that two calls need not share a number. Country of national numbers: US.
 */
export function mixedPhones (rows: number, from = 0): readonly string[] {
  const random = seededRandom(20_261_121 + from)
  const inputs: string[] = []
  for (let row = 0; row < rows; row++) {
    const kind = random()
    const repeated = kind >= 0.05 && kind < 0.10 && row > 0
    const serial = from + (repeated ? Math.floor(random() * row) : row)
    const number = numberOf(COUNTRIES[serial % COUNTRIES.length] ?? 'US', serial)
    inputs.push(kind < 0.05 ? `call me ${serial}` : written(number, random()))
  }
  return inputs
}
