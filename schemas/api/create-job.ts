import { Type, type Static } from 'typebox'
import { OPTION_COLUMNS } from './columns.ts'
import { COUNTRY_PATTERN } from './country.ts'
import { EXAMPLE_JOB_ID } from './job.ts'
import { Micros, serviceSlug } from './parts.ts'

/** How an address of webhooks begins; http:// can be allowed for development. */
export const WEB_ADDRESS_PATTERN = '^[Hh][Tt][Tt][Pp][Ss]?://[^/\\\\?#]'

/** The largest job of the interface. */
export const MAX_INPUTS = 100_000

/** The longest contact, in Unicode code points; a longer input is an invalid row, which is free. */
export const MAX_CONTACT_CHARACTERS = 320

/** What is kept of a longer input: enough to show people what it was. */
export const MAX_INPUT_CHARACTERS = 1_024

/** An input as it is taken: of a longer one the first characters behind white space. */
export function truncateInput (input: string): string {
  return input.length > MAX_INPUT_CHARACTERS
    ? input.trim().slice(0, MAX_INPUT_CHARACTERS).toWellFormed()
    : input
}

/** The longest id that a caller can give an input, in Unicode code points. */
export const MAX_ID_CHARACTERS = 128

/**
 * No control characters. Lone surrogates, which are no characters, are refused too, but few
 * languages compile a pattern of them.
 */
export const ID_PATTERN = '^[^\\u0000-\\u001f\\u007f-\\u009f]*$'

/** An input, alone or with the caller's own id. */
const JobInputSchema = Type.Union([
  Type.String(),
  Type.Object({
    input: Type.String({ description: 'A phone number or an e-mail address.' }),
    id: Type.String({
      maxLength: MAX_ID_CHARACTERS,
      pattern: ID_PATTERN,
      description: `Your own id of the input: at most ${MAX_ID_CHARACTERS} characters, without ` +
        'control characters. It comes back with the row; several rows may have the same. An ' +
        'empty one is none.',
    }),
  }, { title: 'InputWithId', additionalProperties: false }),
], { title: 'JobInput' })

export type JobInput = Readonly<Static<typeof JobInputSchema>>

/** The largest body of a job: the most inputs, each as long as a contact can be, as JSON. */
export const MAX_BODY_BYTES = 34 * 1_024 * 1_024

/** The shortest and the longest deadline of a job: a minute, and two days. */
export const DEADLINE_SECONDS = { min: 60, max: 172_800 } as const

/** The option that needs a date. */
const DATED_OPTION = 'reassigned_number'
const OPTION_PATTERN =
  `^(?:${Object.keys(OPTION_COLUMNS).filter(name => name !== DATED_OPTION).join('|')}|` +
  `${DATED_OPTION}:\\d{4}-\\d{2}-\\d{2})$`

/** Bodies of jobs: phones, e-mail addresses, and inputs with ids. */
export const JOB_EXAMPLES = [
  {
    service: 'phone-validation',
    inputs: ['+12127365000', '(212) 736-5000', 'call me', '+442079460958'],
    countryCode: 'US',
  },
  {
    service: 'email-validation',
    inputs: ['jane@example.com'],
    forceFresh: true,
    deadline: 7_200,
    webhook_url: 'https://hooks.customer.example/jobs',
    metadata: { campaign: 'spring' },
  },
  {
    service: 'phone-validation',
    inputs: [
      { input: '+12127365000', id: 'customer-17' },
      { input: '+442079460958', id: 'customer-18' },
      'call me',
    ],
  },
]

