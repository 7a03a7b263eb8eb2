import type { ServiceSlug } from '../topology.ts'

/** The kind of input of a service. */
export type ContactKind = 'phone' | 'email'

/** The first columns of every result file; names and order are part of the public interface. */
export const STANDARD_COLUMNS = [
  'row', 'input', 'phone', 'e164', 'country', 'region', 'locality', 'line_type', 'carrier',
  'status', 'source', 'confidence', 'generation_basis',
] as const

/** The columns every service adds after the standard ones. */
export const COMMON_COLUMNS = ['reason', 'checked_at', 'expires_at', 'duplicate_of'] as const

const CARRIER_COLUMNS = ['timezone', 'mcc', 'mnc', 'ported'] as const

/** The last columns, specific to the service. */
export const SERVICE_COLUMNS = {
  'phone-validation': ['timezone', 'national_format'],
  whatsapp: ['whatsapp'],
  telegram: ['telegram'],
  'carrier-single': CARRIER_COLUMNS,
  'carrier-lookup': CARRIER_COLUMNS,
  'email-validation': [
    'email', 'domain', 'disposable', 'role', 'free', 'catch_all', 'mx_found', 'suggestion',
  ],
} as const satisfies Record<ServiceSlug, readonly string[]>

/** Every verification service: its kind of input and the columns it adds. */
export const SERVICES = {
  'phone-validation': { kind: 'phone', columns: SERVICE_COLUMNS['phone-validation'] },
  whatsapp: { kind: 'phone', columns: SERVICE_COLUMNS.whatsapp },
  telegram: { kind: 'phone', columns: SERVICE_COLUMNS.telegram },
  'carrier-single': { kind: 'phone', columns: SERVICE_COLUMNS['carrier-single'] },
  'carrier-lookup': { kind: 'phone', columns: SERVICE_COLUMNS['carrier-lookup'] },
  'email-validation': { kind: 'email', columns: SERVICE_COLUMNS['email-validation'] },
} as const satisfies Record<ServiceSlug, { kind: ContactKind, columns: readonly string[] }>

/** All columns of a service's result file, in order. */
export function columnsOf (service: ServiceSlug): readonly string[] {
  return [...STANDARD_COLUMNS, ...COMMON_COLUMNS, ...SERVICES[service].columns]
}
