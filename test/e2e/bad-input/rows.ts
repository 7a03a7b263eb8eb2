/** A test of this folder has the row in its title. */
const HERE = 'here'
const CONTRACT = 'test/e2e/contract'

type Row = { readonly says: string, readonly where: string }
const here = (says: string): Row => ({ says, where: HERE })

/**
 * Inputs that are wrong on purpose, by number, what becomes of each, and the test that proves it:
 * one of this folder, on running services, or the file of another one, followed by the beginning of
 * its title. Codes are those of the one table of errors, so there is
 * none of its own for a field that is unknown or comes twice, nor for results that are not ready.
 */
export const ROWS: Readonly<Record<number, Row>> = {
  1: here('no JSON, no body at all and NaN are 400 invalid_json'),
  2: here('a byte order mark before the JSON is skipped'),
  3: here('bytes that are no UTF-8 are 400 invalid_encoding'),
  4: here('a field that comes twice, at any depth, is 400 invalid_request and is named'),
  5: here('__proto__ and constructor.prototype, in any spelling, are 400'),
  6: here('100,000 levels of nesting are 400'),
  7: here('a body over 34 MB, elsewhere over 64 KiB, is 413 before it is read, or once it is seen'),
  8: here('lengths that lie, a length with chunks, and chunks of garbage are 400 and the end'),
  9: here('a compressed body is unpacked up to the limit; a broken one is 400, another coding 415'),
  10: here('any media type but JSON in UTF-8 and files is 415'),
  11: here('headers and bodies that come a byte at a time are 408 and the end'),
  12: here('headers of 100 kB or 2,000 of them are 431'),
  13: here('pipelines, HTTP/1.0, whole addresses and odd paths are answered, never with 5xx'),
  14: here('a method that a path does not take is 405 with Allow, an unknown one is 400'),
  15: here('a key that is missing, garbled, sent twice, too long or in the query is 401'),
  16: {
    says: 'a key that was revoked is 401, one without the scope 403',
    where: `${CONTRACT}/keys.ts: that is revoked has stopped working a second later`,
  },
  17: {
    says: 'the job of another organization is the same 404 as none',
    where: `${CONTRACT}/jobs.ts: is indistinguishable from one that does not exist`,
  },
  18: here('an id that is malformed is 404, one of a megabyte 431 as any long head'),
  19: here('inputs that are missing, empty or no list are 400 and named'),
  20: here('an input that is no text is 400 and named: nothing is converted'),
  21: {
    says: '100,001 inputs are 400 too_many_inputs',
    where: 'test/unit/ingest/app.test.ts: 100,001 inputs',
  },
  22: here('100,000 inputs of 320 characters are accepted, and others are answered meanwhile'),
  23: {
    says: 'an input over 320 characters is an invalid row, however long',
    where: `${CONTRACT}/requests.ts: an input over 320 characters is a free invalid row`,
  },
  24: here('empty and blank inputs are invalid rows and free'),
  25: here('control characters and lone surrogates are invalid rows in a well-formed file'),
  26: here('invisible characters do not make a phone number another, nor an address valid'),
  27: here('digits and domains of any script are one canonical form'),
  28: here('prefixes, extensions, letters and too many digits have one outcome each'),
  29: here('a country is taken in any case; one that is none is 400 invalid_country_code'),
  30: {
    says: 'writings of one number are duplicates',
    where: `${CONTRACT}/results.ts: that repeat a row, by canonical form`,
  },
  31: here('a job of invalid rows and duplicates alone completes and costs nothing'),
  32: {
    says: 'addresses in a job of phone numbers are invalid rows and free',
    where: `${CONTRACT}/requests.ts: each service takes one kind of contact`,
  },
  33: here('a service that is none, by case or space, is 400 unknown_service with the list'),
  34: here('forceFresh that is no boolean is 400'),
  35: here('an unknown field is 400 invalid_request and named'),
  36: here('metadata beyond 50 labels of 40 and 500 characters is 400; control characters in it ' +
    'are accepted, and returned'),
  37: here('a webhook address that is not public is 400, or never reached if its name hides it'),
  38: here('an Idempotency-Key that is no UUID v4, or two, is 400; its case makes no difference'),
  39: {
    says: 'one key and body a hundred times at once is one job and a hundred equal answers',
    where: `${CONTRACT}/idempotency.ts: sent a hundred times at once makes one job`,
  },
  40: {
    says: 'one key with another body is 422, of another organization a key of its own',
    where: `${CONTRACT}/idempotency.ts: compares what bodies mean`,
  },
  41: {
    says: 'a key is held for 24 hours by the clock of the store',
    where: `${CONTRACT}/idempotency.ts: is held for 24 hours from its first use`,
  },
  42: {
    says: 'a key of a refused request is free',
    where: `${CONTRACT}/idempotency.ts: of a refused request is free`,
  },
  43: here('fifty posts at once for the last dollar spend exactly what is there'),
  44: {
    says: 'the eleventh active job is 429 until one of them ends',
    where: `${CONTRACT}/jobs.ts: with fresh rows takes one of ten slots of its organization`,
  },
  45: {
    says: '101 in a burst are limited, also when the clock of the store goes back',
    where: 'test/properties/limits.test.ts: corrected by hours delays no request',
  },
  46: {
    says: 'results before the end are 409 job_not_completed with Retry-After',
    where: `${CONTRACT}/results.ts: requested before the end are 409 with Retry-After`,
  },
  47: {
    says: 'formulas are as submitted, and guarded with safe=spreadsheet unless they are numbers',
    where: `${CONTRACT}/results.ts: with safe=spreadsheet guard cells`,
  },
  48: {
    says: 'quotes, commas and line breaks come back from the file as they were',
    where: `${CONTRACT}/results.ts: has every row once, in order, its input byte for byte`,
  },
  49: here('a client that leaves in the middle makes no job and leaves nothing open'),
  50: here('ten downloads at once are all whole, and ranges are not cut'),
  51: here('the highest quote there can be is a whole number'),
  52: {
    says: 'nothing of a vendor is in any answer, file, event or history',
    where: `${CONTRACT}/neutrality.ts: is in no response, file, event or history`,
  },
  53: here('a deadline that is no whole number of seconds from a minute to two days is 400'),
  54: here('an id that is no text, over 128 characters or with control characters is 400, named'),
  55: here('100,000 ids of 128 characters are accepted, and objects of many shapes 400 at once'),
  56: here('a sample that is no boolean is 400, and is for quotes only'),
  57: here('options that are no list, of another service, twice, or of a day to come are 400'),
  58: here('a preview of no file, of a file that is no text, or with options of jobs is refused'),
  59: here('provisional but true, and a cursor or event id that was never given out, are 400'),
}

/** The name of a test, of the row that it proves. */
export const row = (number: number): string => `${number}: ${ROWS[number]?.says}`
