import { isDeepStrictEqual } from 'node:util'
import { columnsOf } from '../../jobs/results/columns.ts'
import { eventLoop } from '../../runtime/platform/event-loop.ts'
import type { ServiceSlug } from '../../topology.ts'
import {
  type CheckOptions, NO_ANSWER, type ProviderAnswer, type ProviderFailure, type ProviderVerdict,
  UNCLEAR,
} from '../provider.ts'
import { type HttpVendor, VENDOR_COLUMNS, vendorWordsOf } from './http-vendor.ts'

/** The value at a JSON pointer (RFC 6901), undefined if there is none. */
export function at (value: unknown, pointer: string): unknown {
  let here = value
  for (const token of pointer.split('/').slice(1)) {
    const name = unescapeToken(token)
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, name)) return undefined
    here = (here as Readonly<Record<string, unknown>>)[name]
  }
  return here
}

const unescapeToken = (token: string) => token.replaceAll('~1', '/').replaceAll('~0', '~')

/** A row of a call; the vendor receives and repeats `reference` instead of the row number. */
type RequestedRow = {
  readonly row: number
  readonly canonical: string
  readonly reference: number
}

export type Requested = Pick<CheckOptions, 'service' | 'options'> & {
  readonly requested: readonly RequestedRow[]
}

/** Entries of a response beyond two for each row. */
const SPARE_ENTRIES = 100

/** The maximum number of entries in the response to a call with so many rows. */
export const maxEntries = (rows: number): number => 2 * rows + SPARE_ENTRIES

/** Entries that are read between two yields to the event loop. */
const SLICE_ENTRIES = 250

/**
 * The verdicts in a vendor's response; none if it has far more entries than rows. An answer is
 * matched to a row by reference or contact, never by position; if it has both, both must match the
 * same row. Answers without a row are ignored. A row with two different answers is unclear. Results
 * contain no free text of the vendor.
 */
export async function readAnswers (
  vendor: HttpVendor, body: unknown, { requested, service, options }: Requested
): Promise<readonly ProviderAnswer[]> {
  const { rows } = vendor.response
  const list = rows === undefined ? [body] : at(body, rows)
  const entries: readonly (readonly [key: string, value: unknown])[] = Array.isArray(list)
    ? list.map((row: unknown) => ['', row])
    : typeof list === 'object' && list !== null ? Object.entries(list) : []
  if (entries.length > maxEntries(requested.length)) return []
  const find = finderOf(vendor, requested)
  const read = verdictReader(vendor, { service, options })
  const verdicts = new Map<number, ProviderVerdict>()
  for (const [index, [key, entry]] of entries.entries()) {
    if (index % SLICE_ENTRIES === SLICE_ENTRIES - 1) await eventLoop.yield('bulk')
    const row = find(key, entry)
    if (row === undefined) continue
    const verdict = read(entry)
    const earlier = verdicts.get(row)
    const same = earlier === undefined || isDeepStrictEqual(earlier, verdict)
    verdicts.set(row, same ? verdict : UNCLEAR)
  }
  return [...verdicts].map(([row, verdict]) => ({ row, verdict }))
}

/** The columns of a table that the description of a vendor points at. */
export function tableColumns (
  { response: { match, verdict, reason = [], fields = {} } }: HttpVendor, service: ServiceSlug
): ReadonlySet<string> {
  const pointers = [
    match?.row, match?.contact, verdict.pointer.replaceAll('{service}', service),
    ...[reason].flat().map(({ pointer }) => pointer),
    ...Object.values(fields).map(({ pointer }) => pointer),
  ]
  return new Set(pointers.flatMap((pointer) => {
    const [, token] = pointer?.split('/') ?? []
    return token === undefined ? [] : [unescapeToken(token)]
  }))
}

/**
 * The failure that the error field of a response has. With `ok` false (no success status) only the
 * errors that the description names count; otherwise the status decides.
 */
