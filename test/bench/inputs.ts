import examples from 'libphonenumber-js/examples.mobile.json'
import { getExampleNumber, type CountryCode, type PhoneNumber } from 'libphonenumber-js/max'

const COUNTRIES = [
  'US', 'GB', 'DE', 'FR', 'IN', 'BR', 'AU', 'ES', 'IT', 'JP', 'MX', 'ZA',
] as const satisfies readonly CountryCode[]

/** Creates a generator of pseudorandom numbers in [0, 1) that depend on the seed (mulberry32). */
export function seededRandom (seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6D2B79F5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

const countryOf = (serial: number) => COUNTRIES[serial % COUNTRIES.length] ?? 'US'

function numberOf (country: CountryCode, serial: number): PhoneNumber {
  const example = getExampleNumber(country, examples)
  if (example === undefined) throw new Error(`no example number for ${country}`)
  const tail = String(serial).padStart(6, '0').slice(-6)
  example.nationalNumber = `${example.nationalNumber.slice(0, -6)}${tail}` as never
  example.number = `+${example.countryCallingCode}${example.nationalNumber}` as never
  return example
}

/** A mobile number in E.164 form; serial numbers below three million give different ones. */
export function mobileNumber (serial: number): string {
  return numberOf(countryOf(serial), serial).number
}

/** Chooses one of several formats by a random number. */
function formatted (number: PhoneNumber, choice: number): string {
  if (choice < 0.4) return number.number
  if (choice < 0.65) return number.formatInternational()
  if (choice < 0.8 || number.country !== 'US') {
    return number.formatInternational().replaceAll(' ', '-')
  }
  return number.formatNational()
}

/**
 * Generates phone numbers like those of customers: 12 countries, 40 % E.164, the rest in other
 * formats, 5 % not numbers, 5 % duplicates of an earlier number in another format. Calls with
 * disjoint serial numbers share no phone number. National formats are of the US.
 */
export function mixedPhones (rows: number, firstSerial = 0): readonly string[] {
  const random = seededRandom(20_261_121 + firstSerial)
  const inputs: string[] = []
  for (let row = 0; row < rows; row++) {
    const kind = random()
    const isDuplicate = kind >= 0.05 && kind < 0.10 && row > 0
    const serial = firstSerial + (isDuplicate ? Math.floor(random() * row) : row)
    const number = numberOf(countryOf(serial), serial)
    inputs.push(kind < 0.05 ? `call me ${serial}` : formatted(number, random()))
  }
  return inputs
}
