import { Type, type Static } from 'typebox'

/** The answer to GET /api/v1/services: all services, for the mode of the key. */
export const ServicesSchema = Type.Object({
  data: Type.Array(Type.Object({
    slug: Type.String(),
    inputKind: Type.Enum(['phone', 'email']),
    priceMicros: Type.Integer({
      minimum: 0, description: 'USD micros for a row checked live with a verdict.',
    }),
    columns: Type.Array(Type.String(), {
      description: 'Columns of the result file behind those that all services have.',
    }),
    configured: Type.Boolean({ description: 'Whether a job of this key may use it now.' }),
  })),
})

/** The type of that answer. */
export type ServicesBody = Static<typeof ServicesSchema>
