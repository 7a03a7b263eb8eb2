import { Type, type Static } from 'typebox'
import { PreflightSchema } from './create-job.ts'
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
}, { title: 'Quote' })

/** The type of that answer. */
export type QuoteBody = Static<typeof QuoteSchema>
