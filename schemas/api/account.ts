import { type Static, Type } from 'typebox'
import { EXAMPLE_JOB_ID, USAGE_COUNTERS } from './job.ts'
import {
  Count, limitParameter, Micros, pageSchema, serviceSlug, TextOrNull, Time, timeParameter,
} from './parts.ts'

/** The answer to GET /api/v1/balance. */
export const BalanceSchema = Type.Object({
  balanceMicros: Count('Available and reserved together.'),
  reservedMicros: Micros,
  availableMicros: Micros,
  currency: Type.Literal('USD'),
}, {
  title: 'Balance',
  examples: [{
    balanceMicros: 1_000_000, reservedMicros: 4_000, availableMicros: 996_000, currency: 'USD',
  }],
})
export type BalanceBody = Static<typeof BalanceSchema>

export const DEFAULT_TRANSACTIONS = 20

/** The kinds of movements of a wallet. */
const TRANSACTION_TYPES = ['topup', 'adjust', 'reserve', 'settle', 'void'] as const

const TRANSACTION_ID_PATTERN = '^txn_[1-9]\\d{0,14}$'

/** The query of GET /api/v1/transactions. */
export const TransactionsQuerySchema = Type.Object({
  limit: limitParameter('Transactions', DEFAULT_TRANSACTIONS),
  after: Type.Optional(Type.String({
    pattern: TRANSACTION_ID_PATTERN,
    description: 'The next_cursor of the page before: only transactions older than this one.',
  })),
  type: Type.Optional(Type.Enum([...TRANSACTION_TYPES], {
    description: 'Only transactions of this type.',
  })),
}, { additionalProperties: false })
export type TransactionsQuery = Static<typeof TransactionsQuerySchema>

const SignedMicros = (description: string) => Type.Integer({ description })

/** A movement of money in the wallet of the key's organization and mode, in USD micros. */
const TransactionSchema = Type.Object({
  id: Type.String({ description: 'txn_ and a number that grows by 1 with each transaction.' }),
  type: Type.Enum([...TRANSACTION_TYPES], {
    description: 'topup: money was added. adjust: a correction. reserve: the maximum price of a ' +
      'job was set aside. settle: a job ended, its price was charged and the rest released. ' +
      'void: a reservation was released without a charge.',
  }),
  amountMicros: SignedMicros(
    'What was added, corrected, set aside, or taken out of the reservation.'),
  chargedMicros: SignedMicros('The part of the amount that was charged.'),
  availableMicros: SignedMicros('Available afterwards.'),
  reservedMicros: SignedMicros('Reserved afterwards.'),
  balanceMicros: SignedMicros('Available and reserved afterwards.'),
  jobId: TextOrNull('null for topup and adjust.'),
  createdAt: Time,
}, {
  title: 'Transaction',
  examples: [{
    id: 'txn_7',
    type: 'settle',
    amountMicros: 4_000,
    chargedMicros: 4_000,
    availableMicros: 996_000,
    reservedMicros: 0,
    balanceMicros: 996_000,
    jobId: EXAMPLE_JOB_ID,
    createdAt: '2026-08-11T10:00:02.500Z',
  }],
})
export type TransactionBody = Static<typeof TransactionSchema>

/** A page of transactions, newest first. */
export const TransactionListSchema = pageSchema(TransactionSchema, { title: 'TransactionList' })
export type TransactionList = Static<typeof TransactionListSchema>

/** What usage can be grouped by. */
const USAGE_GROUPS = ['day', 'service', 'key'] as const
export const DEFAULT_USAGE_GROUP = 'day'
export const MAX_USAGE_DAYS = 366
export const DEFAULT_USAGE_DAYS = 30

/** The query of GET /api/v1/usage. */
export const UsageQuerySchema = Type.Object({
  from: timeParameter(
    `jobs created from then on. By default ${DEFAULT_USAGE_DAYS} days, the last one included.`),
  to: timeParameter('jobs created before it; a date includes its whole day. By default now. At ' +
    `most ${MAX_USAGE_DAYS} days after from.`),
  group_by: Type.Optional(Type.String({
    pattern: '^(day|service|key)(,(day|service|key)){0,2}$',
    default: DEFAULT_USAGE_GROUP,
    description: 'One or more of day (of the creation, UTC), service and key (of the request), ' +
      'separated by commas.',
  })),
  format: Type.Optional(Type.Enum(['json', 'csv'], {
    description: 'Without it the Accept header chooses, and JSON is the default.',
  })),
}, { additionalProperties: false })
export type UsageQuery = Static<typeof UsageQuerySchema>

