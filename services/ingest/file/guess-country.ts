import { COUNTRY_CODES } from '../../../schemas/api/country.ts'
import { readCell } from '../../phone/cell.ts'
import { isAssigned, type SplitNumber } from '../../phone/dial.ts'
import { parsePhone } from '../../phone/parse.ts'
import { matchCountry } from '../../phone/plans.ts'

/** Phone numbers that only their country completes, and the country that fits them best. */
export type NationalNumbers = {
  readonly count: number
  /** ISO 3166; undefined if no plan fits most of them. */
  readonly country: string | undefined
  /** The share of the numbers that are assigned in that country, from 0 to 1. */
  readonly share: number
}

/** Numbers whose plan is tried in every country, and in those that fit best. */
const FIRST_SAMPLE = 24
const SAMPLE = 120
const MIN_SHARE = 0.6
/** Of the best share: countries with less are no candidates. */
const NEAR = 0.8
/** Numbers that show how many of all numbers a plan has. */
const PROBES = 50
const CELLS_PER_STEP = 50
/** A longer cell has more than a number, and would take long in every country. */
const MAX_CELL_CHARACTERS = 40

/**
 * Finds the numbers without a country code among cells that look like phone numbers, and their
 * country by numbering plan: that of most numbers with a country code, if most others are assigned
 * there too; else the one that has the most of them, or of several the one whose plan has the
 * fewest numbers beside. Awaits `pause` between steps of a few milliseconds.
 */
export async function findNationalNumbers (
  cells: readonly string[], pause: () => Promise<void>
): Promise<NationalNumbers> {
  const national: string[] = []
  const international = new Map<string, number>()
  for (const [index, cell] of cells.entries()) {
    if (index % CELLS_PER_STEP === 0) await pause()
    const number = readNumber(cell, undefined)
    if (isAssigned(number)) {
      const country = countryOf(number) ?? ''
      international.set(country, (international.get(country) ?? 0) + 1)
    } else if (!cell.includes('+')) national.push(cell)
  }
  const count = national.length
  if (count === 0) return { count, country: undefined, share: 0 }
  const sample = spread(national.filter(cell => cell.length <= MAX_CELL_CHARACTERS), SAMPLE)
  if (sample.length === 0) return { count, country: undefined, share: 0 }
  const [[usual] = ['']] = [...international].toSorted(([, one], [, other]) => other - one)
  const [share = 0] = (await shares([usual], sample, pause)).values()
  if (share >= MIN_SHARE) return { count, country: usual, share }
  return { count, ...await findBest(sample, pause) }
}

/** The country whose plan fits numbers best; the share is 0 without one. */
async function findBest (
  sample: readonly string[], pause: () => Promise<void>
): Promise<Pick<NationalNumbers, 'country' | 'share'>> {
  const first = nearest(await shares(COUNTRY_CODES, spread(sample, FIRST_SAMPLE), pause))
  const shareByCountry = await shares(first, sample, pause)
  const evidence = new Map<string, number>()
  for (const country of nearest(shareByCountry)) {
    await pause()
    evidence.set(country, evidenceFor(country, spread(sample, PROBES)))
  }
  const [[country] = ['']] = [...evidence].toSorted(([, one], [, other]) => other - one)
  const share = shareByCountry.get(country) ?? 0
  return { country: share >= MIN_SHARE ? country : undefined, share }
}

/** At most so many items, evenly spread. */
function spread (items: readonly string[], most: number): readonly string[] {
  if (items.length <= most) return items
  return Array.from({ length: most }, (_, at) =>
    items[Math.floor(at * items.length / most)] as string)
}

/** The share of numbers that each country has. */
async function shares (
  countries: readonly string[], numbers: readonly string[], pause: () => Promise<void>
): Promise<ReadonlyMap<string, number>> {
  const shareByCountry = new Map<string, number>()
  for (const country of countries) {
    await pause()
    const matching = numbers.filter(number => isOf(number, country))
    shareByCountry.set(country, matching.length / numbers.length)
  }
  return shareByCountry
}

function nearest (shareByCountry: ReadonlyMap<string, number>): readonly string[] {
  const best = Math.max(...shareByCountry.values())
  if (best === 0) return []
  return [...shareByCountry].flatMap(([country, share]) => share >= NEAR * best ? [country] : [])
}

/** The number that a cell has for somebody in a country; undefined if it has none. */
function readNumber (cell: string, country: string | undefined): SplitNumber | undefined {
  const usual = parsePhone(cell, country)
  if (usual !== undefined) return usual
  const reading = readCell(cell, country)
  return 'fault' in reading ? undefined : reading.number
}

function countryOf ({ callingCode, national }: SplitNumber): string | undefined {
  return matchCountry(callingCode, national).country
}

/** Whether a cell is an assigned number of a country for somebody who dials it there. */
function isOf (cell: string, country: string): boolean {
  const number = readNumber(cell, country)
  return number !== undefined && isAssigned(number) && countryOf(number) === country
}

/** What a number that a country does not have counts, beside at most 2.3 for one that it has. */
const MISS = 2
/** Other numbers that are tried for each number. */
const CHANGES = 9

/**
 * How unlikely it is that numbers are of a country by chance: fewer of the numbers with other
 * digits in some places are, the fewer numbers its plan has.
 */
function evidenceFor (country: string, sample: readonly string[]): number {
  let sum = 0
  for (const cell of sample) {
    if (!isOf(cell, country)) {
      sum -= MISS
      continue
    }
    let kept = 0
    for (let shift = 1; shift <= CHANGES; shift++) {
      let place = shift
      // Zeros stay, since they are prefixes.
      const changed = cell.replaceAll(/\d/g, digit => {
        place += 1
        return place % 3 === 0 && digit !== '0' ? String((Number(digit) + shift) % 10) : digit
      })
      if (isOf(changed, country)) kept += 1
    }
    sum += Math.log((1 + CHANGES) / (1 + kept))
  }
  return sum
}
