import { Type } from 'typebox'

/** The body of every error answer; some codes add members. */
const ErrorSchema = Type.Object({
  error: Type.Object({
    type: Type.String(),
    code: Type.String(),
    message: Type.String(),
    param: Type.Optional(Type.String()),
    request_id: Type.String(),
  }, { additionalProperties: true }),
})

/** The error answers of every route that needs a key. */
export const ERROR_RESPONSES = { '4xx': ErrorSchema, '5xx': ErrorSchema }
