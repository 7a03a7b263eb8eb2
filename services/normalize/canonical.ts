import type { ContactKind } from '../results/columns.ts'
import { canonicalEmail, emailIdentity } from './email.ts'
import type { Canonical } from './input.ts'
import { canonicalPhone } from './phone.ts'

export { INVALID_REASONS, type Canonical, type InvalidReason } from './input.ts'

/** `country` (ISO 3166, upper case) is the fallback for phone numbers in national form. */
export type Canonicalize = (input: string, country: string | undefined) => Canonical

/** The function that brings inputs of a kind into canonical form; it never throws. */
export function canonicalFor (kind: ContactKind): Canonicalize {
  return kind === 'phone' ? canonicalPhone : canonicalEmail
}

/** Of canonical forms, the texts that are equal exactly for equal contacts; '' stays ''. */
export function identitiesOf (
  kind: ContactKind, canonicals: readonly string[]
): readonly string[] {
  return kind === 'phone' ? canonicals : canonicals.map(emailIdentity)
}
