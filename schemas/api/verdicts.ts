/**
 * The closed lists of the result file, in terms shared by all stages, the cache and clients: terms
 * of providers never appear here.
 */

export const ROW_STATUSES = ['valid', 'invalid', 'risky', 'unknown'] as const

export type RowStatus = typeof ROW_STATUSES[number]

/** Where the verdict of a row comes from. */
export const ROW_SOURCES = ['live', 'cache', 'duplicate', 'preflight', 'none'] as const

/** Why a row has no canonical form; such a row is free and never reaches a provider. */
export const PREFLIGHT_REASONS = [
  'empty', 'too_long_input', 'control_character', 'malformed_unicode', 'hidden_character',
  'not_a_phone_number', 'no_calling_code', 'unknown_calling_code', 'too_short', 'too_long',
  'impossible_length',
  'ambiguous_number', 'several_numbers',
  'not_an_email', 'invalid_domain', 'local_part_too_long', 'address_too_long',
] as const

/** What the lists of an organization say of a contact, which is then not checked. */
const LIST_REASONS = ['allow_listed', 'block_listed', 'suppressed'] as const

/**
 * Whether an input of this preflight reason is no verdict about the contact: it may be any of
 * several numbers, so the row ends `unknown`.
 */
export function isUndecided (reason: string): boolean {
  return reason === 'ambiguous_number' || reason === 'several_numbers'
}

export type PreflightReason = typeof PREFLIGHT_REASONS[number]

/** The reason of a provider for its verdict. */
export const PROVIDER_REASONS = [
  'assigned_range', 'unassigned_range', 'registered', 'not_registered', 'line_disconnected',
  'no_answer',
  'deliverable', 'mailbox_not_found', 'reserved_domain', 'disposable_domain', 'role_address',
  'possible_typo', 'catch_all', 'domain_not_checked', 'no_dns',
  'domain_not_found', 'no_mail_service', 'no_mx_record', 'domain_accepts_mail', 'dns_error',
  'unclear_answer',
  'mailbox_full', 'greylisted', 'blocked', 'mail_server_unreachable', 'not_answered_truthfully',
  'carrier_unknown', 'do_not_mail', 'option_not_answered', 'delivery_uncertain',
] as const

/** Why the service itself has no verdict; always `unknown` and free. */
const SYSTEM_REASONS = ['cancelled', 'internal', 'timeout', 'unavailable'] as const

/** The closed list of the result column `reason`; it may grow and never shrinks. */
export const REASONS = [
  ...PREFLIGHT_REASONS, ...LIST_REASONS, ...PROVIDER_REASONS, ...SYSTEM_REASONS,
] as const

export type Reason = typeof REASONS[number]

export const LINE_TYPES = [
  'mobile', 'landline', 'fixed_line_or_mobile', 'voip', 'toll_free', 'premium_rate',
  'shared_cost', 'personal_number', 'pager', 'uan', 'voicemail', 'unknown',
] as const

export type LineType = typeof LINE_TYPES[number]

/** Whether a number of an internet telephony service belongs to a place with an address. */
export const VOIP_TYPES = ['fixed', 'non_fixed'] as const
