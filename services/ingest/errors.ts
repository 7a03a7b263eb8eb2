import { MAX_BODY_BYTES } from '../../schemas/api/create-job.ts'
import { Count } from '../../schemas/api/parts.ts'
import { SMALL_BODY_BYTES } from '../runtime/platform/peer-guards.ts'

/** The kind of an error code, for clients that handle kinds instead of codes. */
type ErrorType =
  | 'invalid_request' | 'authentication' | 'payment' | 'permission' | 'not_found' | 'conflict'
  | 'idempotency' | 'rate_limit' | 'internal' | 'unavailable'

const KIB = 1_024
const MIB = KIB * KIB

/** What an answer has beside its code. */
type ErrorDetails = {
  /** Replaces the message of the table by a more specific one. */
  readonly message?: string
  /** The invalid field, for example `inputs[3]`. */
  readonly param?: string
  /** Further members of the error object. */
  readonly more?: Readonly<Record<string, string | number | readonly string[]>>
  readonly retryAfterSeconds?: number
  readonly headers?: Readonly<Record<string, string>>
}

type Entry = readonly [
  status: number, type: ErrorType, message: string,
  /** For the description: schemas of further members, and what an example has. */
  described?: { readonly more?: Readonly<Record<string, object>>, readonly example: ErrorDetails },
]

const Texts = { type: 'array', items: { type: 'string' } }

