import type { ResultsQuery } from '../../schemas/api/results.ts'
import { ApiException, type ApiError } from './errors.ts'
import { accepts, preferred } from './negotiation.ts'

/** Formats of the results by media type; the first one is the default. */
export const RESULT_TYPES = {
  csv: 'text/csv', json: 'application/json', jsonl: 'application/x-ndjson',
} as const

export type ResultForm = keyof typeof RESULT_TYPES

/** Query fields that only one format supports. */
const ONLY_IN = {
  safe: 'csv', limit: 'json', cursor: 'json', status: 'json', source: 'json',
} as const satisfies Partial<Record<keyof ResultsQuery, ResultForm>>

/**
 * The format of a request: by its query, which the Accept header must not exclude, or else by the
 * header.
 * @throws ApiException `not_acceptable`.
 */
export function resultForm (query: ResultsQuery, accept: string | undefined): ResultForm {
  const forms = Object.keys(RESULT_TYPES) as ResultForm[]
  const form = query.format ?? forms.find(name =>
    RESULT_TYPES[name] === preferred(accept, Object.values(RESULT_TYPES)))
  if (form !== undefined && accepts(accept, RESULT_TYPES[form])) return form
  const available = query.format === undefined
    ? Object.values(RESULT_TYPES)
    : [RESULT_TYPES[query.format]]
  throw new ApiException({ code: 'not_acceptable', more: { available } })
}

/** The query fields that a format does not support, so that no filter is silently ignored. */
export function formError (query: ResultsQuery, form: ResultForm): ApiError | undefined {
  const names = Object.keys(ONLY_IN) as (keyof typeof ONLY_IN)[]
  const foreign = names.find(name => query[name] !== undefined && ONLY_IN[name] !== form)
  if (foreign === undefined) return undefined
  return {
    code: 'invalid_request',
    param: foreign,
    message: `${foreign} is for the form ${ONLY_IN[foreign]} only. Leave it out, or send ` +
      `format=${ONLY_IN[foreign]}.`,
  }
}
