import type { BalanceBody } from '../../../schemas/api/balance.ts'
import type { AcceptedBody, CreateJobBody } from '../../../schemas/api/create-job.ts'
import type { JobBody } from '../../../schemas/api/job.ts'
import type { QuoteBody } from '../../../schemas/api/quote.ts'
import type { ResultsPage } from '../../../schemas/api/results.ts'
import type { RootBody } from '../../../schemas/api/root.ts'
import type { ServicesBody } from '../../../schemas/api/services.ts'
import type {
  CreateVerificationBody, VerificationBody,
} from '../../../schemas/api/verifications.ts'
import { type ApiError, errorBody, type ErrorCode, ERRORS } from '../errors.ts'
import { eventIdOf } from '../../jobs/events.ts'
import { packChecks } from '../../cache/evidence.ts'
import {
  ENDPOINT_REQUESTS, endpointAnswers, type EndpointRequest, eventExample,
} from './samples.ts'
import { createRowShape } from '../results-response.ts'
import { columnsOf } from '../../jobs/results/columns.ts'
import {
  type Content, mapOperations, mapValues, type OpenApiDocument, type OpenApiResponse,
  type Operation,
} from './document.ts'

const REQUEST_ID = 'req_01jd3v8zj7m5n2k4q6r8s0t1w3'

/** Adds examples of all bodies, responses and errors; examples of errors are shared. */
export function withExamples (document: OpenApiDocument): OpenApiDocument {
  const { paths, webhooks = {}, components } = document
  return {
    ...document,
    paths: mapOperations(paths, withOwnExamples),
    webhooks: mapOperations(webhooks, withEventExample),
    components: { ...components, examples: faultExamples() },
  }
}

function withOwnExamples (operation: Operation): Operation {
  const { operationId: id = '', parameters, requestBody, responses } = operation
  const bodies = REQUEST_EXAMPLES[id]
  return {
    ...operation,
    ...(parameters === undefined ? {} : { parameters: parameters.map(withValue) }),
    ...(requestBody === undefined || bodies === undefined
      ? {}
      : { requestBody: { ...requestBody, content: withBodies(requestBody.content, bodies) } }),
    responses: mapValues(responses, (answer, status) => withAnswer(answer, `${id} ${status}`)),
  }
}

function withValue<P extends { readonly name: string }> (parameter: P): P {
  const example = PARAMETER_EXAMPLES[parameter.name]
  return example === undefined ? parameter : { ...parameter, example }
}

function withBodies (content: Content, bodies: Readonly<Record<string, unknown>>): Content {
  return mapValues(content, media =>
    ({ ...media, examples: mapValues(bodies, value => ({ value })) }))
}

function withAnswer (answer: OpenApiResponse, name: string): OpenApiResponse {
  if (answer.content === undefined) return answer
  const content = mapValues(answer.content, (media, type) => {
    const example = ANSWER_EXAMPLES[`${name} ${type}`]
    if (example !== undefined) return { ...media, example }
    const codes = codesOf(media.schema)
    return codes.length === 0 ? media : { ...media, examples: Object.fromEntries(codes.map(refOf)) }
  })
  return { ...answer, content }
}

const refOf = (code: string) => [code, { $ref: `#/components/examples/${code}` }] as const

type FaultProperties = { readonly code?: { readonly enum?: readonly string[] } }
type FaultSchema = {
  readonly properties?: { readonly error?: { readonly properties?: FaultProperties } }
}

/** The codes in the schema of an error; empty for other schemas. */
function codesOf (schema: FaultSchema): readonly string[] {
  return schema.properties?.error?.properties?.code?.enum ?? []
}

function faultExamples (): Record<string, object> {
  const codes = Object.keys(ERRORS) as ErrorCode[]
  return Object.fromEntries(codes.map(code =>
    [code, { value: errorBody({ code, ...FAULT_EXAMPLES[code] }, REQUEST_ID) }]))
}

function withEventExample (operation: Operation): Operation {
  const { operationId = '', requestBody } = operation
  if (requestBody === undefined) return operation
  const type = operationId.replace('event.', '') as Parameters<typeof eventExample>[0]
  const example = { ...EVENT_EXAMPLE, ...eventExample(type, { ended: job, running: cancelling }) }
  const content = mapValues(requestBody.content, media => ({ ...media, example }))
  return { ...operation, requestBody: { ...requestBody, content } }
}

const ID = 'job_01jd3v8zj7m5n2k4q6r8s0t1w3'
const EVENT_ID = eventIdOf(ID, 'job.completed')
const CREATED = '2026-08-11T10:00:00.000Z'
const ENDED = '2026-08-11T10:00:02.500Z'
const ERASED = '2026-08-12T09:30:00.000Z'

