import { Type } from 'typebox'

/** The body of every error answer; some codes add members. */
export const ErrorSchema = Type.Object({
  error: Type.Object({
    type: Type.String(),
    code: Type.String(),
    message: Type.String(),
    param: Type.Optional(Type.String()),
    request_id: Type.String(),
  }, { additionalProperties: true }),
})
