import type { ContactKind } from '../results/columns.ts'
import { canonicalEmail, emailIdentity } from './email.ts'
import type { Canonical } from './input.ts'
import { canonicalPhone } from './phone.ts'

export { INVALID_REASONS, type Canonical, type InvalidReason } from './input.ts'

/** `country` (ISO 3166, upper case) is the default for phone numbers in national format. */
export type Canonicalize = (input: string, country: string | undefined) => Canonical

/** The function that canonicalizes inputs of a kind; it never throws. */
export function canonicalFor (kind: ContactKind): Canonicalize {
  return kind === 'phone' ? canonicalPhone : canonicalEmail
}

/** The identities of canonical forms: equal exactly for equal contacts; '' stays ''. */
export function identitiesOf (
  kind: ContactKind, canonicals: readonly string[]
): readonly string[] {
  return kind === 'phone' ? canonicals : canonicals.map(emailIdentity)
}
