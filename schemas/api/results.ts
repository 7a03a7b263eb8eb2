import { Type, type Static } from 'typebox'
import { DELIMITERS } from '../files/csv-format.ts'
import { COLUMNS, ROW_FIELDS } from './columns.ts'
import { COUNTRY_PATTERN } from './country.ts'
import { pageSchema, withExample } from './parts.ts'
import { WORKBOOK_TYPE } from './file.ts'
import { rowChecksSchema, type RowChecks } from './services.ts'
import { LINE_TYPES, REASONS, ROW_SOURCES, ROW_STATUSES } from './verdicts.ts'

export const DEFAULT_ROWS = 100
export const RESULT_FORMATS = ['csv', 'json', 'jsonl', 'xlsx', 'parquet'] as const

/** What may separate the cells of a result file, by name. */
export const RESULT_DELIMITERS = [
  ...Object.keys(DELIMITERS) as (keyof typeof DELIMITERS)[], 'original' as const,
]

/** The media type of Apache Parquet. */
export const PARQUET_TYPE = 'application/vnd.apache.parquet'

/** The columns whose values select rows. */
export const FILTER_COLUMNS = ['status', 'reason', 'source', 'line_type', 'country'] as const

/** The parameters of results that take several values, separated by commas. */
export const LIST_PARAMETERS = [...FILTER_COLUMNS, 'columns'] as const

const rowsWith = <const T extends string>(values: readonly T[], what: string) =>
  Type.Optional(Type.Array(Type.Enum([...values]), {
    minItems: 1, description: `Only rows with one of these ${what}, separated by commas.`,
  }))

/** The query parameter of rows in JSON for the form that they had before 2026-11-29. */
export const typesField = {
  types: Type.Optional(Type.Literal('text', {
    deprecated: true,
    description: 'JSON and JSON Lines only, until 2027-11-29: true and false are the texts ' +
      '"true" and "false", and sms_pumping_risk is a text, as before 2026-11-29.',
  })),
}

/** The query parameters that select rows and columns, for all formats. */
const selectionFields = {
  status: rowsWith(ROW_STATUSES, 'verdicts'),
  reason: rowsWith(REASONS, 'reasons'),
  source: rowsWith(ROW_SOURCES, 'sources'),
  line_type: rowsWith(LINE_TYPES, 'line types'),
  country: Type.Optional(Type.Array(Type.String({
    pattern: COUNTRY_PATTERN, description: 'An ISO 3166-1 code of two letters, such as US.',
  }), { minItems: 1, description: 'Only rows of these countries, separated by commas.' })),
  duplicates: Type.Optional(Type.Enum(['drop', 'mailbox'], {
    description: 'drop: leaves out rows that repeat another row of the job. mailbox: of the rows ' +
      'that the other filters select, only the first of each mailbox (column normalized), for ' +
      'e-mail only.',
  })),
  columns: Type.Optional(Type.Array(Type.Enum([...ROW_FIELDS]), {
    minItems: 1,
    uniqueItems: true,
    description: 'Only these columns, separated by commas, in this order. checks is for JSON ' +
      'only, id for jobs whose inputs have ids.',
  })),
}

/** The query of GET /api/v1/jobs/{id}/results. */
export const ResultsQuerySchema = Type.Object({
  format: Type.Optional(Type.Enum([...RESULT_FORMATS], {
    description: 'csv: the whole file. json: pages. jsonl: all rows, one JSON object a line. ' +
      'xlsx: an Excel workbook, with a summary of the job. parquet: Apache Parquet. Without it ' +
      'the Accept header chooses among the forms that the other parameters are for, of which ' +
      'CSV is the default.',
  })),
  safe: Type.Optional(Type.Literal('spreadsheet', {
    description: 'CSV only, for spreadsheets: guards cells that they would run as formulas, and ' +
      'begins with a byte order mark. The file is named after the label `file` of a job that ' +
      'was made from a file.',
  })),
  delimiter: Type.Optional(Type.Enum(RESULT_DELIMITERS, {
    description: 'CSV only: what separates cells. original: what the file has that the job was ' +
      'made from, and a comma for other jobs and workbooks. comma by default.',
  })),
  join: Type.Optional(Type.Literal('original', {
    description: 'For a job created from a file: the columns of the file come back with each ' +
      'row. Files: before the columns of the results, in their order and spelling; `row` and ' +
      '`input` are left out unless `columns` has them, and a column of the results whose name ' +
      'the file has too is called `verified_...`. JSON and JSON Lines: as the member `original`.',
  })),
  limit: Type.Optional(Type.Integer({
    minimum: 1,
    maximum: 1_000,
    default: DEFAULT_ROWS,
    description: 'JSON only: the most rows on a page. A page of 8 MiB has fewer: `has_more` says ' +
      'whether others follow.',
  })),
  cursor: Type.Optional(Type.String({
    minLength: 1, maxLength: 100, description: 'JSON only: the next_cursor of the page before.',
  })),
  provisional: Type.Optional(Type.Literal('true', {
    description: 'JSON Lines only: the rows that are complete, also of a running job. Each line ' +
      'has two more members: `provisional`, false once the job has ended, and `cursor`.',
  })),
  after: Type.Optional(Type.String({
    minLength: 1,
    maxLength: 100,
    description: 'With provisional=true: only rows after this cursor: that of the last line that ' +
      'was read, or Next-Cursor of an answer that was read to its end.',
  })),
  ...typesField,
  ...selectionFields,
}, { additionalProperties: false })
export type ResultsQuery = Static<typeof ResultsQuerySchema>