/** The body of POST /api/v1/jobs. */
export const CreateJobSchema = Type.Object({
  service: serviceSlug(
    'What is verified; GET /api/v1/services says which kind of input it takes.'),
  inputs: Type.Array(JobInputSchema, {
    minItems: 1,
    maxItems: MAX_INPUTS,
    description: 'Phone numbers or e-mail addresses, each as a string or, with your own id, as ' +
      'an object; both kinds may be mixed. One that can be none, as it is empty or has more ' +
      `than ${MAX_CONTACT_CHARACTERS} characters, is an invalid row, free of charge; of more ` +
      `than ${MAX_INPUT_CHARACTERS.toLocaleString('en')} characters the results have the first ` +
      'ones behind white space.',
  }),
  countryCode: Type.Optional(Type.String({
    pattern: COUNTRY_PATTERN,
    description: 'ISO 3166 two-letter code for numbers without international format, any case; ' +
      'XK, AC and TA are taken as well. A number without international format is invalid with ' +
      'the code of a country that has no numbering plan.',
  })),
  forceFresh: Type.Optional(Type.Boolean({
    default: false, description: 'true bypasses the cache and checks live.',
  })),
  options: Type.Optional(Type.Array(Type.String({ pattern: OPTION_PATTERN }), {
    maxItems: Object.keys(OPTION_COLUMNS).length,
    uniqueItems: true,
    description: 'What else to find out about each number, at a price of its own that adds to ' +
      'that of the row. GET /api/v1/services says which options a service has and what they ' +
      'cost; `reassigned_number` is sent with the date of the consent or of the last contact, as ' +
      '`reassigned_number:2026-01-31`. A row is charged if all chosen options have an answer, ' +
      'else it ends unknown, free of charge.',
  })),
  deadline: Type.Optional(Type.Integer({
    minimum: DEADLINE_SECONDS.min,
    maximum: DEADLINE_SECONDS.max,
    description: 'Seconds from the creation of the job after which rows that still wait for an ' +
      'answer, such as that of a mail server which asked to come back later, end as unknown, ' +
      'free of charge. Left out, the operator\'s time limit applies, usually six hours. A quote ' +
      'ignores it.',
  })),
  webhook_url: Type.Optional(Type.String({
    maxLength: 2_048,
    pattern: WEB_ADDRESS_PATTERN,
    description: 'An absolute URL, which must begin with https://, of a public address: it ' +
      'receives the signed events of the job.',
  })),
  metadata: Type.Optional(Type.Unsafe<Record<string, string>>({
    type: 'object',
    maxProperties: 50,
    propertyNames: { maxLength: 40 },
    additionalProperties: { type: 'string', maxLength: 500 },
    description: 'Labels of the client, shown again with the job.',
  })),
}, {
  title: 'JobRequest',
  additionalProperties: false,
  examples: JOB_EXAMPLES,
})

/** A UUID of version 4 in any case. */
export const UUID_V4_PATTERN =
  '^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-4[0-9A-Fa-f]{3}-[89ABab][0-9A-Fa-f]{3}-[0-9A-Fa-f]{12}$'

/** The optional header that makes repetitions of a request one job. */
export const IdempotencyHeaderSchema = Type.Object({
  'Idempotency-Key': Type.Optional(Type.String({
    format: 'uuid',
    pattern: UUID_V4_PATTERN,
    description: 'UUID of version 4. For 24 hours the same request with it is answered with the ' +
      'same job; another request with it is refused.',
    examples: ['7f3d2c1b-0a9e-4d8c-b7a6-5f4e3d2c1b0a'],
  })),
})
export type CreateJobBody = Static<typeof CreateJobSchema>

const Count = Type.Integer({ minimum: 0 })

/** A preflight, for examples. */
export const EXAMPLE_PREFLIGHT = {
  totalRows: 4,
  invalidRows: 1,
  duplicateRows: 1,
  cacheHits: 0,
  freshChecks: 2,
  maxQuoteMicros: 4_000,
  quoteId: 'quot_01jd3v8zj7m5n2k4q6r8s0t1w3',
}

/** The frozen counts and the guaranteed maximum price of a job. */
export const PreflightSchema = Type.Object({
  totalRows: Count,
  invalidRows: Count,
  duplicateRows: Count,
  cacheHits: Count,
  freshChecks: Count,
  maxQuoteMicros: Micros,
  quoteId: Type.String(),
}, { title: 'Preflight', examples: [EXAMPLE_PREFLIGHT] })

/** The body of the 202, one superset for both client typings. */
export const AcceptedSchema = Type.Object({
  id: Type.String({ examples: [EXAMPLE_JOB_ID] }),
  status: Type.Literal('queued'),
  preflight: PreflightSchema,
  ok: Type.Unsafe<true>({ type: 'boolean', description: 'Always true.', examples: [true] }),
  data: Type.Object({
    id: Type.String(),
    service: Type.String(),
    status: Type.Literal('queued'),
    item_count: Count,
    max_quote_micros: Micros,
    created_at: Type.String(),
  }, {
    examples: [{
      id: EXAMPLE_JOB_ID,
      service: 'phone-validation',
      status: 'queued',
      item_count: 4,
      max_quote_micros: 4_000,
      created_at: '2026-08-11T10:00:00.000Z',
    }],
  }),
}, { title: 'AcceptedJob' })
export type AcceptedBody = Static<typeof AcceptedSchema>
