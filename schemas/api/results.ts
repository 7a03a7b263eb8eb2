import { Type, type Static } from 'typebox'

export const DEFAULT_ROWS = 100
export const ROW_STATUSES = ['valid', 'invalid', 'risky', 'unknown'] as const
export const ROW_SOURCES = ['live', 'cache', 'duplicate', 'preflight', 'none'] as const
export const RESULT_FORMATS = ['csv', 'json', 'jsonl'] as const

/** The query of GET /api/v1/jobs/{id}/results. */
export const ResultsQuerySchema = Type.Object({
  format: Type.Optional(Type.Enum([...RESULT_FORMATS], {
    description: 'csv: the whole file. json: pages. jsonl: all rows, one JSON object a line. ' +
      'Without it the Accept header chooses, and CSV is the default.',
  })),
  safe: Type.Optional(Type.Literal('spreadsheet', {
    description: 'CSV only: guards cells that a spreadsheet would run as formulas.',
  })),
  limit: Type.Optional(Type.Integer({
    minimum: 1, maximum: 1_000, default: DEFAULT_ROWS, description: 'JSON only: rows on a page.',
  })),
  cursor: Type.Optional(Type.String({
    minLength: 1, maxLength: 100, description: 'JSON only: the next_cursor of the page before.',
  })),
  status: Type.Optional(Type.Enum([...ROW_STATUSES], {
    description: 'JSON only: rows of this status.',
  })),
  source: Type.Optional(Type.Enum([...ROW_SOURCES], {
    description: 'JSON only: rows from this source.',
  })),
}, { additionalProperties: false })

/** The type of that query. */
export type ResultsQuery = Static<typeof ResultsQuerySchema>

const Cell = { type: ['string', 'integer', 'null'] } as const

/** A row of the result file; keys are its column names, blank cells are null. */
export const ResultRowSchema = Type.Unsafe<Readonly<Record<string, string | number | null>>>({
  type: 'object',
  required: ['row', 'input', 'status', 'source', 'confidence', 'checked_at', 'expires_at'],
  properties: {
    row: { type: 'integer', minimum: 1, description: 'Place in the request, from 1.' },
    input: { type: 'string', description: 'Byte for byte as submitted.' },
    status: { enum: [...ROW_STATUSES] },
    source: {
      enum: [...ROW_SOURCES],
      description: 'Where the verdict comes from; none when the row ended without one.',
    },
    confidence: { type: ['integer', 'null'], minimum: 0, maximum: 100 },
    duplicate_of: { type: ['integer', 'null'], description: 'The row of the original.' },
    reason: { type: ['string', 'null'], description: 'A code of a closed list that may grow.' },
    checked_at: { type: 'string' },
    expires_at: { type: 'string' },
  },
  additionalProperties: Cell,
})

/** A page of results, in the order of the request. */
export const ResultsPageSchema = Type.Object({
  data: Type.Array(ResultRowSchema),
  has_more: Type.Boolean(),
  next_cursor: Type.Unsafe<string | null>({
    type: ['string', 'null'], description: 'To be sent as cursor; null on the last page.',
  }),
})

/** The type of that page. */
export type ResultsPage = Static<typeof ResultsPageSchema>

/** The answer to GET /api/v1/jobs/{id}/results in each of its forms. */
export const ResultsSchema = {
  content: {
    'text/csv': { schema: Type.String() },
    'application/json': { schema: ResultsPageSchema },
    'application/x-ndjson': { schema: Type.String() },
  },
}
