import { optionDate, optionName, type OptionPrices } from '../../services/jobs/options.ts'
import { rowFieldsOf } from '../../services/jobs/results/columns.ts'
import type { Chaos } from './chaos.ts'

/**
 * What operators sell beside the verdict, before and after they change their prices: a job keeps
 * the price that `lookup` had when it decided it, whatever process decides it again.
 */
export const PRICE_LISTS: readonly OptionPrices[] = [
  { line_status: 700, reassigned_number: 1_300 },
  { line_status: 900, reassigned_number: 400 },
]

/** Two jobs that choose other dates do not share what is about one of them. */
const CHOICES = [
  ['line_status'], ['reassigned_number:2026-01-31'], ['reassigned_number:2026-06-30'],
  ['line_status', 'reassigned_number:2026-01-31'],
]

/** The options of a job, in two of three runs. */
export const chooseOptions = (seed: number, chaos: Chaos): readonly string[] =>
  seed % 3 === 0 || chaos.happens(0.4) ? [] : chaos.pick(CHOICES)

/** What the provider answers of the options of a job: nothing of some for numbers of one ending. */
export function answersOf (
  canonical: string, options: readonly string[]
): Readonly<Record<string, string>> {
  return Object.fromEntries(options.flatMap(option => {
    const name = optionName(option)
    if (canonical.endsWith(name === 'line_status' ? '5' : '7')) return []
    const date = optionDate(option)
    return [[name, 'active'], ...date === undefined ? [] : [['reassigned_since', date]]]
  }))
}

const FIELDS = rowFieldsOf('phone-validation')

/** The cells of a row that its job has bought with a verdict; blank ones were not answered. */
export function boughtCells (
  row: readonly string[], options: readonly string[]
): readonly string[] {
  const cell = (name: string) => row[FIELDS.indexOf(name)] ?? ''
  return options.map(option => {
    const date = optionDate(option)
    const isOther = date !== undefined && cell('reassigned_since') !== date
    return isOther ? '' : cell(optionName(option))
  })
}
