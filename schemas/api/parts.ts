// Parts that several schemas have in common.
import { type Static, type TSchema, Type } from 'typebox'

/** The version date of the interface, sent with every response and event. */
export const API_VERSION = '2026-08-11'

/** Every service of the interface, by its slug. */
export const SERVICE_SLUGS = [
  'phone-validation', 'whatsapp', 'telegram', 'carrier-single', 'carrier-lookup',
  'email-validation',
] as const

export type ServiceSlug = typeof SERVICE_SLUGS[number]

/** A service's slug in a request; a text to clients, since services may be added. */
export const serviceSlug = (description: string) => Type.Unsafe<string>({
  type: 'string', enum: [...SERVICE_SLUGS], description,
})

export const Micros = Type.Integer({
  minimum: 0, description: 'USD micros; 1 USD is 1,000,000.',
})

/** A number of things, with what they are. */
export const Count = (description: string) => Type.Integer({ minimum: 0, description })

export const TextOrNull = (description: string) => Type.Unsafe<string | null>({
  type: ['string', 'null'], description,
})

export const Time = Type.String({ description: 'ISO 8601, UTC, with milliseconds.' })

const DATE = '20\\d\\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])'
const HOUR_AND_MINUTE = '([01]\\d|2[0-3]):[0-5]\\d'
const TIME_PATTERN =
  `^${DATE}(T${HOUR_AND_MINUTE}(:[0-5]\\d(\\.\\d{1,9})?)?(Z|[+-]${HOUR_AND_MINUTE}))?$`

/** A parameter of a query that is a time; `what` says of what. */
export const timeParameter = (what: string) => Type.Optional(Type.String({
  pattern: TIME_PATTERN,
  description: 'A date (UTC) like 2026-08-11, or a timestamp like 2026-08-11T10:00:00Z, in which ' +
    `the + of an offset is encoded as %2B: ${what}`,
}))

/** How many items a page of a list has. */
export const limitParameter = (items: string, standard: number) => Type.Optional(Type.Integer({
  minimum: 1, maximum: 100, default: standard, description: `${items} on a page.`,
}))

/** A page of a list: its items, whether others follow, and where the next page begins. */
export const pageSchema = <Item extends TSchema, Title extends string>(
  item: Item, { title, cursor = 'after' }: { readonly title: Title, readonly cursor?: string }
) => Type.Object({
  data: Type.Array(item),
  has_more: Type.Boolean({ examples: [false] }),
  next_cursor: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    description: `To be sent as ${cursor}; null on the last page.`,
    examples: [null],
  }),
}, { title })

/** A schema with another example than its own. */
export const withExample = <Schema extends TSchema>(
  schema: Schema, example: Static<Schema>
): Schema => ({ ...schema, examples: [example] })
