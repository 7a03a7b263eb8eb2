import type { BalanceBody } from '../../schemas/api/balance.ts'
import type { ServicesBody } from '../../schemas/api/services.ts'
import type {
  TransactionBody, TransactionList, TransactionsQuery,
} from '../../schemas/api/transactions.ts'
import type { UsageBody, UsageQuery } from '../../schemas/api/usage.ts'
import { paginate, queryString } from './pages.ts'
import { jsonOf, type Transport } from './transport.ts'

const MAX_TRANSACTIONS_PAGE = 100
type UsageFilter = Omit<UsageQuery, 'format'>

/** Balance, movements, usage and services of the organization that owns the key. */
export function createAccountApi (send: Transport) {
  const transactionsPage = (query: TransactionsQuery = {}) =>
    jsonOf<TransactionList>(send(`/transactions${queryString(query)}`))

  return {
    balance: () => jsonOf<BalanceBody>(send('/balance')),

    transactionsPage,

    /** Iterates over the movements of the balance, newest first. */
    transactions: (filter: Omit<TransactionsQuery, 'after'> = {}): AsyncIterable<TransactionBody> =>
      paginate(async cursor =>
        await transactionsPage({ limit: MAX_TRANSACTIONS_PAGE, ...filter, ...cursor }), 'after'),

    /** Jobs, rows and money by day, service or key; by default the last 30 days by day. */
    usage: (query: UsageFilter = {}) =>
      jsonOf<UsageBody>(send(`/usage${queryString({ ...query, format: 'json' })}`)),

    /** The same as a CSV file. */
    usageFile: async (query: UsageFilter = {}): Promise<string> =>
      (await send(`/usage${queryString({ ...query, format: 'csv' })}`)).text(),

    /** The services with their prices for the mode of the key. */
    services: async () => (await jsonOf<ServicesBody>(send('/services'))).data,
  }
}
