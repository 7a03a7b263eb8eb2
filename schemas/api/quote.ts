import { Type, type Static } from 'typebox'
import { CreateJobSchema, EXAMPLE_PREFLIGHT, JOB_EXAMPLES, PreflightSchema } from './create-job.ts'
import { checksFields } from './services.ts'
import { ROW_STATUSES } from './verdicts.ts'
import { Count } from './parts.ts'

/** The sample of a list: a tenth of its contacts, at most 100. Smaller ones say too little. */
export const MAX_SAMPLE_ROWS = 100
export const MIN_SAMPLE_ROWS = 20
export const ROWS_PER_SAMPLE_ROW = 10

const sample = Type.Optional(Type.Boolean({
  default: false,
  description: 'Of a quote: true verifies a sample of the list, free, and answers with the ' +
    'expected shares of verdicts in `estimate`.',
}))

/** The body of POST /api/v1/quotes: that of a job, and whether to estimate its verdicts. */
export const CreateQuoteSchema = Type.Object({ ...CreateJobSchema.properties, sample }, {
  title: 'QuoteRequest',
  additionalProperties: false,
  examples: JOB_EXAMPLES,
})
export type CreateQuoteBody = Static<typeof CreateQuoteSchema>

const Share = Type.Number({ minimum: 0, maximum: 1 })

const VerdictShareSchema = Type.Object({
  share: Type.Number({ minimum: 0, maximum: 1, description: 'Of the sample, from 0 to 1.' }),
  low: Share,
  high: Type.Number({
    minimum: 0,
    maximum: 1,
    description: 'The share in the list is from `low` to `high`, with a confidence of 95 % ' +
      '(Wilson score interval).',
  }),
}, { title: 'VerdictShare' })

const SharesSchema = Type.Object({
  valid: VerdictShareSchema,
  risky: VerdictShareSchema,
  invalid: VerdictShareSchema,
  unknown: VerdictShareSchema,
} satisfies Record<typeof ROW_STATUSES[number], unknown>, { title: 'VerdictShares' })

/** What a list is worth, by a sample of it. */
const EstimateSchema = Type.Object({
  status: Type.Enum(['completed', 'running', 'unavailable'], {
    description: '`running`: some contacts of the sample still wait for an answer; send the same ' +
      'request again. It verifies nothing again.',
  }),
  reason: Type.Union([
    Type.Enum(['too_few_contacts', 'daily_limit', 'temporarily_unavailable']), Type.Null(),
  ], {
    description: 'Why there is no estimate: the list has fewer than ' +
      `${MIN_SAMPLE_ROWS * ROWS_PER_SAMPLE_ROW} contacts to verify, the free samples of 24 hours ` +
      'are used up, or the service cannot verify one now.',
  }),
  contacts: Count('The contacts that the shares are of: `freshChecks` and `cacheHits` of the ' +
    'preflight. Invalid rows and duplicates are not estimated, but counted there.'),
  sampledContacts: Type.Integer({ minimum: 0, maximum: MAX_SAMPLE_ROWS }),
  checkedContacts: Type.Integer({
    minimum: 0, maximum: MAX_SAMPLE_ROWS, description: 'How many of them have an answer.',
  }),
  shares: Type.Union([SharesSchema, Type.Null()], {
    description: 'Null until the estimate is completed.',
  }),
}, { title: 'Estimate' })

export type EstimateBody = Static<typeof EstimateSchema>

/** Why there is no estimate, for people. */
export const NO_ESTIMATE_TEXTS: Readonly<Record<NonNullable<EstimateBody['reason']>, string>> = {
  too_few_contacts: `The list has fewer than ${MIN_SAMPLE_ROWS * ROWS_PER_SAMPLE_ROW} contacts ` +
    'to verify, too few for a sample.',
  daily_limit: 'The free samples of these 24 hours are used up. Lists that were estimated in ' +
    'them can be estimated again.',
  temporarily_unavailable: 'The service cannot verify a sample now. Try again later.',
}

const EXAMPLE = {
  preflight: EXAMPLE_PREFLIGHT,
  service: 'phone-validation',
  checks: ['syntax', 'numbering_plan', 'carrier_range'],
  limitations: ['range_only'],
  redeemable: false,
  expiresAt: '2026-08-11T10:01:25.000Z',
}

/** The answer to POST /api/v1/quotes. */
export const QuoteSchema = Type.Object({
  preflight: PreflightSchema,
  service: Type.String(),
  ...checksFields,
  redeemable: Type.Unsafe<false>({
    type: 'boolean',
    description: 'Always false: nothing is reserved; a job of the same rows is quoted again.',
  }),
  expiresAt: Type.String({
    description: 'ISO 8601, UTC: the service forgets the quote at this time.',
  }),
  estimate: Type.Optional(EstimateSchema),
}, {
  title: 'Quote',
  examples: [EXAMPLE, {
    ...EXAMPLE,
    preflight: {
      ...EXAMPLE_PREFLIGHT,
      totalRows: 5_000,
      invalidRows: 120,
      duplicateRows: 80,
      freshChecks: 4_800,
      maxQuoteMicros: 9_600_000,
    },
    estimate: {
      status: 'completed',
      reason: null,
      contacts: 4_800,
      sampledContacts: 100,
      checkedContacts: 100,
      shares: {
        valid: { share: 0.82, low: 0.7333, high: 0.8831 },
        risky: { share: 0.05, low: 0.0215, high: 0.1118 },
        invalid: { share: 0.12, low: 0.07, high: 0.1981 },
        unknown: { share: 0.01, low: 0.0018, high: 0.0545 },
      },
    },
  }],
})
export type QuoteBody = Static<typeof QuoteSchema>