/** Examples of parameters, by name. */
const PARAMETER_EXAMPLES: Readonly<Record<string, string | number>> = {
  id: ID,
  deliveryId: EVENT_ID,
  'Idempotency-Key': '7f3d2c1b-0a9e-4d8c-b7a6-5f4e3d2c1b0a',
}

const phones: CreateJobBody = {
  service: 'phone-validation',
  inputs: ['+12127365000', '(212) 736-5000', 'call me', '+442079460958'],
  countryCode: 'US',
}

const emails: CreateJobBody = {
  service: 'email-validation',
  inputs: ['jane@example.com'],
  forceFresh: true,
  webhook_url: 'https://hooks.customer.example/jobs',
  metadata: { campaign: 'spring' },
}

type Body = CreateJobBody | CreateVerificationBody | EndpointRequest

/** Request bodies, by operation id and name. */
const REQUEST_EXAMPLES: Readonly<Record<string, Readonly<Record<string, Body>>>> = {
  createJob: { phones, emails },
  createVerification: {
    phone: { service: 'phone-validation', inputs: ['+12127365000'] },
    email: { service: 'email-validation', inputs: ['jane@example.com'], wait: 20 },
  },
  createQuote: { phones },
  ...ENDPOINT_REQUESTS,
}

const preflight = {
  totalRows: 4,
  invalidRows: 1,
  duplicateRows: 1,
  cacheHits: 0,
  freshChecks: 2,
  maxQuoteMicros: 4_000,
  quoteId: 'quot_01jd3v8zj7m5n2k4q6r8s0t1w3',
}

const accepted: AcceptedBody = {
  id: ID,
  status: 'queued',
  preflight,
  ok: true,
  data: {
    id: ID,
    service: 'phone-validation',
    status: 'queued',
    item_count: 4,
    max_quote_micros: 4_000,
    created_at: CREATED,
  },
}

const job: JobBody = {
  id: ID,
  status: 'completed',
  totalRows: 4,
  cacheHits: 0,
  freshRecords: 2,
  successRecords: 3,
  failedRecords: 1,
  createdAt: CREATED,
  updatedAt: ENDED,
  resultUrl: `/api/v1/jobs/${ID}/results`,
  service: 'phone-validation',
  invalidRows: 1,
  duplicateRows: 1,
  invalidRecords: 1,
  duplicateRecords: 1,
  unknownRecords: 0,
  cancelledRecords: 0,
  pendingRecords: 0,
  progressPercent: 100,
  maxQuoteMicros: 4_000,
  chargedMicros: 4_000,
  releasedMicros: 0,
  metadata: {},
  completedAt: ENDED,
  hasOriginalColumns: false,
  erasedAt: null,
  erasureCompletedAt: null,
}

const erased: JobBody = { ...job, erasedAt: ERASED }

const cancelling: JobBody = {
  ...job,
  status: 'cancelling',
  freshRecords: 0,
  successRecords: 0,
  pendingRecords: 2,
  progressPercent: 50,
  chargedMicros: 0,
  completedAt: null,
}

const PLAN_CHECKS = {
  checks: ['syntax', 'numbering_plan', 'carrier_range'], limitations: ['range_only'],
}

const quote: QuoteBody = {
  preflight,
  service: 'phone-validation',
  ...PLAN_CHECKS,
  redeemable: false,
  expiresAt: '2026-08-11T10:01:25.000Z',
}

const balance: BalanceBody = {
  balanceMicros: 1_000_000, reservedMicros: 4_000, availableMicros: 996_000, currency: 'USD',
}

const transaction = {
  id: 'txn_7',
  type: 'settle',
  amountMicros: 4_000,
  chargedMicros: 4_000,
  availableMicros: 996_000,
  reservedMicros: 0,
  balanceMicros: 996_000,
  jobId: ID,
  createdAt: ENDED,
}

const counts = {
  jobs: 1,
  totalRows: 4,
  cacheHits: 0,
  freshRecords: 2,
  invalidRecords: 1,
  duplicateRecords: 1,
  unknownRecords: 0,
  cancelledRecords: 0,
  successRecords: 3,
  failedRecords: 1,
  chargedMicros: 4_000,
}

const usage = {
  from: '2026-08-11T00:00:00.000Z',
  to: '2026-08-12T00:00:00.000Z',
  group_by: ['day'],
  data: [{ day: '2026-08-11', ...counts }],
  total: counts,
}

const services: ServicesBody = {
  data: [{
    slug: 'phone-validation',
    inputKind: 'phone',
    priceMicros: 2_000,
    columns: ['timezone', 'national_format', 'extension'],
    configured: true,
    ...PLAN_CHECKS,
    data: [
      { name: 'number_ranges', version: '9.0.43', publishedAt: '2026-11-06', ageDays: 21 },
    ],
  }],
}