export function failureIn (vendor: HttpVendor, body: unknown, ok: boolean):
ProviderFailure | undefined {
  const field = vendor.errors?.field
  const text = field === undefined ? undefined : textOf(at(body, field.pointer))
  if (field === undefined || text === undefined || field.fine?.includes(text)) return undefined
  const named = wordFor(field.values, text)
  return named ?? (ok ? field.otherwise ?? 'bad_response' : undefined)
}

function finderOf ({ response: { match } }: HttpVendor, requested: readonly RequestedRow[]) {
  if (match === undefined) return () => requested[0]?.row
  const byReference = new Map(requested.map(({ row, reference }) => [String(reference), row]))
  const byContact = new Map(requested.map(({ row, canonical }) => [contactKey(canonical), row]))
  return (key: string, entry: unknown): number | undefined => {
    const references = [...textsAt(match.row, entry), ...match.key === 'row' ? [key] : []]
    const contacts = [...textsAt(match.contact, entry), ...match.key === 'contact' ? [key] : []]
    const rows = [
      ...references.map((text) => byReference.get(text ?? '')),
      ...contacts.map((text) => byContact.get(contactKey(text ?? ''))),
    ]
    return rows.every((row) => row === rows[0]) ? rows[0] : undefined
  }
}

const textsAt = (pointer: string | undefined, entry: unknown) =>
  pointer === undefined ? [] : [textOf(at(entry, pointer))]

/** Vendors format numbers with spaces, and with or without a plus sign or two zeros. */
function contactKey (contact: string): string {
  const text = contact.trim().toLowerCase()
  return text.includes('@') ? text : text.replace(/\D/g, '').replace(/^00/, '')
}

function verdictReader (vendor: HttpVendor, terms: Omit<Requested, 'requested'>) {
  const { verdict, reason = [] } = vendor.response
  const reasons = Array.isArray(reason) ? reason : [reason]
  const fieldsOf = fieldsReader(vendor, terms)
  // A vendor may name the field of a verdict after what was checked.
  const pointer = verdict.pointer.replaceAll('{service}', terms.service)
  return (entry: unknown): ProviderVerdict => {
    const text = textOf(at(entry, pointer))
    if (text === undefined) return NO_ANSWER
    const outcome = wordFor(verdict.values, text)
    if (outcome === undefined) return UNCLEAR
    const words = reasons.map(({ values, pointer: where }) =>
      wordFor(values, textOf(at(entry, where))))
    const why = words.find((word) => word !== undefined) ?? outcome.reason
    if (outcome.status === 'unknown') return { ...UNCLEAR, reason: why }
    const fields = fieldsOf(entry)
    const { status, confidence = DEFAULT_CONFIDENCE } = outcome
    return { status, reason: why, confidence, fields }
  }
}

/** The confidence of a vendor that does not state one, 0 to 100. */
const DEFAULT_CONFIDENCE = 90

function fieldsReader (
  vendor: HttpVendor, { service, options }: Omit<Requested, 'requested'>
) {
  const columns = columnsOf(service, { options })
  const words = vendorWordsOf(vendor)
  const described = Object.entries(vendor.response.fields ?? {})
    .filter(([column]) => columns.includes(column))
  return (entry: unknown): Record<string, string> => {
    const columns = described.flatMap(([column, { pointer, values }]) => {
      const text = textOf(at(entry, pointer))
      const word = values === undefined ? text : wordFor(values, text)
      const value = word === undefined ? undefined : VENDOR_COLUMNS[column]?.(word, words)
      return value === undefined ? [] : [[column, value] as const]
    })
    return Object.fromEntries(columns)
  }
}

/** The value that a map of a description has for a text of the vendor. */
export function wordFor<T> (
  words: Readonly<Record<string, T>> | undefined, text: string | undefined
): T | undefined {
  return words !== undefined && text !== undefined && Object.hasOwn(words, text)
    ? words[text]
    : undefined
}

/** Scalars as text, like the keys of maps; undefined for null, lists and objects. */
export function textOf (value: unknown): string | undefined {
  return ['string', 'number', 'boolean'].includes(typeof value) ? String(value) : undefined
}
