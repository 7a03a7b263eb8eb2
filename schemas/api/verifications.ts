import { Type, type Static } from 'typebox'
import { CreateJobSchema, EXAMPLE_PREFLIGHT, PreflightSchema } from './create-job.ts'
import { EXAMPLE_JOBS, JobSchema, MAX_WAIT_SECONDS } from './job.ts'
import { EXAMPLE_ROW, ResultRowSchema, typesField } from './results.ts'

/** The most inputs that are answered with their rows; larger jobs are read when they have ended. */
export const MAX_VERIFICATION_INPUTS = 100
export const DEFAULT_WAIT_SECONDS = 10

const { inputs, ...jobFields } = CreateJobSchema.properties

/** The body of POST /api/v1/verifications: that of a job, and how long to wait for its end. */
export const CreateVerificationSchema = Type.Object({
  ...jobFields,
  inputs: Type.Array(inputs.items, {
    ...inputs, maxItems: MAX_VERIFICATION_INPUTS, type: 'array',
  }),
  wait: Type.Optional(Type.Integer({
    minimum: 0,
    maximum: MAX_WAIT_SECONDS,
    default: DEFAULT_WAIT_SECONDS,
    description: 'Seconds to wait for the rows, from the last byte of the request. A job that ' +
      'has not ended by then goes on, and the answer is the 202 of a job.',
  })),
}, {
  title: 'VerificationRequest',
  additionalProperties: false,
  examples: [
    { service: 'phone-validation', inputs: ['+12127365000'] },
    { service: 'email-validation', inputs: ['jane@example.com'], wait: 20 },
  ],
})
export type CreateVerificationBody = Static<typeof CreateVerificationSchema>

/** The query of POST /api/v1/verifications. */
export const VerificationQuerySchema = Type.Object(typesField)
export type VerificationQuery = Static<typeof VerificationQuerySchema>

/** The answer with the rows: the status resource of the job, its preflight and all its rows. */
export const VerificationSchema = Type.Object({
  ...JobSchema.properties,
  preflight: PreflightSchema,
  results: Type.Array(ResultRowSchema, {
    description: 'One row for each input, in the order of the request, as in JSON results.',
  }),
}, {
  title: 'Verification',
  examples: [{
    ...EXAMPLE_JOBS.completed,
    totalRows: 1,
    freshRecords: 1,
    successRecords: 1,
    failedRecords: 0,
    invalidRows: 0,
    duplicateRows: 0,
    invalidRecords: 0,
    duplicateRecords: 0,
    maxQuoteMicros: 2_000,
    chargedMicros: 2_000,
    preflight: {
      ...EXAMPLE_PREFLIGHT,
      totalRows: 1,
      invalidRows: 0,
      duplicateRows: 0,
      freshChecks: 1,
      maxQuoteMicros: 2_000,
    },
    results: [EXAMPLE_ROW],
  }],
})
export type VerificationBody = Static<typeof VerificationSchema>
