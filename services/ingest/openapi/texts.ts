import { ERRORS } from '../errors.ts'
import { SANDBOX_REFUSALS } from '../request.ts'

export const TAGS = [
  { name: 'Jobs', description: 'Batches of contacts to verify.' },
  { name: 'Quotes', description: 'The price of a job, and what its file has, without a job.' },
  {
    name: 'Contact lists',
    description: 'Contacts that are never checked: allowed, blocked or suppressed.',
  },
  {
    name: 'Webhook endpoints',
    description: 'Addresses that receive the events of all jobs of an organization.',
  },
  { name: 'Account', description: 'Balance, transactions, usage and services.' },
  { name: 'Documents', description: 'Available without a key.' },
  {
    name: 'Events',
    description: 'Signed notifications: the end of a job goes to its `webhook_url`, and every ' +
      'event to the webhook endpoints that are subscribed to it. Events may arrive in any order. ' +
      'A receiver\n\n' +
      '- reads the raw body, and verifies the signature over its bytes: ' +
      '`X-Service-Signature: t=<unix seconds>,v1=<hex>`, where `v1` is the HMAC-SHA256 of ' +
      '`<t>.<body>` and the key is the whole `whsec_...` text; during a rotation there is one ' +
      '`v1` per secret, and one match is enough\n' +
      '- rejects events more than 300 seconds old, and compares in constant time\n' +
      '- answers 2xx within 15 seconds, and processes the event afterwards\n' +
      '- expects an event more than once: its `id` is the same each time',
  },
] as const

/**
 * The outcomes of inputs with a test key. A test compares them with the sandbox provider.
 */
const TEST_INPUTS = `| input with a test key | outcome |
|---|---|
| phone ending in \`0001\` | the number is in no assigned range |
| phone ending in \`0002\` | the line was disconnected recently |
| phone ending in \`0003\` | the check has no verdict |
| phone ending in \`0004\` | valid, answered after two seconds |
| phone ending in \`0005\` | the check is unavailable: retried for 15 minutes, then unknown |
| phone ending in \`0006\` | the check times out: retried for 15 minutes, then unknown |
| phone ending in \`0007\` | valid and ported; for messengers \`invalid\`, not registered |
| phone ending in \`0008\` | valid; \`unknown\`, \`option_not_answered\`, for a job with options |
| e-mail \`invalid@...\` | the mailbox does not exist |
| e-mail \`risky@...\` | the domain accepts mail for any name |
| e-mail \`unknown@...\` | the check has no verdict |
| e-mail \`slow@...\` | valid, answered after two seconds |
| e-mail \`unavailable@...\` | the check is unavailable: retried for 15 minutes, then unknown |
| e-mail \`timeout@...\` | the check times out: retried for 15 minutes, then unknown |
| e-mail \`disposable@...\` | a disposable address |
| e-mail \`role@...\` | a role address, not a person |
| any other valid contact | valid |
| phone \`${SANDBOX_REFUSALS.phone.input}\` | ${SANDBOX_REFUSALS.phone.means} |
| e-mail \`${SANDBOX_REFUSALS.email.input}...\` | ${SANDBOX_REFUSALS.email.means} |`

