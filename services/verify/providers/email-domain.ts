import type { Reason, Verdict } from '../../records/record.ts'
import type { Provider, ProviderVerdict } from '../provider.ts'
import { isDisposable, isFree, isReserved, isRole, suggestionFor } from './email-lists.ts'

type Outcome = { readonly status: Verdict, readonly reason: Reason, readonly confidence: number }

/**
 * Every outcome with how sure it makes us, 0 to 100. A reserved name is certain; a list of
 * disposable domains is curated by hand; a role name or a near miss is only likely. Without asking
 * the domain's own servers nothing can be called valid.
 */
export const OUTCOMES = {
  reserved: { status: 'invalid', reason: 'reserved_domain', confidence: 100 },
  disposable: { status: 'risky', reason: 'disposable_domain', confidence: 90 },
  role: { status: 'risky', reason: 'role_address', confidence: 70 },
  typo: { status: 'risky', reason: 'possible_typo', confidence: 60 },
  unchecked: { status: 'unknown', reason: 'domain_not_checked', confidence: 0 },
} as const satisfies Record<string, Outcome>

/**
 * What lists alone say about a mail address, without DNS: `mx_found` and `catch_all` stay blank.
 * `suggestion` is the domain probably meant (`derive` makes it an address again).
 */
export function createEmailDomainProvider (): Provider {
  return {
    id: 2,
    services: ['email-validation'],
    check: async (rows) => rows.map(({ row, canonical }) =>
      ({ row, verdict: verdictOf(canonical) })),
  }
}

/** The verdict for one canonical address. */
export function verdictOf (address: string): ProviderVerdict {
  const at = address.lastIndexOf('@')
  const local = address.slice(0, at)
  const domain = address.slice(at + 1)
  const flags = { disposable: isDisposable(domain), role: isRole(local), free: isFree(domain) }
  const suggestion = suggestionFor(domain)
  return {
    ...outcomeOf({ ...flags, reserved: isReserved(domain), typo: suggestion !== undefined }),
    fields: {
      disposable: String(flags.disposable),
      role: String(flags.role),
      free: String(flags.free),
      ...(suggestion === undefined ? {} : { suggestion }),
    },
  }
}

function outcomeOf (found: Readonly<Record<Exclude<keyof typeof OUTCOMES, 'unchecked'>, boolean>>) {
  if (found.reserved) return OUTCOMES.reserved
  if (found.disposable) return OUTCOMES.disposable
  if (found.role) return OUTCOMES.role
  return found.typo ? OUTCOMES.typo : OUTCOMES.unchecked
}