const Counters = {
  jobs: Count('Jobs that have ended.'),
  totalRows: Count(`Their rows: ${USAGE_COUNTERS.join(' + ')}.`),
  cacheHits: Count('Rows answered from the cache of the organization.'),
  freshRecords: Count('Rows verified live.'),
  invalidRecords: Count('Rows that were invalid input, or blocked or suppressed by a list.'),
  duplicateRecords: Count('Rows that repeat another row of their job.'),
  unknownRecords: Count('Rows that ended without a verdict, other than by a cancellation.'),
  cancelledRecords: Count('Rows that were cancelled before they were verified.'),
  successRecords: Count('Rows with a verdict, duplicates of such rows included.'),
  failedRecords: Count('Rows without a verdict, duplicates of such rows included.'),
  chargedMicros: Count('Money charged, in USD micros.'),
  verdicts: Type.Object({
    valid: Type.Integer({ minimum: 0 }),
    invalid: Type.Integer({ minimum: 0 }),
    risky: Type.Integer({ minimum: 0 }),
    unknown: Type.Integer({ minimum: 0 }),
  }, {
    description: 'Their rows by the status in the results, without the jobs whose verdicts are ' +
      'null. In CSV these are the columns valid, invalid, risky and unknown.',
  }),
}

const EXAMPLE_COUNTS = {
  jobs: 1,
  totalRows: 4,
  cacheHits: 0,
  freshRecords: 2,
  invalidRecords: 1,
  duplicateRecords: 1,
  unknownRecords: 0,
  cancelledRecords: 0,
  successRecords: 3,
  failedRecords: 1,
  chargedMicros: 4_000,
}
const EXAMPLE_VERDICTS = { valid: 3, invalid: 1, risky: 0, unknown: 0 }

/** The usage of one group; `day`, `service` and `key` as far as it was grouped by them. */
const UsageGroupSchema = Type.Object({
  day: Type.Optional(Type.String({ description: 'Date in UTC: 2026-08-11.' })),
  service: Type.Optional(serviceSlug('Slug of the service.')),
  key: Type.Optional(TextOrNull('Id of the API key that created the jobs; workspace for jobs of ' +
    'the workspace page; null for bulk feeds, and jobs from before ids were recorded.')),
  ...Counters,
}, { title: 'UsageGroup' })
export type UsageGroup = Static<typeof UsageGroupSchema>

/** The usage of a time range by group, in the order of the groups. */
export const UsageSchema = Type.Object({
  from: Type.String({ description: 'ISO 8601, UTC: the first included millisecond.' }),
  to: Type.String({ description: 'ISO 8601, UTC: the first excluded millisecond.' }),
  group_by: Type.Array(Type.Enum([...USAGE_GROUPS])),
  data: Type.Array(UsageGroupSchema, { description: 'Groups without a job are left out.' }),
  total: Type.Object(Counters),
}, {
  title: 'Usage',
  examples: [{
    from: '2026-08-11T00:00:00.000Z',
    to: '2026-08-12T00:00:00.000Z',
    group_by: ['day'],
    data: [{ day: '2026-08-11', ...EXAMPLE_COUNTS, verdicts: EXAMPLE_VERDICTS }],
    total: { ...EXAMPLE_COUNTS, verdicts: EXAMPLE_VERDICTS },
  }],
})

const EXAMPLE_CSV = [
  ['day', ...Object.keys(EXAMPLE_COUNTS), ...Object.keys(EXAMPLE_VERDICTS)],
  ['2026-08-11', ...Object.values(EXAMPLE_COUNTS), ...Object.values(EXAMPLE_VERDICTS)],
]

/** The same as CSV. */
export const UsageCsvSchema = Type.String({
  examples: [EXAMPLE_CSV.map(cells => `${cells.join()}\r\n`).join('')],
})
export type UsageBody = Static<typeof UsageSchema>
