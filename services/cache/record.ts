/**
 * The verdict about one contact, in terms shared by all stages, the cache and the result file. All
 * lists are closed: terms of providers never appear here.
 */

export const ROW_STATUSES = ['valid', 'invalid', 'risky', 'unknown'] as const

export type RowStatus = typeof ROW_STATUSES[number]

/** Why a row has no canonical form; such a row is free and never reaches a provider. */
export const PREFLIGHT_REASONS = [
  'empty', 'too_long_input', 'control_character', 'malformed_unicode', 'hidden_character',
  'not_a_phone_number', 'no_calling_code', 'unknown_calling_code', 'too_short', 'too_long',
  'impossible_length',
  'not_an_email', 'invalid_domain', 'local_part_too_long', 'address_too_long',
] as const

export type PreflightReason = typeof PREFLIGHT_REASONS[number]

/** The reason of a provider for its verdict. */
export const PROVIDER_REASONS = [
  'assigned_range', 'unassigned_range', 'registered', 'not_registered', 'line_disconnected',
  'no_answer',
  'deliverable', 'mailbox_not_found', 'reserved_domain', 'disposable_domain', 'role_address',
  'possible_typo', 'catch_all', 'domain_not_checked', 'no_dns',
  'domain_not_found', 'no_mail_service', 'no_mx_record', 'domain_accepts_mail', 'dns_error',
  'unclear_answer',
  'mailbox_full', 'greylisted', 'blocked', 'mail_server_unreachable',
  'carrier_unknown',
] as const

/** Why the service itself has no verdict; always `unknown` and free. */
export const SYSTEM_REASONS = ['cancelled', 'internal', 'timeout', 'unavailable'] as const

/** The closed list of the result column `reason`; it may grow and never shrinks. */
export const REASONS = [...PREFLIGHT_REASONS, ...PROVIDER_REASONS, ...SYSTEM_REASONS] as const

export type Reason = typeof REASONS[number]

export const LINE_TYPES = [
  'mobile', 'landline', 'fixed_line_or_mobile', 'voip', 'toll_free', 'premium_rate',
  'shared_cost', 'personal_number', 'pager', 'uan', 'voicemail', 'unknown',
] as const

export type LineType = typeof LINE_TYPES[number]

/**
 * A verdict as it is cached and sent on. `confidence` is an integer from 0 to 100. `fields` holds
 * only result columns that can't identify the contact and don't derive from its canonical form
 * (see `results/outcome.ts`); a column that does not apply is absent. The column `suggestion` holds
 * the suggested mail domain alone, because the full address would put the local part into the
 * cache.
 */
export type CheckedRecord = {
  readonly status: RowStatus
  readonly reason: Reason
  readonly confidence: number
  readonly fields: Readonly<Record<string, string>>
  readonly checkedAtMs: number
}
