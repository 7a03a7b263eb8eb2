import type { ContactKind } from './columns.ts'
import { formatPhone } from '../phone/format.ts'

type Fields = Readonly<Record<string, string>>

export type PhoneColumns = Fields & {
  readonly phone: string
  readonly e164: string
  readonly country: string
  readonly national_format: string
}

export type EmailColumns = Fields & { readonly email: string, readonly domain: string }

/**
 * The result columns that follow from an E.164 number alone, so they are never cached.
 * `country` is blank when the number's range belongs to no single country (an unassigned range of
 * a shared calling code, or a global service such as +800).
 * Throws if `e164` is not a canonical form, which only a defect can cause.
 */
export function derivePhone (e164: string): PhoneColumns {
  const written = formatPhone(e164)
  if (written === undefined) throw new Error('derivePhone needs a canonical E.164 number')
  return {
    phone: written.international,
    e164,
    country: written.country ?? '',
    national_format: written.national,
  }
}

/** The result columns that follow from a canonical e-mail address alone. */
export function deriveEmail (canonical: string): EmailColumns {
  return { email: canonical, domain: canonical.slice(canonical.lastIndexOf('@') + 1) }
}

/**
 * All columns that follow from a contact's canonical form, to be laid over the record's fields.
 * With a suggested mail domain among `fields` the answer holds `suggestion` as the full address a
 * person can use; only the domain is cached.
 */
export function derive (
  kind: ContactKind, canonical: string, fields: Fields = {}
): Fields {
  if (kind === 'phone') return derivePhone(canonical)
  const { suggestion } = fields
  if (suggestion === undefined || suggestion === '') return deriveEmail(canonical)
  const local = canonical.slice(0, canonical.lastIndexOf('@'))
  return { ...deriveEmail(canonical), suggestion: `${local}@${suggestion}` }
}
