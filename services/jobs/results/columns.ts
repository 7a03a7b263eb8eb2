import type { RowChecks } from '../../../schemas/api/checks.ts'
import {
  COMMON_COLUMNS, ID_COLUMN, SERVICE_COLUMNS, STANDARD_COLUMNS,
} from '../../../schemas/api/columns.ts'
import { unpackChecks } from '../../cache/evidence.ts'
import { extensionOf, vanityOf } from '../../phone/cell.ts'
import type { ServiceSlug } from '../../topology.ts'

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

/** Whether the inputs of a job have ids. */
type JobColumns = { readonly ids?: boolean | undefined }

/** All columns of a service's result file, in order. */
export function columnsOf (
  service: ServiceSlug, { ids = false }: JobColumns = {}
): readonly string[] {
  const { columns } = SERVICE_DEFINITIONS[service]
  return [...STANDARD_COLUMNS, ...COMMON_COLUMNS, ...columns, ...ids ? [ID_COLUMN] : []]
}

/**
 * The fields of a row of a service: the columns of its file, then `checks`, for JSON only, and the
 * id, which a row that is read `withReference` has there.
 */
export function rowFieldsOf (
  service: ServiceSlug, { ids = false }: JobColumns = {}
): readonly string[] {
  return [...columnsOf(service), 'checks', ...ids ? [ID_COLUMN] : []]
}

/**
 * Columns of phone numbers that belong to the input of a row, so that equal numbers are one
 * contact. They are read from it and the number when the results are.
 */
export const INPUT_COLUMNS: Readonly<Record<string, (input: string, e164: string) => string>> = {
  extension: extensionOf, vanity: vanityOf,
}

/**
 * The checks of a row by its cells `source` and `checks`. An invalid input failed the check of its
 * syntax; null for a row without stored evidence.
 */
export function rowChecksOf (source: string | undefined, evidence = ''): RowChecks | null {
  if (source === 'preflight') return { syntax: 'failed' }
  return evidence === '' ? null : { syntax: 'passed', ...unpackChecks(Number(evidence)) }
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