/** Columns that are added later; one type keeps it one type in generated clients. */
const Cell = { type: ['string', 'null'] } as const

/** The customer's own cells of a row, by the names of their columns. */
type OriginalCells = Readonly<Record<string, string>>

/** A row; keys are its column names, blank cells are null. */
export type ResultRow = {
  readonly [column: string]: string | number | boolean | RowChecks | null
} & { readonly checks?: RowChecks | null, readonly original?: OriginalCells }

const about = (name: keyof typeof COLUMNS) => ({ description: COLUMNS[name].about })

const rowProperties = {
  /** Every column of every service, blank cells are null; those below say more. */
  ...Object.fromEntries(Object.entries(COLUMNS).map(([name, { type = 'string', about }]) =>
    [name, { type: [type, 'null'], description: about }])),
  row: { type: 'integer', minimum: 1, ...about('row') },
  input: { type: 'string', ...about('input') },
  status: { enum: [...ROW_STATUSES], ...about('status') },
  source: { enum: [...ROW_SOURCES], ...about('source') },
  confidence: { type: ['integer', 'null'], minimum: 0, maximum: 100, ...about('confidence') },
  checked_at: { type: 'string', ...about('checked_at') },
  expires_at: { type: 'string', ...about('expires_at') },
  checks: rowChecksSchema,
  original: {
    type: 'object',
    additionalProperties: { type: 'string' },
    description: 'With join=original: the cells of the file by column. A blank or repeated name ' +
      'is replaced by column_ and its position.',
  },
} as const

const EXAMPLE_CELLS = {
  row: 1,
  input: '+12127365000',
  phone: '+1 212 736 5000',
  e164: '+12127365000',
  country: 'US',
  region: 'NY',
  locality: 'New York',
  line_type: 'fixed_line_or_mobile',
  carrier: null,
  status: 'valid',
  source: 'live',
  confidence: 50,
  generation_basis: null,
  reason: 'assigned_range',
  checked_at: '2026-08-11T10:00:02.500Z',
  expires_at: '2026-11-09T10:00:02.500Z',
  duplicate_of: null,
  timezone: 'America/New_York',
  national_format: '(212) 736-5000',
  extension: null,
  vanity: null,
  voip_type: null,
}
/** A row, for examples. */
export const EXAMPLE_ROW: ResultRow = {
  ...EXAMPLE_CELLS,
  checks: { syntax: 'passed', numbering_plan: 'passed', carrier_range: 'inconclusive' },
}
const EXAMPLE_CSV = [Object.keys(EXAMPLE_CELLS), Object.values(EXAMPLE_CELLS)]
  .map(line => `${line.join(',')}\r\n`).join('')

/** A row with all its columns. */
export const ResultRowSchema = Type.Unsafe<ResultRow>({
  title: 'ResultRow',
  type: 'object',
  required: ['row', 'input', 'status', 'source', 'confidence', 'checked_at', 'expires_at'],
  properties: rowProperties,
  additionalProperties: Cell,
  examples: [EXAMPLE_ROW],
})

/** A row with the columns that the query selects, which are all by default. */
const SelectedRowSchema = Type.Unsafe<ResultRow>({
  title: 'SelectedRow', type: 'object', properties: rowProperties, additionalProperties: Cell,
})

/** A page of results, in the order of the request. */
const ResultsPageSchema = pageSchema(SelectedRowSchema, { title: 'ResultsPage', cursor: 'cursor' })
export type ResultsPage = Static<typeof ResultsPageSchema>

/**
 * The answer to GET /api/v1/jobs/{id}/results in each of its forms. JSON is first, because
 * generated clients take the type of the answer from the first one.
 */
export const ResultsSchema = {
  content: {
    'application/json': {
      schema: withExample(ResultsPageSchema, {
        data: [EXAMPLE_ROW], has_more: true, next_cursor: 'djE6MQ',
      }),
    },
    'text/csv': { schema: Type.String({ examples: [EXAMPLE_CSV] }) },
    'application/x-ndjson': {
      schema: Type.String({ examples: [`${JSON.stringify(EXAMPLE_ROW)}\n`] }),
    },
    [WORKBOOK_TYPE]: { schema: Type.String({ contentMediaType: WORKBOOK_TYPE }) },
    [PARQUET_TYPE]: { schema: Type.String({ contentMediaType: PARQUET_TYPE }) },
  },
}
