import { Type, type Static } from 'typebox'
import { EXAMPLE_JOB_ID } from './job.ts'
import { limitParameter, pageOf, TextOrNull, Time } from './parts.ts'

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

const Micros = (description: string) => Type.Integer({ description })

/** A movement of money in the wallet of the key's organization and mode, in USD micros. */
const TransactionSchema = Type.Object({
  id: Type.String({ description: 'txn_ and a number that grows by 1 with each transaction.' }),
  type: Type.Enum([...TRANSACTION_TYPES], {
    description: 'topup: money was added. adjust: a correction. reserve: the maximum price of a ' +
      'job was set aside. settle: a job ended, its price was charged and the rest released. ' +
      'void: a reservation was released without a charge.',
  }),
  amountMicros: Micros('What was added, corrected, set aside, or taken out of the reservation.'),
  chargedMicros: Micros('The part of the amount that was charged.'),
  availableMicros: Micros('Available afterwards.'),
  reservedMicros: Micros('Reserved afterwards.'),
  balanceMicros: Micros('Available and reserved afterwards.'),
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
export const TransactionListSchema = pageOf(TransactionSchema, { title: 'TransactionList' })
export type TransactionList = Static<typeof TransactionListSchema>
