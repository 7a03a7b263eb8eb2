import { Type } from 'typebox'

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
