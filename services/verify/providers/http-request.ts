import type { ServiceSlug } from '../../topology.ts'
import type { RequestedRow } from './http-answer.ts'
import type { HttpAuth, HttpCall, HttpVendor } from './http-vendor.ts'

export type PreparedCall = { readonly url: string, readonly init: RequestInit }

/** The placeholders in the texts of a request. */
export const PLACEHOLDERS = [
  'contact', 'digits', 'contacts', 'lines', 'row', 'rowNumber', 'rows', 'service', 'reference',
  'task',
] as const

type Scope = Readonly<Record<typeof PLACEHOLDERS[number], unknown>>

/** Matches every `{name}` in a text. */
export const PLACEHOLDER = /\{([A-Za-z]+)\}/g

/** What a call is about: its rows, and for a batch the names that we and the vendor give to it. */
export type Subject = {
  readonly requested: readonly RequestedRow[]
  readonly service: ServiceSlug
  readonly reference?: string
  readonly task?: string
}

/** The request of a call with rows. */
export function prepareCall (vendor: HttpVendor, subject: Subject): PreparedCall {
  const { url, method, request = {} } = vendor
  return prepare({ ...request, url, method }, vendor, subject)
}

/** Any call to the vendor, with its authentication. */
export function prepare (call: HttpCall, vendor: HttpVendor, subject: Subject): PreparedCall {
  const { auth } = vendor
  const scope = scopeOf(vendor, subject)
  const url = new URL(fillText(call.url, scope, encodeURIComponent))
  for (const [name, value] of Object.entries(call.query ?? {})) {
    url.searchParams.set(name, fillText(value, scope))
  }
  if (auth.kind === 'query') url.searchParams.set(auth.name, auth.value)
  const headers = new Headers({ accept: 'application/json', ...authHeaders(auth) })
  for (const [name, value] of Object.entries(call.headers ?? {})) {
    headers.set(name, fillText(value, scope))
  }
  const init = { method: call.method, headers }
  if (call.multipart !== undefined) {
    return { url: url.href, init: { ...init, body: formOf(call.multipart, scope) } }
  }
  if (call.body === undefined) return { url: url.href, init }
  headers.set('content-type', 'application/json')
  return { url: url.href, init: { ...init, body: JSON.stringify(fill(call.body, scope)) } }
}

function formOf (parts: NonNullable<HttpCall['multipart']>, scope: Scope): FormData {
  const form = new FormData()
  for (const [name, part] of Object.entries(parts)) {
    if (typeof part === 'string') form.set(name, fillText(part, scope))
    else {
      const content = new Blob([fillText(part.text, scope)], { type: part.type })
      form.set(name, content, fillText(part.name, scope))
    }
  }
  return form
}

function scopeOf (
  vendor: HttpVendor, { requested, service, reference = '', task = '' }: Subject
): Scope {
  const names = { service: vendor.request?.services?.[service] ?? service, reference, task }
  const template = vendor.request?.row
  const scopes = requested.map(({ canonical, reference: row }) => ({
    ...names,
    contact: canonical,
    digits: canonical.replace(/^\+/, ''),
    row: String(row),
    rowNumber: row,
    contacts: [canonical],
    lines: canonical,
    rows: [],
  }))
  const contacts = requested.map(({ canonical }) => canonical)
  return {
    ...scopes[0] ?? { ...names, contact: '', digits: '', row: '', rowNumber: 0 },
    contacts,
    lines: contacts.map(csvCell).join('\n'),
    rows: template === undefined ? [] : scopes.map((scope) => fill(template, scope)),
  }
}

/** A contact as the only cell of a CSV line. */
function csvCell (contact: string): string {
  return /[",\s]/.test(contact) ? `"${contact.replaceAll('"', '""')}"` : contact
}

/** A text that is a single placeholder becomes its value with its type; others become text. */
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
