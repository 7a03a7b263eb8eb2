/** The first columns of every result file; names and order are part of the public interface. */
export const STANDARD_COLUMNS = [
  'row', 'input', 'phone', 'e164', 'country', 'region', 'locality', 'line_type', 'carrier',
  'status', 'source', 'confidence', 'generation_basis',
] as const

/** The columns every service adds after the standard ones. */
export const COMMON_COLUMNS = ['reason', 'checked_at', 'expires_at', 'duplicate_of'] as const

const CARRIER_COLUMNS = [
  'timezone', 'mcc', 'mnc', 'ported', 'extension', 'vanity', 'voip_type',
] as const

/** The last columns, specific to the service. */
export const SERVICE_COLUMNS = {
  'phone-validation': ['timezone', 'national_format', 'extension', 'vanity', 'voip_type'],
  whatsapp: ['whatsapp', 'extension', 'vanity'],
  telegram: ['telegram', 'extension', 'vanity'],
  'carrier-single': CARRIER_COLUMNS,
  'carrier-lookup': CARRIER_COLUMNS,
  'email-validation': [
    'email', 'domain', 'disposable', 'role', 'free', 'catch_all', 'mx_found', 'suggestion',
    'mx_record', 'mail_provider', 'normalized', 'spf', 'dmarc',
  ],
} as const

/** The columns that each priced option of a job adds; the first one is its answer. */
export const OPTION_COLUMNS = {
  line_status: ['line_status'],
  sim_swap: ['sim_swap', 'sim_swap_period', 'sim_swapped_at'],
  call_forwarding: ['call_forwarding'],
  reassigned_number: ['reassigned_number', 'reassigned_since'],
  sms_pumping_risk: ['sms_pumping_risk', 'carrier_risk'],
} as const

/** The columns whose cells are not text in JSON; those of `mcc` and `mnc` have leading zeros. */
export const CELL_TYPES: Readonly<Record<string, 'integer' | 'boolean'>> = {
  row: 'integer',
  confidence: 'integer',
  duplicate_of: 'integer',
  sms_pumping_risk: 'integer',
  whatsapp: 'boolean',
  telegram: 'boolean',
  ported: 'boolean',
  disposable: 'boolean',
  role: 'boolean',
  free: 'boolean',
  catch_all: 'boolean',
  mx_found: 'boolean',
  sim_swap: 'boolean',
  call_forwarding: 'boolean',
  reassigned_number: 'boolean',
}

/** The last column of a job whose inputs have ids. */
export const ID_COLUMN = 'id'

/**
 * Every field of a row that some job has: the columns of its file, `checks` in JSON, and the
 * caller's id.
 */
export const ROW_FIELDS = [
  ...new Set([
    ...STANDARD_COLUMNS, ...COMMON_COLUMNS, ...Object.values(SERVICE_COLUMNS).flat(),
    ...Object.values(OPTION_COLUMNS).flat(),
  ]),
  'checks',
  ID_COLUMN,
] as const
