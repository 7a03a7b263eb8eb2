import { createHash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { FILTER_COLUMNS, LIST_PARAMETERS, type ResultsQuery } from '../../schemas/api/results.ts'
import { columnsOf, rowFieldsOf } from '../results/columns.ts'
import { joinedColumns } from '../results/original.ts'
import { createRowFilter, type RowFilter } from '../results/row-filter.ts'
import type { ServiceSlug } from '../topology.ts'
import { ApiException, type ApiError } from './errors.ts'

/** The rows and columns of a request. */
export type ResultSelection = {
  /** Undefined if all rows are wanted. */
  readonly keep: RowFilter | undefined
  readonly columns: readonly string[]
  /** Whether these are all rows and columns of the form. */
  readonly isWhole: boolean
  /** Names of the customer's columns, if they are joined. */
  readonly original?: readonly string[]
  /** Part of the entity tag, different for each selection. */
  readonly word: string
}

/**
 * A hook that splits the lists of a query at their commas before they are validated.
 * @throws ApiException `invalid_request` for a list that was sent more than once.
 */
export async function listsInQuery (request: FastifyRequest): Promise<void> {
  const query = { ...request.query as Record<string, unknown> }
  for (const name of LIST_PARAMETERS) {
    const value = query[name]
    if (value === undefined) continue
    if (typeof value !== 'string') {
      throw new ApiException({
        code: 'invalid_request',
        param: name,
        message: `${name} was sent more than once. Send it once, with commas between its values.`,
      })
    }
    query[name] = value.split(',')
  }
  request.query = query
}

/** The selection of a validated query, or the error for a column that the results do not have. */
export function selectionOf (
  query: ResultsQuery, service: ServiceSlug, form: 'csv' | 'json' | 'jsonl'
): ResultSelection | ApiError {
  const available = form === 'csv' ? columnsOf(service) : rowFieldsOf(service)
  const isJoinedFile = form === 'csv' && query.join !== undefined
  const { columns = isJoinedFile ? joinedColumns(available) : available } = query
  const foreign = columns.find(name => !available.includes(name))
  if (foreign !== undefined) {
    return {
      code: 'invalid_request',
      param: 'columns',
      message: `columns has ${foreign}, which is not a column of ${service} as ${form}. It can ` +
        `have: ${available.join(', ')}.`,
    }
  }
  const wanted = { ...query, country: query.country?.map(code => code.toUpperCase()) }
  const keep = createRowFilter(service, wanted)
  const { duplicates, join } = query
  const key = [columns, duplicates, join, ...FILTER_COLUMNS.map(name => wanted[name] ?? null)]
  return {
    keep,
    columns,
    isWhole: keep === undefined && query.columns === undefined,
    word: createHash('sha256').update(JSON.stringify(key)).digest('hex').slice(0, 16),
  }
}
