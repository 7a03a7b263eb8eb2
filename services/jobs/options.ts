import Type, { type Static } from 'typebox'
import { OPTION_COLUMNS } from '../../schemas/api/columns.ts'
import type { Mode } from '../accounts/tenant.ts'
import { MAX_PRICE_MICROS } from '../money/prices.ts'
import type { ServiceSlug } from '../topology.ts'
import { type ProviderLists, VENDOR_PRESETS } from './checks.ts'

/** What a vendor knows beside its verdict, at a price of its own: only for jobs that choose it. */
export type OptionName = keyof typeof OPTION_COLUMNS

export const OPTION_NAMES = Object.keys(OPTION_COLUMNS) as readonly OptionName[]

const price = Type.Optional(Type.Integer({ minimum: 0, maximum: MAX_PRICE_MICROS }))
const optionPrices = Type.Object(
  Object.fromEntries(OPTION_NAMES.map(name => [name, price])) as Record<OptionName, typeof price>,
  {
    default: {},
    additionalProperties: false,
    description: 'Prices in micros of the options that jobs may choose, for each row: JSON, ' +
      'option to micros. An option without a price is not sold.',
    examples: [{ line_status: 9_000, sim_swap: 120_000 }],
  })

/** The setting OPTION_PRICES; `ingest` and `lookup` read the same value. */
export const optionPricesConfig = { OPTION_PRICES: optionPrices }

export type OptionPrices = Static<typeof optionPrices>

/** The services that have options. */
const SERVICES: readonly ServiceSlug[] = ['phone-validation', 'carrier-single', 'carrier-lookup']

/** The name of a chosen option, which is written with a date if it needs one: `name:YYYY-MM-DD`. */
export function optionName (option: string): OptionName {
  return option.split(':', 1)[0] as OptionName
}

/** The date of a chosen option; undefined for one that needs none. */
export function optionDate (option: string): string | undefined {
  return option.split(':')[1]
}

/** The columns that options add to results, in the order of the interface. */
export function optionColumns (options: readonly string[] = []): readonly string[] {
  const names = options.map(optionName)
  return OPTION_NAMES.filter(name => names.includes(name)).flatMap(name => OPTION_COLUMNS[name])
}

/** The columns that some job of the service may have. */
export function allOptionColumns (service: ServiceSlug): readonly string[] {
  return SERVICES.includes(service) ? optionColumns(OPTION_NAMES) : []
}

/**
 * Whether the fields of a verdict have the answers of all chosen options. A verdict without them is
 * not charged to a job that chose them, and is no cache hit for it.
 */
export function hasOptions (
  fields: Readonly<Record<string, string>>, options: readonly string[] | null | undefined
): boolean {
  return (options ?? []).every(option => {
    const date = optionDate(option)
    return fields[optionName(option)] !== undefined &&
      (date === undefined || fields['reassigned_since'] === date)
  })
}

/**
 * The options that a job of the service may choose: those with a price that one of its providers
 * answers. Only `verify` knows what vendors of HTTP_PROVIDERS answer, so the price list is trusted
 * for them: a row without an answer is free. Test keys may choose all.
 */
export function offeredOptions (
  service: ServiceSlug,
  { mode, optionPrices, providers }: {
    readonly mode: Mode, readonly optionPrices: OptionPrices, readonly providers: ProviderLists
  }
): readonly OptionName[] {
  if (!SERVICES.includes(service)) return []
  if (mode === 'test') return OPTION_NAMES
  return OPTION_NAMES.filter(name => optionPrices[name] !== undefined &&
    providers[service]?.some(provider => {
      const preset = VENDOR_PRESETS.get(provider)
      return preset === undefined
        ? provider.startsWith('http:')
        : Object.hasOwn(preset.vendor.options ?? {}, name)
    }))
}

/**
 * What the chosen options add to the unit price of a row, in micros; 0 in test mode.
 * @throws RangeError for an option without a price.
 */
export function optionsPriceMicros (
  prices: OptionPrices, options: readonly string[], mode: Mode
): number {
  if (mode === 'test') return 0
  return options.map(optionName).reduce((sum, name) => {
    const more = prices[name]
    if (more !== undefined) return sum + more
    throw new RangeError(`OPTION_PRICES has no price of ${name}; give ingest and lookup one value`)
  }, 0)
}
