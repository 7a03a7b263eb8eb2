import { LINE_TYPES, VOIP_TYPES } from './verdicts.ts'

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

type Column = {
  /** Of its cells in JSON; text if left out. */
  readonly type?: 'integer' | 'boolean'
  /** What it has, for the reference and the guide to results. */
  readonly about: string
  /** What a vendor may fill it with; `true` and `false` if it is boolean. */
  readonly vendor?: RegExp
}

const anyOf = (values: readonly string[]) => new RegExp(`^(?:${values.join('|')})$`)

/** All columns; those of `mcc` and `mnc` are texts because they have leading zeros. */
export const COLUMNS: Readonly<Record<Exclude<typeof ROW_FIELDS[number], 'checks'>, Column>> = {
  row: { type: 'integer', about: 'Place in the request, from 1.' },
  input: { about: 'The contact exactly as submitted.' },
  phone: {
    about: 'The number in international format, for people; blank for e-mail and invalid input.',
  },
  e164: { about: 'The same for machines: `+12127365000`.' },
  country: { about: "ISO 3166-1 code of the number's country." },
  region: {
    about: 'State or province of the number range, where published; a code in North America, ' +
      'such as `NY`.',
  },
  locality: { about: 'Town of the number range, where published.' },
  line_type: {
    about: `${codes(LINE_TYPES)}. \`fixed_line_or_mobile\`: the plan does not distinguish them, ` +
      'as in the US.',
    vendor: anyOf(LINE_TYPES),
  },
  carrier: {
    about: 'Holder of the number range, or of the number if a provider knows that it was ported.',
  },
  status: {
    about: 'The verdict: `valid`, `invalid`, `risky` (reachable, with a reason for caution) or ' +
      '`unknown`.',
  },
  source: {
    about: 'Where the verdict comes from: `live` (checked for this job), `cache` (from an ' +
      'earlier job), `duplicate` (of another row), `preflight` (the input is invalid, may mean ' +
      'several numbers, or a list blocks or suppresses the contact), `none` (no check gave a ' +
      'verdict).',
  },
  confidence: {
    type: 'integer', about: 'How certain the verdict is, 0 to 100; 0 for `unknown`.',
  },
  generation_basis: { about: 'Blank: contacts are verified, never generated.' },
  reason: { about: 'Why the verdict is what it is: a code of a list that may grow.' },
  checked_at: { about: 'When the verdict was made; for `cache` that is before the job.' },
  expires_at: {
    about: "Until when the verdict counts as fresh under the organization's policy. For " +
      '`preflight` and `unknown` rows, which are not cached, both times are equal.',
  },
  duplicate_of: {
    type: 'integer', about: 'Number of the row that this one repeats, and whose verdict it has.',
  },
  timezone: { about: 'Time zone (IANA) of the number range, if there is exactly one.' },
  national_format: { about: 'The number as it is written in its country.' },
  extension: {
    about: 'The digits that are dialed after the connection: `12` of `212 736 5000 x12`, ' +
      '`030 901820 Durchwahl 12`, `tel:+12127365000;ext=12`. It belongs to the row: rows of one ' +
      'number with different extensions are duplicates, and each has its own.',
  },
  vanity: {
    about: 'The number as it was spelled, if letters of it are dialed: `1-800-GO-FEDEX`. Like ' +
      '`extension` it belongs to the row.',
  },
  voip_type: {
    about: 'Of VoIP numbers, where a vendor says so: `fixed` for a place with an address, ' +
      '`non_fixed` for those that anybody can have.',
    vendor: anyOf(VOIP_TYPES),
  },
  mcc: {
    about: 'Country code of the network (E.212); blank where the carrier has several.',
    vendor: /^\d{3}$/,
  },
  mnc: {
    about: 'Code of the network in its country (E.212); blank where the carrier has several.',
    vendor: /^\d{2,3}$/,
  },
  ported: { type: 'boolean', about: 'Whether the number has changed its carrier.' },
  whatsapp: { type: 'boolean', about: 'Whether the number is registered at WhatsApp.' },
  telegram: { type: 'boolean', about: 'Whether the number is registered at Telegram.' },
  email: { about: 'The address in canonical form.' },
  domain: { about: 'Its domain.' },
  disposable: { type: 'boolean', about: 'Whether a throw-away service has the domain.' },
  role: { type: 'boolean', about: 'Whether it is the address of a function, such as `sales@`.' },
  free: { type: 'boolean', about: 'Whether a free mail service has the domain.' },
  catch_all: { type: 'boolean', about: 'Whether the domain accepts every address.' },
  mx_found: { type: 'boolean', about: 'Whether the domain has a mail server.' },
  suggestion: { about: 'The domain that was meant, if this one looks mistyped.' },
  mx_record: { about: 'The preferred mail exchange of the domain; blank without one.' },
  mail_provider: {
    about: 'Who runs that exchange: `google`, `microsoft`, `yahoo`, `apple`, `zoho`, `proton`, ' +
      'or a gateway such as `proofpoint` and `mimecast`; `other` for any other one. More may be ' +
      'added.',
  },
  normalized: {
    about: 'One form for all forms of the address that reach the same mailbox, as its provider ' +
      'documents them: in lower case; without tag (`+tag`, at Yahoo `-tag`); at Gmail and Proton ' +
      'without dots; at one domain where the provider has several (`googlemail.com`). At domains ' +
      'of customers of Google, Microsoft, Proton and Fastmail tags do not count either, but dots ' +
      'do. Other addresses change only to lower case.',
  },
  spf: {
    about: 'What the SPF record of the domain says of servers that it does not name: `fail`, ' +
      '`softfail`, `neutral`, `pass`; `no_record`; `invalid` for a record that receivers cannot ' +
      'use.',
  },
  dmarc: {
    about: 'The policy of the domain, or of the registered one above it: `reject`, `quarantine`, ' +
      '`none`; `no_record`; `invalid`.',
  },
  line_status: {
    about: '`active`, `reachable`, `unreachable` (switched off or out of reach), `inactive` ' +
      '(nobody has the number).',
    vendor: /^(?:active|reachable|unreachable|inactive)$/,
  },
  sim_swap: {
    type: 'boolean', about: 'Whether the SIM was changed within `sim_swap_period`.',
  },
  sim_swap_period: {
    about: 'How far `sim_swap` looks back, in ISO 8601: `PT24H`.', vendor: /^P[\dYMWDTHS]{1,20}$/,
  },
  sim_swapped_at: {
    about: 'When the SIM was changed, where the carrier says it.',
    vendor: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,3})?Z$/,
  },
  call_forwarding: { type: 'boolean', about: 'Whether all calls are forwarded.' },
  reassigned_number: {
    type: 'boolean',
    about: 'Whether somebody else has the number since the date of the option, on which its ' +
      'holder consented or was reached.',
  },
  reassigned_since: { about: 'The date of the option `reassigned_number`.' },
  sms_pumping_risk: {
    type: 'integer',
    about: 'How likely the number is used to inflate SMS traffic, 0 to 100.',
    vendor: /^(?:\d|[1-9]\d|100)$/,
  },
  carrier_risk: {
    about: 'How likely numbers of its carrier are: `low`, `mild`, `moderate`, `high`.',
    vendor: /^(?:low|mild|moderate|high)$/,
  },
  id: { about: 'Your own id of the input; only in jobs of which an input has one.' },
}

function codes (values: readonly string[]): string {
  return values.map(value => `\`${value}\``).join(', ')
}
