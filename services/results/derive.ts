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
 * Derives the result columns of an E.164 number, which are never cached.
 * `country` is blank when the number's range belongs to no single country (an unassigned range of
 * a shared calling code, or a global service such as +800).
 * @throws Error when `e164` is not canonical, which is a bug of the caller.
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

/** Derives the result columns of a canonical e-mail address. */
export function deriveEmail (canonical: string): EmailColumns {
  return { email: canonical, domain: canonical.slice(canonical.lastIndexOf('@') + 1) }
}

/**
 * Derives all columns of a contact's canonical form, which override the fields of the record. Turns
 * a suggested mail domain in `fields` into a full address, as only the domain is cached.
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
