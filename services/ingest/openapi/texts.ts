import { ERRORS } from '../errors.ts'

export const TAGS = [
  { name: 'Jobs', description: 'Batches of contacts that are verified together.' },
  { name: 'Quotes', description: 'The price of a job, without the job.' },
  { name: 'Account', description: 'Money and services.' },
  { name: 'Documents', description: 'Open to all.' },
  { name: 'Events', description: 'Signed notifications of the ends of jobs.' },
] as const

export const INTRODUCTION = `Verifies phone numbers and e-mail addresses in batches.

A job holds 1 to 100,000 inputs. It is answered with 202 once its maximum price is quoted and
reserved, and goes on in the background. Money is always an integer of USD micros: 1 USD is
1,000,000. Rows that are no contact, rows that repeat another one, rows from the cache and rows
without a verdict are free.

Every request carries \`Authorization: Bearer <API_KEY>\`. A test key has data, limits and a balance
of its own, pays nothing, and is answered by what the input says. Clients ignore fields they do not
know.

`

/** Every error of the one table, as a table of Markdown. */
export const ERROR_TABLE = [
  'An error is answered as `{"error": {"type", "code", "message", "param"?, "request_id"}}`.',
  '',
  '| status | code | type | message |',
  '|---|---|---|---|',
  ...Object.entries(ERRORS).map(([code, [status, type, message]]) =>
    `| ${status} | \`${code}\` | ${type} | ${message} |`),
  '',
].join('\n')