const attempt: Parameters<typeof endpointAnswers>[0] = {
  deliveryId: EVENT_ID,
  type: 'job.completed',
  jobId: ID,
  endpointId: null,
  attempt: 1,
  attemptedAt: ENDED,
  outcome: 'delivered',
  statusCode: 204,
  reason: null,
  durationMs: 48,
}

const root: RootBody = {
  name: 'Verification Jobs',
  version: '2026-08-11',
  api: '/api/v1',
  documentation: '/docs',
  openapi: '/openapi.json',
  changelog: '/changelog',
}

const CELLS: Readonly<Record<string, string>> = {
  row: '1',
  input: '+12127365000',
  phone: '+1 212 736 5000',
  e164: '+12127365000',
  country: 'US',
  region: 'NY',
  locality: 'New York',
  line_type: 'fixed_line_or_mobile',
  status: 'valid',
  source: 'live',
  confidence: '90',
  reason: 'assigned_range',
  checked_at: ENDED,
  expires_at: '2026-11-09T10:00:02.500Z',
  timezone: 'America/New_York',
  national_format: '(212) 736-5000',
}

const columns = columnsOf('phone-validation')
const cells = columns.map(name => CELLS[name] ?? '')
const checks = String(packChecks({ numbering_plan: 'passed', carrier_range: 'inconclusive' }))
const row = createRowShape('phone-validation')([...cells, checks])
const verification: VerificationBody = {
  ...job,
  totalRows: 1,
  freshRecords: 1,
  successRecords: 1,
  failedRecords: 0,
  invalidRows: 0,
  duplicateRows: 0,
  invalidRecords: 0,
  duplicateRecords: 0,
  maxQuoteMicros: 2_000,
  chargedMicros: 2_000,
  preflight: {
    ...preflight,
    totalRows: 1,
    invalidRows: 0,
    duplicateRows: 0,
    freshChecks: 1,
    maxQuoteMicros: 2_000,
  },
  results: [row],
}
const page: ResultsPage = { data: [row], has_more: true, next_cursor: 'djE6MQ' }
const quoted = (cell: string) => cell.includes(',') ? `"${cell}"` : cell

/** Responses, by operation id, status and media type. */
const ANSWER_EXAMPLES: Readonly<Record<string, unknown>> = {
  'createJob 202 application/json': accepted,
  'createVerification 200 application/json': verification,
  'createVerification 202 application/json': accepted,
  'listJobs 200 application/json': { data: [job], has_more: false, next_cursor: null },
  'getJob 200 application/json': job,
  'cancelJob 202 application/json': cancelling,
  'eraseJob 202 application/json': erased,
  'getResults 200 text/csv': `${columns.join(',')}\r\n${cells.map(quoted).join(',')}\r\n`,
  'getResults 200 application/json': page,
  'getResults 200 application/x-ndjson': `${JSON.stringify(row)}\n`,
  'listDeliveries 200 application/json': { data: [attempt] },
  'resendDelivery 202 application/json': { deliveryId: EVENT_ID, status: 'queued' },
  'createQuote 200 application/json': quote,
  ...endpointAnswers(attempt),
  'getBalance 200 application/json': balance,
  'listTransactions 200 application/json': {
    data: [transaction], has_more: false, next_cursor: null,
  },
  'getUsage 200 application/json': usage,
  'getUsage 200 text/csv': `day,${Object.keys(counts).join(',')}\r\n` +
    `2026-08-11,${Object.values(counts).join(',')}\r\n`,
  'listServices 200 application/json': services,
  'getRoot 200 application/json': root,
}

/** What all events have in common. */
const EVENT_EXAMPLE = { api_version: '2026-08-11', livemode: true, timestamp: ENDED } as const

/** Additional members of error examples, by code. */
const FAULT_EXAMPLES: Readonly<Record<string, Partial<ApiError>>> = {
  invalid_request: {
    param: 'forceFresh', message: 'forceFresh must be true or false, without quotes.',
  },
  unknown_service: {
    param: 'service',
    message: 'service must be one of: phone-validation, email-validation.',
    more: { services: ['phone-validation', 'email-validation'] },
  },
  service_not_configured: { param: 'service' },
  invalid_country_code: { param: 'countryCode' },
  invalid_file: {
    param: 'file',
    message: 'Line 3 of the file has 3 cells, but its first line has 2. Put cells with a ' +
      'delimiter in them between double quotes.',
  },
  too_many_inputs: { param: 'inputs' },
  invalid_webhook_url: { param: 'webhook_url' },
  invalid_idempotency_key: { param: 'Idempotency-Key' },
  idempotency_key_reused: { param: 'Idempotency-Key' },
  insufficient_balance: { more: { requiredMicros: 4_000, availableMicros: 1_500 } },
  not_acceptable: { more: { available: ['application/json'] } },
  job_not_completed: { more: { status: 'verifying' } },
}
