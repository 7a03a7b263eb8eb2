import { Type, type Static } from 'typebox'
import { EXAMPLE_PREFLIGHT, PreflightSchema } from './create-job.ts'
import { checksFields } from './services.ts'

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
}, {
  title: 'Quote',
  examples: [{
    preflight: EXAMPLE_PREFLIGHT,
    service: 'phone-validation',
    checks: ['syntax', 'numbering_plan', 'carrier_range'],
    limitations: ['range_only'],
    redeemable: false,
    expiresAt: '2026-08-11T10:01:25.000Z',
  }],
})

/** The type of that answer. */
export type QuoteBody = Static<typeof QuoteSchema>
