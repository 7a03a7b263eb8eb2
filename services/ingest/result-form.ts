import type { ResultsQuery } from '../../schemas/api/results.ts'
import { ApiException, type ApiError } from './errors.ts'
import { accepts, preferred } from './negotiation.ts'

/** Forms of the results by media type; the first one is sent to who takes any. */
export const RESULT_TYPES = {
  csv: 'text/csv', json: 'application/json', jsonl: 'application/x-ndjson',
} as const

export type ResultForm = keyof typeof RESULT_TYPES

/** Fields of the query that only one form knows. */
const ONLY_IN = {
  safe: 'csv', limit: 'json', cursor: 'json', status: 'json', source: 'json',
} as const satisfies Partial<Record<keyof ResultsQuery, ResultForm>>

/**
 * The form a request asks for: by its query, which the Accept header must not exclude, or else by
 * the header. Throws the fault `not_acceptable`.
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

/** What a form of the results can't heed, so that no filter is passed over in silence. */
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
