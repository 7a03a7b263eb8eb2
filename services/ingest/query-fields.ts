import type { FastifyRequest } from 'fastify'
import { ApiException } from './errors.ts'

const DAY_MS = 86_400_000

type Range = { readonly fromMs?: number, readonly toMs?: number }

/**
 * A time range of a query: `from` is its first millisecond, `to` the first one after it. A date is
 * its whole day in UTC.
 * @throws ApiException `invalid_request` with the field.
 */
export function timeRange (
  query: Readonly<Record<string, unknown>>,
  { from, to }: { readonly from: string, readonly to: string }
): Range {
  const fromMs = timeOf(query, from)
  const toMs = timeOf(query, to, DAY_MS)
  if (fromMs !== undefined && toMs !== undefined && fromMs >= toMs) {
    throw invalidTime(from, `must be before ${to}.`)
  }
  return { ...fromMs !== undefined && { fromMs }, ...toMs !== undefined && { toMs } }
}

function timeOf (
  query: Readonly<Record<string, unknown>>, name: string, dateLengthMs = 0
): number | undefined {
  const text = query[name]
  if (typeof text !== 'string') return undefined
  const isDate = text.length === DATE_CHARACTERS
  // The form is that of the schema, which also takes the 30th of February.
  if (!isDay(text.slice(0, DATE_CHARACTERS))) {
    throw invalidTime(name, 'is not a day of the calendar.')
  }
  return Date.parse(text) + (isDate ? dateLengthMs : 0)
}

/** The characters of YYYY-MM-DD. */
export const DATE_CHARACTERS = 10

/** Whether a text of the form YYYY-MM-DD is a day of the calendar. */
export function isDay (text: string): boolean {
  // JavaScript takes the 30th of February for a day in March.
  return !Number.isNaN(Date.parse(text)) && new Date(text).toISOString().startsWith(text)
}

/** The error for an invalid time; `what` is the rest of a sentence that begins with the field. */
export function invalidTime (param: string, what: string): ApiException {
  return new ApiException({ code: 'invalid_request', param, message: `${param} ${what}` })
}

const WHOLE_NUMBER = /^(0|[1-9]\d{0,8})$/

/**
 * A hook that converts fields of a query to numbers before they are validated. A text that is not a
 * whole number is left alone, so that its schema rejects it.
 */
export function numbersInQuery (...names: readonly string[]) {
  return async (request: FastifyRequest): Promise<void> => {
    const query = request.query as Record<string, unknown>
    const isNumber = ([name, value]: readonly [string, unknown]) =>
      names.includes(name) && typeof value === 'string' && WHOLE_NUMBER.test(value)
    request.query = Object.fromEntries(Object.entries(query)
      .map(field => (isNumber(field) ? [field[0], Number(field[1])] : field)))
  }
}

const LABEL = /^metadata\[(.*)\]$/s

/** A hook that collects the fields `metadata[...]` of a query in one object. */
export async function labelsInQuery (request: FastifyRequest): Promise<void> {
  const query = request.query as Record<string, unknown>
  const labels: [string, unknown][] = []
  const rest: [string, unknown][] = []
  for (const [name, value] of Object.entries(query)) {
    const label = LABEL.exec(name)?.[1]
    if (label === undefined) rest.push([name, value])
    else labels.push([label, value])
  }
  if (labels.length === 0) return
  request.query = { ...Object.fromEntries(rest), metadata: Object.fromEntries(labels) }
}