/** All errors of the interface: code, status, kind, and what the client can do. */
export const ERRORS = {
  invalid_json: [400, 'invalid_request', 'The body is not valid JSON. Send one JSON object.'],
  invalid_encoding: [400, 'invalid_request', 'The body is not valid UTF-8. Encode it as UTF-8.'],
  invalid_request: [400, 'invalid_request', 'The request is not valid.', {
    example: { param: 'forceFresh', message: 'forceFresh must be true or false, without quotes.' },
  }],
  unknown_service: [400, 'invalid_request', 'There is no such service.', {
    more: { services: Texts },
    example: {
      param: 'service',
      message: 'service must be one of: phone-validation, email-validation.',
      more: { services: ['phone-validation', 'email-validation'] },
    },
  }],
  service_not_configured: [400, 'invalid_request',
    'This service is not available with a live key yet. Use a test key, or another service.',
    { example: { param: 'service' } }],
  invalid_country_code: [400, 'invalid_request',
    'countryCode is not an ISO 3166 two-letter code. Send one, for example US, or leave it out.',
    { example: { param: 'countryCode' } }],
  invalid_file: [400, 'invalid_request', 'The file cannot be read. Send one CSV file in UTF-8.', {
    example: {
      param: 'file',
      message: 'Line 3 of the file has 3 cells, but its first line has 2. Put cells with a ' +
        'delimiter in them between double quotes.',
    },
  }],
  too_many_inputs: [400, 'invalid_request',
    'A job has at most 100,000 inputs. Split it into several jobs.',
    { example: { param: 'inputs' } }],
  invalid_webhook_url: [400, 'invalid_request', 'The webhook address is not acceptable.',
    { example: { param: 'webhook_url' } }],
  invalid_idempotency_key: [400, 'invalid_request',
    'Idempotency-Key is not a UUID of version 4. Send exactly one, or leave the header out.',
    { example: { param: 'Idempotency-Key' } }],
  missing_key: [401, 'authentication', 'Send your API key as: Authorization: Bearer <API_KEY>.'],
  invalid_key: [401, 'authentication',
    'The API key does not exist, or was not sent as: Authorization: Bearer <API_KEY>. Check ' +
    'both, or create a new key in the workspace.'],
  expired_key: [401, 'authentication',
    'The API key has expired. Create a new one in the workspace.'],
  revoked_key: [401, 'authentication',
    'The API key was revoked, or its organization was erased. If you can still sign in to the ' +
    'workspace, create a new one there.'],
  insufficient_balance: [402, 'payment',
    'The available balance is below the maximum price of this job. Nothing was reserved. The ' +
    'maximum counts rows from the cache too: they are free, but their price is reserved until ' +
    'the job ends. Top up and send it again.', {
      more: {
        requiredMicros: Count('The maximum price of the job.'),
        availableMicros: Count('The available balance.'),
      },
      example: { more: { requiredMicros: 4_000, availableMicros: 1_500 } },
    }],
  insufficient_scope: [403, 'permission', 'The API key lacks the scope this request needs.'],
  address_not_allowed: [403, 'permission',
    'The API key may not be used from this address.'],
  https_required: [403, 'permission',
    'Use HTTPS. Replace this key if it was sent over an open network.'],
  job_not_found: [404, 'not_found', 'There is no such job.'],
  webhook_endpoint_not_found: [404, 'not_found', 'There is no such webhook endpoint.'],
  not_found: [404, 'not_found', 'This path does not exist. See /docs.'],
  method_not_allowed: [405, 'invalid_request',
    'This path does not support this method. Use one in the Allow header.'],
  not_acceptable: [406, 'invalid_request',
    'The Accept header excludes all available media types. Accept one of those in "available".', {
      more: { available: Texts }, example: { more: { available: ['application/json'] } },
    }],
  request_timeout: [408, 'invalid_request', 'The request did not arrive in time. Send it again.'],
  job_not_completed: [409, 'conflict',
    'The job has not ended. Retry after the seconds in Retry-After.', {
      more: { status: { type: 'string', description: 'The status of the job.' } },
      example: { more: { status: 'verifying' } },
    }],
  job_not_ended: [409, 'conflict',
    'The job has not ended. Wait for its end or cancel it, then erase it.'],
  job_not_cancellable: [409, 'conflict', 'The job has ended and cannot be cancelled.'],
  cursor_moved: [409, 'conflict',
    'The rows of this job were counted again after a fault, in another order, so this cursor is ' +
    'of no use any more. Start again without it, and skip the rows that you have by their number.'],
  webhook_endpoints_limit: [409, 'conflict',
    'There are as many webhook endpoints as allowed. Delete one that you do not need.'],
  contact_lists_full: [409, 'conflict',
    'The contact lists have no room for these entries. Remove some that you no longer need.'],
  results_expired: [410, 'not_found', 'The results were deleted at the end of their retention.'],
  results_erased: [410, 'not_found', 'The job was erased, so its results cannot be read any more.'],
  body_too_large: [413, 'invalid_request',
    `The body is too large. The maximum is ${MAX_BODY_BYTES / MIB} MiB for a job, a quote or ` +
    'contact lists, and ' +
    `${SMALL_BODY_BYTES / KIB} KiB for other requests. Split the job.`],
  unsupported_media_type: [415, 'invalid_request',
    'Send the body as application/json in UTF-8, or a file, where one is taken, as text/csv or ' +
    'multipart/form-data; a file of contacts can also be a workbook (.xlsx).'],
  idempotency_key_reused: [422, 'idempotency',
    'This Idempotency-Key was used with another request in the last 24 hours. Use a new one.',
    { example: { param: 'Idempotency-Key' } }],
  rate_limited: [429, 'rate_limit',
    'Too many requests. Wait at least the seconds in Retry-After, then back off with jitter.'],
  concurrent_jobs_limit: [429, 'rate_limit',
    'Too many jobs are active. Nothing was reserved. Send it again when one of them has ended.'],
  too_many_streams: [429, 'rate_limit',
    'Too many event streams of this account are open. Close one, or poll the job instead.'],
  headers_too_large: [431, 'invalid_request', 'The request headers are too large.'],
  internal: [500, 'internal',
    'Something went wrong on our side. Send the request_id to support.'],
  temporarily_unavailable: [503, 'unavailable',
    'The service cannot take this request now. Send it again after the seconds in Retry-After.'],
  too_many_preflights: [503, 'unavailable',
    'Too many requests of this account wait for their preflight. Nothing was reserved, and the ' +
    'request counts towards no limit. Send it again after the seconds in Retry-After.'],
  wallet_unavailable: [503, 'unavailable',
    'This account accepts no new jobs until our operators have checked its balance. Nothing was ' +
    'reserved. Running jobs continue. Retry later.'],
} as const satisfies Readonly<Record<string, Entry>>

export type ErrorCode = keyof typeof ERRORS

/** Names of fields are truncated to this length: a client can send one of megabytes. */
export const SHOWN_CHARACTERS = 100

/** An error response before it is written. */
export type ApiError = ErrorDetails & { readonly code: ErrorCode }

/** Throws an ApiError where Fastify handles only exceptions. */
export class ApiException extends Error {
  readonly fault: ApiError

  constructor (fault: ApiError) {
    super(fault.code)
    this.fault = fault
  }
}

/** The HTTP status of a code. */
export function httpStatus (code: ErrorCode): number {
  return ERRORS[code][0]
}

/** What the description says of an error. */
export function describeError (code: ErrorCode): NonNullable<Entry[3]> {
  const [, , , described = { example: {} }]: Entry = ERRORS[code]
  return described
}

/** The body of an error response, the same for every route. */
export function errorBody (fault: ApiError, requestId: string) {
  const [, type, message] = ERRORS[fault.code]
  return {
    error: {
      type,
      code: fault.code,
      message: fault.message ?? message,
      ...(fault.param === undefined ? {} : { param: fault.param }),
      request_id: requestId,
      ...fault.more,
    },
  }
}
