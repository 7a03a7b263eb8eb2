import type { ServiceSlug } from '../../records/columns.ts'
import type { HttpAuth, HttpVendor } from './http-vendor.ts'

/** A row of a call; `reference` is what the vendor is told instead of our row, and repeats. */
export type AskedRow = {
  readonly row: number
  readonly canonical: string
  readonly reference: number
}

export type PreparedCall = { readonly url: string, readonly init: RequestInit }

/** What may stand in braces in the texts of a request. */
export const PLACEHOLDERS = [
  'contact', 'digits', 'contacts', 'row', 'rowNumber', 'rows', 'service',
] as const

type Scope = Readonly<Record<typeof PLACEHOLDERS[number], unknown>>

/** Every `{name}` of a text. */
export const PLACEHOLDER = /\{([A-Za-z]+)\}/g

/** The call that asks a vendor about rows; without `maxRows` there is one row a call. */
export function prepareCall (
  vendor: HttpVendor, asked: readonly AskedRow[], service: ServiceSlug
): PreparedCall {
  const { request = {}, method, auth } = vendor
  const scope = scopeOf(vendor, asked, service)
  const url = new URL(fillText(vendor.url, scope, encodeURIComponent))
  for (const [name, value] of Object.entries(request.query ?? {})) {
    url.searchParams.set(name, fillText(value, scope))
  }
  if (auth.kind === 'query') url.searchParams.set(auth.name, auth.value)
  const headers = new Headers({ accept: 'application/json', ...authHeaders(auth) })
  for (const [name, value] of Object.entries(request.headers ?? {})) headers.set(name, value)
  if (request.body === undefined) return { url: url.href, init: { method, headers } }
  headers.set('content-type', 'application/json')
  const body = JSON.stringify(fill(request.body, scope))
  return { url: url.href, init: { method, headers, body } }
}

function scopeOf (vendor: HttpVendor, asked: readonly AskedRow[], service: ServiceSlug): Scope {
  const word = vendor.request?.services?.[service] ?? service
  const template = vendor.request?.row
  const scopes = asked.map(({ canonical, reference }) => ({
    contact: canonical,
    digits: canonical.replace(/^\+/, ''),
    row: String(reference),
    rowNumber: reference,
    service: word,
    contacts: [canonical],
    rows: [],
  }))
  return {
    ...scopes[0] ?? { contact: '', digits: '', row: '', rowNumber: 0, service: word },
    contacts: asked.map(({ canonical }) => canonical),
    rows: template === undefined ? [] : scopes.map((scope) => fill(template, scope)),
  }
}

/** A text that is one placeholder becomes its value, with its type; in others they become text. */
function fill (template: unknown, scope: Scope): unknown {
  if (typeof template === 'string') {
    const [whole, name = ''] = /^\{([A-Za-z]+)\}$/.exec(template) ?? []
    return whole === undefined ? fillText(template, scope) : scope[name as keyof Scope]
  }
  if (Array.isArray(template)) return template.map((item) => fill(item, scope))
  if (typeof template !== 'object' || template === null) return template
  return Object.fromEntries(
    Object.entries(template).map(([name, value]) => [name, fill(value, scope)]))
}

function fillText (text: string, scope: Scope, encode = (value: string) => value): string {
  return text.replace(PLACEHOLDER, (_, name: keyof Scope) => encode(String(scope[name])))
}

function authHeaders (auth: HttpAuth): Record<string, string> {
  if (auth.kind === 'bearer') return { authorization: `Bearer ${auth.token}` }
  if (auth.kind === 'header') return { [auth.name]: auth.value }
  if (auth.kind !== 'basic') return {}
  const pair = Buffer.from(`${auth.username}:${auth.password}`).toString('base64')
  return { authorization: `Basic ${pair}` }
}