export const INTRODUCTION = `Verifies phone numbers and e-mail addresses in batches.

A job holds 1 to 100,000 inputs. The answer is 202 once its maximum price is quoted and
reserved; the job continues in the background. Money is always an integer of USD micros: 1 USD is
1,000,000. Invalid rows, duplicates, rows from the cache and rows without a verdict are
free.

## Authentication

Requests need HTTPS, and under \`/api/v1\` the header \`Authorization: Bearer <API_KEY>\`. Create
keys on the workspace page, which shows each key once: \`vj_live_...\` checks and pays,
\`vj_test_...\` does neither. A key has scopes, and each operation names the one that it needs. It
can be limited to networks, and expire. Keep keys on servers, never in a page or an app. The
examples of this page read the key and the address of this service from the shell:

    export BASE=https://api.example.com/api/v1
    export KEY=vj_test_...

and in TypeScript from a client, which also retries requests:

    import { createClient } from './services/client/client.ts'
    const client = createClient({ baseUrl: process.env.BASE, apiKey: process.env.KEY })

## Requests and answers

Bodies are JSON in UTF-8 of at most 34 MiB; unknown fields are rejected, and types are not
converted. The body of a job or a quote can also be a file, see below, and it can be compressed:
\`Content-Encoding: gzip\` or \`zstd\`. Limits count decompressed bytes. A body must arrive within a
minute; a body over 64 KiB that is slower than 16 KiB a second, or too slow for that minute, is
rejected with 408. Clients must ignore unknown fields. HEAD is available wherever GET is, and
OPTIONS returns the methods of a path. A trailing slash is the same resource.

## Files

A CSV file, in UTF-8 or Windows-1252, or an Excel workbook (.xlsx) is sent as part \`file\` of
\`multipart/form-data\`, with its options as fields, or as the body, as \`text/csv\` or
\`application/vnd.openxmlformats-officedocument.spreadsheetml.sheet\`, with its options in the
query. \`column\` selects the contacts, \`sheet\` the sheet of a workbook; delimiter and header
line are detected. The request means the same as JSON with the cells of that column as \`inputs\`.
All columns are kept, encrypted under the key of the job, and \`?join=original\` on its results
returns them.

## Limits

For each organization, live and test together: POST 100 at once and 1,000 a minute, GET 200 a
second. Each is a token bucket that starts full and refills evenly. A full bucket of 1,000 that
refills with 1,000 a minute admits up to 2,000 requests in its first minute, and 1,000 in each
minute after it; the other bucket admits 100 of them at once and 100 more each second. At full
speed the 1,000 last about 11 seconds, then 16 or 17 requests a second are admitted. In each mode
10 jobs that check live are active at a time. Under load some requests wait for their
preflight, and all are answered. Every response to a key has the state of the limit closest to
exhaustion in \`RateLimit-*\`, and the seconds to wait in \`Retry-After\`, 0 for none.

Requests without a valid key are limited for each address: above that they get 429 until the
seconds in \`Retry-After\` have passed, and requests with a valid key are answered. Pipelined
requests of a connection are handled one after another. A client that does not read its response
for half a minute is disconnected.

## Counters of a job

Each row of a job is counted in one place, whatever the state of the job:

    totalRows = cacheHits + freshRecords + invalidRecords + duplicateRecords
              + unknownRecords + cancelledRecords + pendingRecords

The counters say how rows ended, as the column \`source\` of the results does: \`cacheHits\` are the
rows of \`cache\`, \`freshRecords\` of \`live\`, \`invalidRecords\` of \`preflight\`,
\`duplicateRecords\` of \`duplicate\`, and \`unknownRecords + cancelledRecords\` of \`none\`. A row
without a verdict is not in \`freshRecords\`: its job was cancelled, the checks were down until the
deadline, or they could not tell. When the job ends, \`pendingRecords\` is 0 and
\`successRecords + failedRecords = totalRows\`: \`successRecords\` is \`cacheHits + freshRecords\`
and the duplicates of those rows. \`invalidRows\` and \`duplicateRows\` are those of the preflight.
\`cacheHits + freshRecords + invalidRows + duplicateRows = totalRows\` holds at the end of a job in
which every other row got a verdict.

\`verdicts\` and \`reasons\` count the rows by the columns \`status\` and \`reason\` of the
results, also while the job runs. A duplicate counts together with its original, so both add up to
\`successRecords + failedRecords\`.

## Repeating a request

POST /api/v1/jobs takes an \`Idempotency-Key\`, a UUID of version 4. For 24 hours the same request
with it is answered with the same job and \`Idempotent-Replayed: true\`; another request with it is
rejected. Repeat a request that was answered with 503, or not at all, with the same key.

## Test keys

A test key has its own data and balance, counts towards the limits of its organization, and pays
nothing. No contact is reached: the input decides its outcome.

${TEST_INPUTS}

## Errors

`

/** The error table in Markdown. */
export const ERROR_TABLE = [
  'An error is answered as `{"error": {"type", "code", "message", "param"?, "request_id"}}`.',
  '',
  '| status | code | type | message |',
  '|---|---|---|---|',
  ...Object.entries(ERRORS).map(([code, [status, type, message]]) =>
    `| ${status} | \`${code}\` | ${type} | ${message} |`),
  '',
].join('\n')
