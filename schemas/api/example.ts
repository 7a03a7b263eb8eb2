import type { Static, TSchema } from 'typebox'

/** A schema with another example than its own. */
export const withExample = <Schema extends TSchema>(
  schema: Schema, example: Static<Schema>
): Schema => ({ ...schema, examples: [example] })
