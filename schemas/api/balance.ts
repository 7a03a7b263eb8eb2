import { Type, type Static } from 'typebox'
import { Micros } from './parts.ts'

/** The answer to GET /api/v1/balance. */
export const BalanceSchema = Type.Object({
  balanceMicros: Type.Integer({ minimum: 0, description: 'Available and reserved together.' }),
  reservedMicros: Micros,
  availableMicros: Micros,
  currency: Type.Literal('USD'),
}, {
  title: 'Balance',
  examples: [{
    balanceMicros: 1_000_000, reservedMicros: 4_000, availableMicros: 996_000, currency: 'USD',
  }],
})

/** The type of that answer. */
export type BalanceBody = Static<typeof BalanceSchema>
