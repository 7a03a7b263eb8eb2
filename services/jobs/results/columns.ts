import type { RowChecks } from '../../../schemas/api/services.ts'
import {
  COLUMNS, COMMON_COLUMNS, ID_COLUMN, SERVICE_COLUMNS, STANDARD_COLUMNS,
} from '../../../schemas/api/columns.ts'
import { unpackChecks } from '../../cache/evidence.ts'
import { readExtension, readVanity } from '../../phone/cell.ts'
import type { ServiceSlug } from '../../topology.ts'
import { allOptionColumns, optionColumns } from '../options.ts'

/** The kind of input of a service. */
export type ContactKind = 'phone' | 'email'

/** Every verification service: its kind of input and the columns it adds. */
export const SERVICE_DEFINITIONS = {
  'phone-validation': { kind: 'phone', columns: SERVICE_COLUMNS['phone-validation'] },
  whatsapp: { kind: 'phone', columns: SERVICE_COLUMNS.whatsapp },
  telegram: { kind: 'phone', columns: SERVICE_COLUMNS.telegram },
  'carrier-single': { kind: 'phone', columns: SERVICE_COLUMNS['carrier-single'] },
  'carrier-lookup': { kind: 'phone', columns: SERVICE_COLUMNS['carrier-lookup'] },
  'email-validation': { kind: 'email', columns: SERVICE_COLUMNS['email-validation'] },
} as const satisfies Record<ServiceSlug, { kind: ContactKind, columns: readonly string[] }>

/** What the columns of a job depend on beside its service. */
export type JobColumns = {
  /** Whether its inputs have ids. */
  readonly ids?: boolean | undefined
  /** The options it has chosen. */
  readonly options?: readonly string[] | undefined
}

/** All columns of a job's result file, in order. */
export function listColumns (
  service: ServiceSlug, { ids = false, options }: JobColumns = {}
): readonly string[] {
  const { columns } = SERVICE_DEFINITIONS[service]
  return [
    ...STANDARD_COLUMNS, ...COMMON_COLUMNS, ...columns, ...optionColumns(options),
    ...ids ? [ID_COLUMN] : [],
  ]
}

/** The fields of a job's rows in JSON: the columns of its file, and `checks`. */
export function listJsonFields (
  service: ServiceSlug, { ids = false, options }: JobColumns = {}
): readonly string[] {
  return [...listColumns(service, { options }), 'checks', ...ids ? [ID_COLUMN] : []]
}

/**
 * The fields of a stored row of a service: the columns of every job of it, `checks`, the columns of
 * all options, and the id, which a row that is read `withReference` has there.
 */
export function listRowFields (
  service: ServiceSlug, { ids = false }: JobColumns = {}
): readonly string[] {
  return [
    ...listColumns(service), 'checks', ...allOptionColumns(service), ...ids ? [ID_COLUMN] : [],
  ]
}

/**
 * Columns of phone numbers that belong to the input of a row, so that equal numbers are one
 * contact. They are read from it and the number when the results are.
 */
export const INPUT_COLUMNS: Readonly<Record<string, (input: string, e164: string) => string>> = {
  extension: readExtension, vanity: readVanity,
}

/** The value of a cell by the type of its column in JSON; a blank one is for the caller. */
export function parseCell (name: string, text: string): string | number | boolean {
  const { type } = COLUMNS[name as keyof typeof COLUMNS]
  if (type === 'integer') return Number(text)
  return type === 'boolean' ? text === 'true' : text
}

/**
 * The checks of a row by its cells `source` and `checks`. Of the rows without evidence those of the
 * preflight are invalid inputs; the others are of releases that stored none.
 */
export function parseRowChecks (source: string | undefined, evidence = ''): RowChecks | null {
  if (evidence !== '') return { syntax: 'passed', ...unpackChecks(Number(evidence)) }
  return source === 'preflight' ? { syntax: 'failed' } : null
}

/**
 * The identities of canonical forms: equal exactly for equal contacts, as local parts of e-mail
 * addresses are compared without case; '' stays ''.
 */
export function contactIdentities (
  kind: ContactKind, canonicals: readonly string[]
): readonly string[] {
  return kind === 'phone' ? canonicals : canonicals.map(canonical => canonical.toLowerCase())
}
