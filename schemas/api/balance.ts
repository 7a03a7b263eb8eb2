import { Type, type Static } from 'typebox'
import { Count, Micros } from './parts.ts'

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
