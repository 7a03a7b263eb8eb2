import { Type, type Static } from 'typebox'
import { DELIMITERS } from '../files/csv-format.ts'
import { CreateJobSchema } from './create-job.ts'
import { CreateQuoteSchema } from './quote.ts'

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
