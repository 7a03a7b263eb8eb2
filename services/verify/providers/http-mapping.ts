import { isDeepStrictEqual } from 'node:util'
import { columnsOf, SERVICES, type ServiceSlug } from '../../records/columns.ts'
import type { ProviderAnswer, ProviderFailure, ProviderVerdict } from '../provider.ts'
import { VENDOR_COLUMNS, vendorWordsOf } from './http-columns.ts'
import type { AskedRow } from './http-request.ts'
import type { HttpVendor } from './http-vendor.ts'

/** The value a JSON pointer (RFC 6901) names, undefined when there is none. */
export function at (value: unknown, pointer: string): unknown {
  let here = value
  for (const step of pointer.split('/').slice(1)) {
    const name = step.replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, name)) return undefined
    here = (here as Readonly<Record<string, unknown>>)[name]
  }
  return here
}

const UNKNOWN = { status: 'unknown', confidence: 0, fields: {} } as const
/** The vendor said nothing about the row, or nothing that its description has a word for. */
const NO_ANSWER: ProviderVerdict = { ...UNKNOWN, reason: 'no_answer' }
const UNCLEAR: ProviderVerdict = { ...UNKNOWN, reason: 'unclear_answer' }

export type Asked = { readonly asked: readonly AskedRow[], readonly service: ServiceSlug }

/**
 * The verdicts in a vendor's answer. A row is known by its reference or its contact, never by its
 * place; when both are repeated, both must be the same row's. What names no asked row is left out;
 * a row that was answered twice, differently, is unclear. Only words of our own come out.
 */
export function readAnswers (vendor: HttpVendor, body: unknown, { asked, service }: Asked):
readonly ProviderAnswer[] {
  const find = finderOf(vendor, asked)
  const read = verdictReader(vendor, service)
  const verdicts = new Map<number, ProviderVerdict>()
  for (const [key, entry] of entriesOf(vendor, body)) {
    const row = find(key, entry)
    if (row === undefined) continue
    const verdict = read(entry)
    const earlier = verdicts.get(row)
    const same = earlier === undefined || isDeepStrictEqual(earlier, verdict)
    verdicts.set(row, same ? verdict : UNCLEAR)
  }
  return [...verdicts].map(([row, verdict]) => ({ row, verdict }))
}

/**
 * The failure that an answer stands for. With `ok` false, as the status was none of success, only
 * an error that the description names counts; the status decides otherwise.
 */
export function failureIn (vendor: HttpVendor, body: unknown, ok: boolean):
ProviderFailure | undefined {
  const field = vendor.errors?.field
  const text = field === undefined ? undefined : textOf(at(body, field.pointer))
  if (field === undefined || text === undefined || field.fine?.includes(text)) return undefined
  const named = wordFor(field.values, text)
  return named ?? (ok ? field.otherwise ?? 'bad_response' : undefined)
}

type Entry = readonly [key: string, value: unknown]

function entriesOf ({ response }: HttpVendor, body: unknown): readonly Entry[] {
  if (response.rows === undefined) return [['', body]]
  const rows = at(body, response.rows)
  if (Array.isArray(rows)) return rows.map((row) => ['', row])
  return typeof rows === 'object' && rows !== null ? Object.entries(rows) : []
}

function finderOf ({ response: { match } }: HttpVendor, asked: readonly AskedRow[]) {
  if (match === undefined) return () => asked[0]?.row
  const byReference = new Map(asked.map(({ row, reference }) => [String(reference), row]))
  const byContact = new Map(asked.map(({ row, canonical }) => [contactKey(canonical), row]))
  return (key: string, entry: unknown): number | undefined => {
    const references = [...said(match.row, entry), ...match.key === 'row' ? [key] : []]
    const contacts = [...said(match.contact, entry), ...match.key === 'contact' ? [key] : []]
    const rows = [
      ...references.map((text) => byReference.get(text ?? '')),
      ...contacts.map((text) => byContact.get(contactKey(text ?? ''))),
    ]
    return rows.every((row) => row === rows[0]) ? rows[0] : undefined
  }
}

const said = (pointer: string | undefined, entry: unknown) =>
  pointer === undefined ? [] : [textOf(at(entry, pointer))]

/** Vendors write numbers with spaces, with or without a plus sign or two zeros. */
function contactKey (contact: string): string {
  const text = contact.trim().toLowerCase()
  return text.includes('@') ? text : text.replace(/\D/g, '').replace(/^00/, '')
}

function verdictReader (vendor: HttpVendor, service: ServiceSlug) {
  const { verdict, reason } = vendor.response
  const fieldsOf = fieldsReader(vendor, service)
  const own = SERVICES[service].columns.find((column) => column === service)
  return (entry: unknown): ProviderVerdict => {
    const text = textOf(at(entry, verdict.pointer))
    if (text === undefined) return NO_ANSWER
    const outcome = wordFor(verdict.values, text)
    if (outcome === undefined) return UNCLEAR
    const more = reason === undefined ? undefined : textOf(at(entry, reason.pointer))
    const why = wordFor(reason?.values, more) ?? outcome.reason
    if (outcome.status === 'unknown') return { ...UNKNOWN, reason: why }
    const fields = fieldsOf(entry)
    // What a messenger's customer asks for is the column of its name.
    if (own !== undefined && fields[own] === undefined) return UNCLEAR
    const { status, confidence = LIKELY } = outcome
    return { status, reason: why, confidence, fields }
  }
}

/** How sure a vendor makes us that does not say so, 0 to 100. */
const LIKELY = 90

function fieldsReader (vendor: HttpVendor, service: ServiceSlug) {
  const columns = columnsOf(service)
  const words = vendorWordsOf(vendor)
  const known = Object.entries(vendor.response.fields ?? {})
    .filter(([column]) => columns.includes(column))
  return (entry: unknown): Record<string, string> => {
    const found = known.flatMap(([column, { pointer, values }]) => {
      const text = textOf(at(entry, pointer))
      const word = values === undefined ? text : wordFor(values, text)
      const value = word === undefined ? undefined : VENDOR_COLUMNS[column]?.(word, words)
      return value === undefined ? [] : [[column, value] as const]
    })
    return Object.fromEntries(found)
  }
}

function wordFor<T> (words: Readonly<Record<string, T>> | undefined, text: string | undefined):
T | undefined {
  return words !== undefined && text !== undefined && Object.hasOwn(words, text)
    ? words[text]
    : undefined
}

/** Scalars as text, as keys of maps are; null, lists and objects are nothing. */
function textOf (value: unknown): string | undefined {
  return ['string', 'number', 'boolean'].includes(typeof value) ? String(value) : undefined
}
