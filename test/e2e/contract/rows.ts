/** A test of this folder has the point in its title. */
const HERE = 'here'

/**
 * Every observable point of the interface, and the test that proves it: one of this folder, or the
 * file of another one, followed by the beginning of its title.
 */
export const ROWS = {
  // Requests
  'a body is taken as it is: what is not in the description is refused':
    'test/e2e/bad-input/rows.ts: an unknown field is 400 invalid_request and named',
  'a body that is no JSON, no UTF-8 or of another type is refused':
    'test/e2e/bad-input/bodies.ts: a byte no text has',
  'a job has 1 to 100,000 inputs':
    'test/e2e/bad-input/rows.ts: 100,000 inputs of 320 characters are accepted',
  'an input over 320 characters is a free invalid row, however long': HERE,
  'a body has at most 34 MB': 'test/e2e/bad-input/rows.ts: a body over 34 MB',
  'metadata has at most 50 labels of 40 and 500 characters':
    'test/e2e/bad-input/rows.ts: metadata beyond 50 labels of 40 and 500 characters is 400',
  'webhook_url is a public address without user, of at most 2,048 characters':
    'test/e2e/contract/customer-claims.ts: a customer may have events sent to any public address',
  'webhook_url is https unless configured for development':
    'test/unit/webhooks/url.test.ts: is not %.50s',
  'countryCode is taken in any case, and refused when there is no such country':
    'test/e2e/bad-input/rows.ts: a country is taken in any case',
  'is 202 with one body for both typings, and the path of the job': HERE,
  'without forceFresh the cache is used, with it all is checked live': HERE,
  'each service takes one kind of contact; the other is an invalid row': HERE,
  'a live key may use the services that have a provider': HERE,
  'memory for bodies in flight is bounded: beyond it 503 before reading': HERE,
  'a hundred jobs at once are a hundred times 202':
    'test/e2e/contract/customer-claims.ts: a customer is served all of a hundred',
  'a wait too long for a preflight is reported, and counts towards no limit':
    'test/unit/ingest/tenant-queues.test.ts: ' +
    'that wait too long are rejected, and refund the rate limits',

  // Idempotency
  'is a UUID of version 4 in any case':
    'test/e2e/bad-input/rows.ts: an Idempotency-Key that is no UUID v4, or two, is 400',
  'belongs to one organization and mode': HERE,
  'compares what bodies mean: the order of fields and defaults make no difference': HERE,
  'repeated with the same request returns the stored 202 bytes, marked as replayed': HERE,
  'sent a hundred times at once makes one job and a hundred equal answers': HERE,
  'is refused with 422 for another body':
    'test/e2e/contract/idempotency.ts: compares what bodies mean',
  'of a refused request is free: the next request is evaluated again': HERE,
  'is held for 24 hours from its first use by the clock of the store': HERE,
  'claimed by a service that died before it answered still makes one job': HERE,
  'a claim whose time has passed without a job is taken over': HERE,
  'is 503 with Retry-After, nothing is reserved, and no job comes of it': HERE,
  'no job is accepted after its request was refused':
    'test/properties/tally.test.ts: never accept after they were reported as expired',
  'is 503 that says the outcome is unknown when the store cannot be read':
    'test/unit/ingest/routes/create-job.test.ts: because infrastructure is away says',

  // Money
  'is the unit price for fresh checks and cache hits, never for duplicates or invalid rows': HERE,
  'cache hits are reserved and released at the end': HERE,
  'a balance below the maximum is 402 with both amounts, even when every row is a hit':
    'test/e2e/contract/customer-claims.ts: a customer reads in the 402 that rows from the cache',
  'rows without a verdict are free': HERE,
  'reserves nothing, makes no job, and its data key is deleted at once': HERE,
  'are listed with kind of contact, price and further columns': HERE,
  'the balance is shown, and what is reserved of it':
    'test/e2e/contract/money.ts: is the unit price for fresh checks',

  'a reservation is atomic, however many race for the balance':
    'test/properties/money.test.ts: a balance of %d accepts exactly %d jobs of 20,000 micros',
  'amounts up to the largest are reserved, charged and returned to the micro':
    'test/properties/money.test.ts: %d micros are reserved, charged and returned to the micro',
  'balances add up to what was funded, whatever happens in whatever order':
    'test/properties/money.test.ts: the balances add up to what was funded',
  'a job is charged at most its quote':
    'test/properties/rows.test.ts: ' +
    'are each finished exactly once, and never cost more than the quote',

  // Jobs
  'begin with queued in the 202 and only move forward': HERE,
  'without fresh rows never show a live check': HERE,
  'are never failed by the outcome of a row': HERE,
  'fail only by a fault of the system, which releases what is unspent':
    'test/integration/jobs.test.ts: fails a stalled job: one block for open rows',
  'has the fields of the interface, in their types': HERE,
  'counts that add up to the rows, a live verdict invalid being a success': HERE,
  'the preflight of the 202 stays as it was': HERE,
  'are counted by status and reason as in its file, while it runs and when it has ended': HERE,
  'has the deadline that was asked for, counted from its creation, as JSON and with a file': HERE,
  'shows how many rows wait, why and until when, and null once it is cancelled': HERE,
  'resultUrl is there from the beginning': HERE,
  'completes when the client disconnects during the POST': HERE,
  'with fresh rows takes one of ten slots of its organization; the eleventh is 429': HERE,
  'of cached or invalid rows alone takes no slot': HERE,
  'of another organization has slots of its own; test jobs take the same': HERE,
  'are listed newest first, by pages, with filters':
    'test/e2e/endpoints.test.ts: comes newest first, by pages, open ones and closed ones once each',
  'is read to its end by the client, page by page': HERE,
  'is cancelled in the middle: checks under way are charged, the rest is released':
    'test/e2e/endpoints.test.ts: in the middle of its checks ends with a complete file',
  'ends as cancelled, its rows released, and cannot be cancelled again': HERE,
  'is indistinguishable from one that does not exist': HERE,

  // Results
  'requested before the end are 409 with Retry-After': HERE,
  'are 410 after their retention': HERE,
  'is UTF-8 without byte order mark, with CRLF, an attachment named after the job': HERE,
  'has the standard columns, then those of the service': HERE,
  'has every row once, in order, its input byte for byte as submitted': HERE,
  'writes numbers as people do in phone and without spaces in e164': HERE,
  'fills closed columns from their lists, confidence from 0 to 100, generation_basis never': HERE,
  'names the holder of the number range as carrier': HERE,
  'takes the carrier of a provider that knows better': HERE,
  'has checked_at and expires_at on every row; without a verdict both are the decision': HERE,
  'that repeat a row, by canonical form, repeat its verdict and name the lowest row': HERE,
  'e-mail domains are compared in lower case and by IDNA, local parts without case': HERE,
  'that are possible but unassigned numbers are checked, impossible ones are invalid': HERE,
  'are the same as CSV, as pages and as lines':
    'test/e2e/endpoints.test.ts: are the same rows as CSV, as pages and as lines',
  'come in the format of the Accept header':
    'test/e2e/endpoints.test.ts: come in the format of the Accept header',
  'as JSON come by pages, filtered by status and source': HERE,
  'as JSON have true, false and numbers, with types=text the texts of before': HERE,
  'as JSON lines and as file are streamed by the client': HERE,
  'with safe=spreadsheet guard cells that begin like formulas and are no numbers': HERE,

  // Errors, versions, documents
  'has one form, and every answer has an X-Request-Id': HERE,
  'is in one table, the description of the interface': HERE,
  'without a usable key is 401 with WWW-Authenticate': HERE,
  'for a wrong path is 404, for a wrong method 405 with Allow': HERE,
  'for headers that are too large is 431':
    'test/e2e/bad-input/connections.ts: 100 kB in one header',
  'for a request that comes too slowly is 408': 'test/unit/ingest/app.test.ts: %s is answered',
  'of the service is 500 without detail':
    'test/unit/ingest/app.test.ts: %s is answered with %i',
  'is echoed in every answer and has no other switch than the path': HERE,
  'what is removed is announced twelve months ahead':
    'test/unit/ingest/response.test.ts: works for twelve months at least',
  'are the documents over HTTPS; health and metrics have a port of their own': HERE,
  'through a proxy must be HTTPS on its outer side; only known proxies are trusted':
    'test/e2e/contract/customer-claims.ts: a customer finds nothing in clear behind a proxy',
  'over TLS is served by certificate files':
    'test/e2e/https.test.ts: serves the interface to a client that trusts',

  // Limits
  'admit POST requests by two buckets, GET requests by one':
    'test/properties/limits.test.ts: holds over a minute too, however wide the burst is',
  'count live and test traffic of an organization together':
    'test/e2e/contract/customer-claims.ts: a customer has one rate limit for its live and its',
  'are in every authenticated response, in whole seconds from now':
    'test/e2e/contract/customer-claims.ts: a customer finds its limits in every answer',
  'count quotes, cancels and resends among the POST requests, cached rows as well': HERE,
  'of one organization are not touched by one that has used up its own':
    'test/properties/limits.test.ts: is not touched by another organization',

  // Keys
  'is vj_live_ or vj_test_, 30 characters and a checksum, and shown once': HERE,
  'is one of several, each with its scopes, its expiry and its last use': HERE,
  'needs jobs:write for what changes something, jobs:read for the rest': HERE,
  'that is rolled works during its grace, and not after it': HERE,
  'that is revoked has stopped working a second later': HERE,
  'pays nothing, and has jobs, cache and balance of its own': HERE,
  'is answered by the sandbox alone, the same every time': HERE,
  'gets 402 for a sandbox input': HERE,

  // Freshness
  'that is shortened counts at once, for records that are already there as well': HERE,
  'expires_at follows the policy': HERE,
  'is at most 90 days': HERE,
  'no record is used after 90 days':
    'test/unit/cache/cache.test.ts: is capped at 90 days, whatever the policy',

  // Tokens and seals
  'cache tokens are an HMAC over scope and contact under a key of the tenant':
    'test/unit/cache/tokens.test.ts: are the first half of an HMAC of scope and contact',
  'sealed bytes open by their key and binding alone':
    'test/unit/runtime/crypto/seal.test.ts: do not decrypt with another key or binding',

  // Webhooks
  'is signed in both schemes, and sent once results are readable':
    'test/integration/deliver.test.ts: ' +
    'is signed in both schemes, and sent once results are readable',
  'reports a cancelled job with its status resource and no rows': HERE,
  'has one signature for each active secret while they change': HERE,
  'that failed is in the history of its job and can be resent': HERE,
  'is attempted on schedule until exhausted, with a new signature each time':
    'test/integration/deliver.test.ts: is attempted on schedule until exhausted',
  'is tried ten times in 75 h 35 min':
    'test/unit/deliver/attempt.test.ts: has ten attempts in 75 h',
  'stops at 410': 'test/integration/deliver.test.ts: stops at 410',
  'does not follow a redirect': 'test/integration/deliver.test.ts: does not follow a redirect',
  'grants Retry-After up to twice the step':
    'test/unit/deliver/attempt.test.ts: grants up to twice the wait on request',
  'to one receiver is not delayed by another that hangs':
    'test/e2e/webhook-isolation.test.ts: delay no healthy one, and all end with their history',
  'goes to no internal address, checked when the socket connects':
    'test/properties/webhook-addresses.test.ts: is resolved once an attempt, and the socket uses',
  'is verified by the client, in both schemes':
    'test/unit/client/verify-webhook.test.ts: accepts both signature schemes',
  'is refused by the client beyond 300 seconds':
    'test/unit/client/verify-webhook.test.ts: accepts a timestamp %i seconds away and none further',

  // The vendor behind a service
  'has its money reserved before the vendor is first called': HERE,
  'is delayed while the vendor is down, and continues when it is back': HERE,
  'of rows the vendor has no verdict of ends unknown and free': HERE,
  'is in no response, file, event or history': HERE,
  'is in no file and no log': HERE,
  'is in none of the documents': HERE,
  'contacts and labels are in no store in clear':
    'test/e2e/secrecy.test.ts: has no contact, label, address or secret in clear, whatever fails',

  // Feeds
  'gives each contact of a partner one result under its reference':
    'test/e2e/feeds.test.ts: yields one result per contact, though feed, settle and publish',
  'of a partner without balance pauses that partner alone':
    'test/integration/shared-feeds.test.ts: continue while one has no balance',

  // The client
  'the client waits a random part of a backoff that doubles':
    'test/unit/client/transport.test.ts: is a random part of a backoff that doubles',
  'the client ignores fields it does not know':
    'test/unit/client/client.test.ts: has the fields that the client does not know as well',

  // The whole
  'leaves rows and money that add up': HERE,
  'the documents are open to all':
    'test/e2e/contract/errors.ts: are the documents over HTTPS',
  'answers only as it is described':
    'test/e2e/schemathesis.test.ts: answers only as described, breaks nowhere',

  // Durations
  'the latency of cached rows is measured': 'test/bench/limits.ts: 100 rows all cached, idle, p50',
  'the latency of fresh rows is measured': 'test/bench/limits.ts: 100 fresh rows, idle, p95',
  'limits are those of the interface unless others are set':
    'test/unit/ingest/limits/limiter.test.ts: are those of the public interface unless others',
  'durations are those of the interface unless others are set':
    'test/unit/ingest/config.test.ts: has the values of the public interface as defaults',
} as const satisfies Readonly<Record<string, string>>

type Rows = typeof ROWS

/** A point that a test of this folder has to prove. */
export type Point = { [P in keyof Rows]: Rows[P] extends typeof HERE ? P : never }[keyof Rows]

/** The name of a test, of the points that it proves. */
export const proves = (...points: readonly Point[]): string => points.join('; ')
