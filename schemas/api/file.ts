import { type Static, Type } from 'typebox'
import { CreateJobSchema } from './create-job.ts'
import { Count } from './parts.ts'
import { CreateQuoteSchema } from './quote.ts'
import { DELIMITERS } from '../files/csv-format.ts'

const {
  service, countryCode, forceFresh, options, deadline, webhook_url: webhookUrl, metadata,
} = CreateJobSchema.properties

/** The media type of Excel workbooks (.xlsx). */
export const WORKBOOK_TYPE = 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet'

/**
 * How a file becomes a job: parameters of the query, and with `multipart/form-data` also fields
 * beside the file. Labels are written as `metadata[name]`.
 */
export const FileOptionsSchema = Type.Object({
  service,
  column: Type.Optional(Type.String({
    description: 'The column with the contacts: its name in the first line, or its number from ' +
      '1. May be left out if there is only one.',
    examples: ['phone'],
  })),
  header: Type.Optional(Type.Boolean({
    description: 'Whether the first line names the columns. Detected if left out: it does if ' +
      '`column` is a name, or if its cell in that column is neither blank nor a contact.',
  })),
  delimiter: Type.Optional(Type.Enum(Object.keys(DELIMITERS) as (keyof typeof DELIMITERS)[], {
    description: 'Detected if left out. Not for workbooks.',
  })),
  sheet: Type.Optional(Type.String({
    description: 'Of a workbook: the name of the sheet, or its number from 1. The first visible ' +
      'one if left out.',
  })),
  countryCode,
  forceFresh,
  options,
  sample: CreateQuoteSchema.properties.sample,
  deadline,
  webhook_url: webhookUrl,
  metadata,
}, { additionalProperties: false })
export type FileOptions = Static<typeof FileOptionsSchema>

const { sample, ...jobOptions } = Type.Partial(FileOptionsSchema).properties

/** The query of POST /api/v1/jobs. */
export const JobOptionsSchema = Type.Object(jobOptions, { additionalProperties: false })

/** The query of POST /api/v1/quotes. */
export const QuoteOptionsSchema = Type.Object({ ...jobOptions, sample }, {
  additionalProperties: false,
})

/** The most lines of a file that its preview reads below the header. */
export const PREVIEW_ROWS = 1_000
export const PREVIEW_SHEETS = 100

const { column, header, delimiter, sheet } = FileOptionsSchema.properties

/** What is known of a file before its preview: the options of a job that say how it is read. */
export const PreviewOptionsSchema = Type.Object({
  service: Type.Optional(service), column, header, delimiter, sheet,
}, { additionalProperties: false })

const CandidateSchema = Type.Object({
  column: Type.Integer({ minimum: 1, description: 'Its number from 1.' }),
  service: Type.String({ description: 'A service that takes its contacts.' }),
  kind: Type.Enum(['phone', 'email']),
  filled: Count('Cells that are not blank.'),
  matching: Count('Cells that look like contacts.'),
}, { title: 'ContactColumn' })

/** The answer to POST /api/v1/file-previews. */
export const FilePreviewSchema = Type.Object({
  column: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
    description: 'The number of the column with the contacts, from 1, as a job takes it. null if ' +
      'there is none, or several may be meant: then send `column` or `service`. A job reads the ' +
      'file as this answer says if `column` and `header` of it are sent.',
  }),
  service: Type.Union([Type.String(), Type.Null()], {
    description: 'The service that takes these contacts; null without a column.',
  }),
  reason: Type.String({ description: 'Why, in a sentence.' }),
  header: Type.Boolean({
    description: 'Whether the first line names the columns. Send it with `column`: without it a ' +
      'job decides by the cell of its column alone.',
  }),
  columns: Type.Array(Type.String(), {
    description: 'The names of the columns, `column_1` and so on without a header.',
  }),
  rows: Type.Integer({
    minimum: 0, maximum: PREVIEW_ROWS, description: 'Rows that were read, blank lines between too.',
  }),
  delimiter: Type.Union([
    Type.Enum(Object.keys(DELIMITERS) as (keyof typeof DELIMITERS)[]), Type.Null(),
  ], { description: 'null for a workbook.' }),
  sheet: Type.Union([Type.String(), Type.Null()], {
    description: 'The sheet of a workbook that was read; null for text.',
  }),
  sheets: Type.Array(Type.String(), {
    description: `The names of its first ${PREVIEW_SHEETS} sheets; none for text.`,
  }),
  candidates: Type.Array(CandidateSchema, {
    description: 'Columns that may have the contacts, the best first; at most twenty.',
  }),
  country: Type.Union([
    Type.Object({
      numbers: Type.Integer({
        minimum: 1, description: 'Numbers without a country code, invalid without countryCode.',
      }),
      guess: Type.Union([Type.String(), Type.Null()], {
        description: 'The country (ISO 3166) whose numbering plan has most of them; null if none ' +
          'has 60 % of them.',
      }),
      matching: Type.Number({
        minimum: 0, maximum: 1, description: 'The share of them that is assigned there.',
      }),
      reason: Type.String({ description: 'The same as text.' }),
    }, { title: 'NationalNumbers' }),
    Type.Null(),
  ], {
    description: 'What is known of the country that a job needs; null if all numbers of the ' +
      'column have their country code, or its contacts are no numbers.',
  }),
}, {
  title: 'FilePreview',
  examples: [{
    column: 2,
    service: 'phone-validation',
    reason: 'Column "phone": 998 of 1,000 cells look like phone numbers, and it is named so.',
    header: true,
    columns: ['name', 'phone'],
    rows: 1_000,
    delimiter: 'semicolon',
    sheet: null,
    sheets: [],
    candidates: [
      { column: 2, service: 'phone-validation', kind: 'phone', filled: 1_000, matching: 998 },
    ],
    country: {
      numbers: 130,
      guess: 'DE',
      matching: 0.98,
      reason: '130 of 998 numbers have no country code. 98 % of them fit the numbering plan of ' +
        'Germany.',
    },
  }],
})
export type FilePreviewBody = Static<typeof FilePreviewSchema>
