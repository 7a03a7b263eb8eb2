import { createHmac, type Hmac, type KeyObject } from 'node:crypto'
import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { COUNTRY_CODES } from '../../../schemas/api/country.ts'
import {
  type AcceptedBody, AcceptedSchema, type CreateJobBody, CreateJobSchema, IdempotencyHeaderSchema,
  type JobInput, MAX_INPUT_CHARACTERS, truncateInput,
} from '../../../schemas/api/create-job.ts'
import { JobOptionsSchema, QuoteOptionsSchema } from '../../../schemas/api/file.ts'
import {
  type CreateQuoteBody, CreateQuoteSchema, type EstimateBody, MAX_SAMPLE_ROWS, QuoteSchema,
} from '../../../schemas/api/quote.ts'
import { ROW_STATUSES } from '../../../schemas/api/verdicts.ts'
import {
  type CreateVerificationBody, CreateVerificationSchema, DEFAULT_WAIT_SECONDS,
  MAX_VERIFICATION_INPUTS, type VerificationBody, type VerificationQuery, VerificationQuerySchema,
  VerificationSchema,
} from '../../../schemas/api/verifications.ts'
import { type Mode, sampleTenantOf } from '../../accounts/tenant.ts'
import { jobPath, verdictsBody } from '../../jobs/job-view.ts'
import type { Job, Refusal } from '../../jobs/job.ts'
import {
  offeredOptions, optionDate, type OptionName, optionName, optionsPriceMicros,
} from '../../jobs/options.ts'
import { type ContactKind, SERVICE_DEFINITIONS } from '../../jobs/results/columns.ts'
import {
  NotSubmittedError, type Submission, type SubmitOutcome,
} from '../../jobs/submit.ts'
import { unitPriceMicros } from '../../money/prices.ts'
import { isOutageOrFatal } from '../../runtime/platform/errors.ts'
import { failpoint } from '../../runtime/platform/failpoint.ts'
import { unlessAborted } from '../../runtime/platform/retry.ts'
import { addSpanAttributes } from '../../runtime/platform/tracing.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../../topology.ts'
import { toAsciiUrl } from '../../webhooks/url.ts'
import type { LargeBody } from '../body.ts'
import type { Settings } from '../config.ts'
import type { IngestDeps } from '../deps.ts'
import { type ApiError, ApiException } from '../errors.ts'
import { type AwaitedJob, awaitResults, whileConnected } from '../find-jobs.ts'
import { requireCaller, readIdempotencyKey } from '../guard.ts'
import { checkWebhookUrl, DATE_CHARACTERS, isDay } from '../request.ts'
import { checksBody } from './account.ts'

/** Errors of the body of a job or quote, in addition to those of every body. */
const REQUEST_ERRORS = [
  'unknown_service', 'service_not_configured', 'invalid_country_code', 'invalid_file',
  'too_many_inputs', 'invalid_webhook_url',
] as const

/** Errors of a request that creates a job, in addition to those of every body. */
const JOB_ERRORS = [
  ...REQUEST_ERRORS, 'invalid_idempotency_key', 'idempotency_key_reused', 'insufficient_balance',
  'concurrent_jobs_limit', 'too_many_preflights', 'wallet_unavailable',
] as const

/** POST /api/v1/jobs: creates and approves a job; answers when its price is reserved. */
export function createJobRoute (
  deps: IngestDeps, settings: Settings, largeBody: LargeBody
): RouteOptions {
  return {
    method: 'POST',
    url: '/api/v1/jobs',
    config: {
      scope: 'jobs:write',
      yields: { '/api/v1/jobs/{id}': '/id' },
      takesFile: 'contacts',
      preflight: 'keyed',
      headers: IdempotencyHeaderSchema,
      sends: { 202: ['Location', 'Idempotent-Replayed'] },
      errors: JOB_ERRORS,
      // A job is in the journal, with its price and its Idempotency-Key.
      records: null,
      sample: {
        bodies: ['phones', 'emails', 'ids'],
        curl: ['-H "Idempotency-Key: $(uuidgen)"'],
        client: body => [
          `const { id, preflight } = await client.createJob(${body})`,
          'const job = await client.waitForEnd(id)',
          'console.log(job.status, preflight.maxQuoteMicros, job.chargedMicros)',
        ],
      },
    },
    schema: {
      operationId: 'createJob',
      summary: 'Create and approve a job',
      description: 'Answers when the preflight is done and the maximum price is reserved. The ' +
        'job continues even if the client disconnects. The contacts can also be a column of a ' +
        'CSV file. Options can stand in the query or in the body; what the body says replaces ' +
        'what the query says. `column`, `header`, `delimiter` and `sheet` are for files only.',
      tags: ['Jobs'],
      querystring: JobOptionsSchema,
      body: CreateJobSchema,
      response: { 202: AcceptedSchema },
    },
    ...largeBody,
    handler: async (request, reply) => {
      const outcome = await submitRequest(deps, settings, request)
      failpoint('ingest.answering')
      return sendAccepted(reply, outcome)
    },
  }
}

/** The job of a request, new or replayed. @throws ApiException that says why there is none. */
async function submitRequest (
  deps: IngestDeps, settings: Settings, request: FastifyRequest
): Promise<Extract<SubmitOutcome, { kind: 'accepted' }>> {
  const submission = readKeyedSubmission(request, settings)
  let outcome: SubmitOutcome
  try {
    outcome = await deps.submit(submission)
  } catch (error) {
    const isKnown = error instanceof NotSubmittedError
    throw !isKnown && isOutageOrFatal(error) ? new ApiException(OUTCOME_UNKNOWN) : error
  }
  if (outcome.kind !== 'accepted') throw new ApiException(refusalError(outcome))
  return outcome
}

/** The estimate for a free slot among the active jobs, in seconds. */
const SLOT_RETRY_SECONDS = 5
const UNAVAILABLE_RETRY_SECONDS = 5

/** The retry delay while the infrastructure that knows the outcome of a request is unavailable. */
const OUTCOME_UNKNOWN: ApiError = {
  code: 'temporarily_unavailable',
  message: 'Whether the job was accepted is not known yet. Send the same request again with the ' +
    'same Idempotency-Key: it is answered with the job, or evaluated again.',
}

/**
 * Sends the 202 of an accepted job, or its rows once it has ended, and adds the job to the span and
 * the logs of the request.
 */
function sendAccepted (
  reply: FastifyReply, { job, replayed }: Extract<SubmitOutcome, { kind: 'accepted' }>,
  verified?: VerificationBody
): FastifyReply {
  const { request } = reply
  addSpanAttributes({ job: job.id, rows: job.preflight.totalRows })
  request.log = request.log.child({ tenant: job.tenant, job: job.id })
  request.log.info({ replayed }, 'job accepted')
  if (replayed) reply.header('idempotent-replayed', 'true')
  return reply.code(verified === undefined ? 202 : 200)
    .header('location', jobPath(job.id))
    .type('application/json; charset=utf-8')
    .send(JSON.stringify(verified ?? acceptedBody(job)))
}

/** The body of the 202 response: a superset for both client typings, always the same for a job. */
function acceptedBody (job: Job): AcceptedBody {
  const { totalRows, invalidRows, duplicateRows, cacheHits, freshChecks, maxQuoteMicros, quoteId } =
    job.preflight
  return {
    id: job.id,
    status: 'queued',
    preflight: {
      totalRows, invalidRows, duplicateRows, cacheHits, freshChecks, maxQuoteMicros, quoteId,
    },
    ok: true,
    data: {
      id: job.id,
      service: job.service,
      status: 'queued',
      item_count: totalRows,
      max_quote_micros: maxQuoteMicros,
      created_at: new Date(job.createdAtMs).toISOString(),
    },
  }
}

/** The error for a request that created no job. */
function refusalError (outcome: Exclude<SubmitOutcome, { kind: 'accepted' }>): ApiError {
  if (outcome.kind === 'reused') {
    return { code: 'idempotency_key_reused', param: 'Idempotency-Key' }
  }
  const { refusal } = outcome
  switch (refusal.code) {
    case 'insufficient_balance': return {
      code: 'insufficient_balance',
      more: {
        requiredMicros: refusal.requiredMicros, availableMicros: refusal.availableMicros,
      },
    }
    case 'concurrent_jobs_limit': return {
      code: 'concurrent_jobs_limit', retryAfterSeconds: SLOT_RETRY_SECONDS,
    }
    case 'frozen': return {
      code: 'wallet_unavailable', retryAfterSeconds: UNAVAILABLE_RETRY_SECONDS,
    }
    // Only a quote request has the outcome `quoted`.
    case 'quoted':
    case 'cursor_moved':
    case 'expired':
    case 'internal': return {
      code: 'temporarily_unavailable',
      message: 'The job could not be accepted now. Nothing was reserved. Send it again after the ' +
        'seconds in Retry-After.',
      retryAfterSeconds: UNAVAILABLE_RETRY_SECONDS,
    }
  }
}

/** The submission of a request for a job: with an Idempotency-Key, and the lines of a file. */
function readKeyedSubmission (request: FastifyRequest, settings: Settings): Submission {
  const idempotencyKey = readIdempotencyKey(request.headers['idempotency-key'])
  if (idempotencyKey === undefined) {
    throw new ApiException({ code: 'invalid_idempotency_key', param: 'Idempotency-Key' })
  }
  const submission = readSubmission(request, settings)
  const { file } = request
  return {
    ...submission,
    idempotencyKey,
    ...file !== undefined && { columns: file.columns, references: file.lines },
    ...file?.delimiter !== undefined && file.delimiter !== ',' && { delimiter: file.delimiter },
  }
}

/**
 * The submission of a request, without its Idempotency-Key.
 * @throws ApiException for an invalid one; a test key may request an error by a sandbox input.
 */
function readSubmission (request: FastifyRequest, settings: Settings): Submission {
  const { tenant, mode, keyId } = requireCaller(request)
  const job = readJob(request.body as CreateJobBody, settings, mode)
  const refusal = sandboxRefusal(job, mode, settings)
  if (refusal !== undefined) throw new ApiException(refusal)
  const [fingerprint = '', ...otherFingerprints] = fingerprints(job, settings.fingerprintKeys)
  return {
    ...job,
    tenant,
    idempotencyKey: '',
    fingerprint,
    otherFingerprints,
    apiKey: keyId,
  }
}

/** A request for a job with all defaults; '' for omitted texts. */
type JobRequest = {
  readonly service: ServiceSlug
  readonly inputs: readonly string[]
  /** The id of each input, '' for none; undefined if no input has one. */
  readonly references?: readonly string[]
  readonly country: string
  readonly forceFresh: boolean
  /** Sorted; undefined for none. */
  readonly options?: readonly string[]
  readonly deadlineSeconds?: number
  readonly metadata: Readonly<Record<string, string>>
  readonly webhookUrl: string
  readonly ids?: true
}

const COUNTRIES: ReadonlySet<string> = new Set(COUNTRY_CODES)

/**
 * Reads a body that matches its schema.
 * @throws ApiException for what no schema can express.
 */
function readJob (body: CreateJobBody, settings: Settings, mode: Mode): JobRequest {
  const service = requireService(body.service)
  if (mode !== 'test' && !settings.checks.has(service)) {
    throw new ApiException({ code: 'service_not_configured', param: 'service' })
  }
  const country = body.countryCode?.toUpperCase() ?? ''
  if (body.countryCode !== undefined && !COUNTRIES.has(country)) {
    throw new ApiException({ code: 'invalid_country_code', param: 'countryCode' })
  }
  const options = [...body.options ?? []].sort()
  const { inputs, references } = readInputs(body.inputs)
  const broken = references?.findIndex(id => !id.isWellFormed()) ?? -1
  if (broken !== -1) {
    const param = `inputs[${broken}].id`
    const message = `${param} has half of a surrogate pair, which is no character. Remove it.`
    throw new ApiException({ code: 'invalid_request', param, message })
  }
  checkOptions(options, offeredOptions(service, { ...settings, mode }), service)
  checkWebhookUrl(body.webhook_url, settings.webhooks, 'webhook_url')
  return {
    service,
    inputs,
    ...references !== undefined && { references, ids: true },
    country,
    forceFresh: body.forceFresh ?? false,
    ...options.length > 0 && { options },
    ...body.deadline !== undefined && { deadlineSeconds: body.deadline },
    metadata: body.metadata ?? {},
    webhookUrl: toAsciiUrl(body.webhook_url ?? ''),
  }
}

/** @throws ApiException for options that no job of the service can choose. */
function checkOptions (
  options: readonly string[], offered: readonly OptionName[], service: ServiceSlug
): void {
  const fault = (text: string) => new ApiException({
    code: 'invalid_request', param: 'options', message: `options ${text}`,
  })
  const names = options.map(optionName)
  const foreign = names.find(name => !offered.includes(name))
  if (foreign !== undefined) {
    throw fault(`has ${foreign}, which ${service} does not have here. ` + (offered.length === 0
      ? 'It has no options: leave the field out.'
      : `Its options: ${offered.join(', ')}.`))
  }
  if (new Set(names).size < names.length) throw fault('has one twice. Send each once.')
  const today = new Date().toISOString().slice(0, DATE_CHARACTERS)
  const date = options.map(optionDate).find(date =>
    date !== undefined && (date > today || !isDay(date)))
  if (date === undefined) return
  throw fault(`has ${date}, which is not a day of the past. Send one as YYYY-MM-DD.`)
}

/** The service with this name. @throws ApiException `unknown_service` if there is none. */
export function requireService (name: string): ServiceSlug {
  const service = SERVICE_SLUGS.find(slug => slug === name)
  if (service !== undefined) return service
  throw new ApiException({
    code: 'unknown_service',
    param: 'service',
    message: `There is no such service. Use one of: ${SERVICE_SLUGS.join(', ')}.`,
    more: { services: SERVICE_SLUGS },
  })
}

/** The inputs of a body, and their ids if any has one. */
function readInputs (items: readonly JobInput[]): Pick<JobRequest, 'inputs' | 'references'> {
  if (items.every(isPlain)) return { inputs: items }
  const inputs = items.map(item => truncateInput(typeof item === 'string' ? item : item.input))
  const references = items.map(item => typeof item === 'string' ? '' : item.id)
  return references.some(id => id !== '') ? { inputs, references } : { inputs }
}

/** Whether an item is taken as it is; one pass, as nearly all lists have only such items. */
const isPlain = (item: JobInput): item is string =>
  typeof item === 'string' && item.length <= MAX_INPUT_CHARACTERS

const PIECE_ROWS = 1_000

/**
 * Identifies a request for its Idempotency-Key: 16 bytes of HMAC-SHA256, in hex, over the request
 * as canonical JSON with defaults. The order of fields and labels does not matter, the order of
 * inputs does. Without ids it is that of the inputs alone. An HMAC, because a plain digest would
 * allow guessing contacts; by each of these keys.
 */
function fingerprints (request: JobRequest, keys: readonly KeyObject[]): readonly string[] {
  const metadata = Object.entries(request.metadata).sort(([a], [b]) => (a < b ? -1 : 1))
  const options = [
    'v1', request.service, request.country, request.forceFresh, request.webhookUrl, metadata,
    // Requests without it keep the fingerprint that they had before the option existed.
    ...request.deadlineSeconds === undefined ? [] : [request.deadlineSeconds],
    ...request.options === undefined ? [] : [request.options],
  ]
  return keys.map(key => {
    const hmac = createHmac('sha256', key).update(JSON.stringify(options))
    updateWithList(hmac, request.inputs)
    if (request.references !== undefined) updateWithList(hmac, request.references)
    return hmac.digest('hex').slice(0, 32)
  })
}

/** In pieces: the text of a whole body would need its size in memory again. */
function updateWithList (hmac: Hmac, texts: readonly string[]): void {
  hmac.update('[')
  for (let from = 0; from < texts.length; from += PIECE_ROWS) {
    const piece = JSON.stringify(texts.slice(from, from + PIECE_ROWS)).slice(1, -1)
    hmac.update(from === 0 ? piece : `,${piece}`)
  }
  hmac.update(']')
}

const REFUSED = 'the job or the quote is refused: 402 `insufficient_balance`'

/**
 * Inputs that simulate `insufficient_balance` for a job or quote of a test key, whose price is 0:
 * this number in any format, and this local part at any domain, before any `+tag`.
 */
export const SANDBOX_REFUSALS = {
  phone: { input: '+15005550402', means: REFUSED },
  email: { input: 'insufficient_balance@', means: REFUSED },
} as const satisfies Readonly<Record<ContactKind, object>>

/** Longer than any format of the number, so that long texts are skipped. */
const MAX_PHONE_CHARACTERS = 32

const isSandboxInput: Readonly<Record<ContactKind, (input: string) => boolean>> = {
  phone: input => input.length <= MAX_PHONE_CHARACTERS &&
    `+${input.replace(/\D/g, '')}` === SANDBOX_REFUSALS.phone.input,
  email: input => /^\s*insufficient_balance(\+[^@]*)?@[^@]+$/i.test(input),
}

/**
 * The error of a job of a test key with a sandbox input, like that of an empty wallet at live
 * prices. Live keys have no sandbox inputs.
 */
function sandboxRefusal (
  { service, inputs, options = [] }: JobRequest, mode: Mode,
  { prices, optionPrices }: Settings
): ApiError | undefined {
  const { kind } = SERVICE_DEFINITIONS[service]
  if (mode !== 'test' || !inputs.some(isSandboxInput[kind])) return undefined
  const priced = options.filter(option => optionPrices[optionName(option)] !== undefined)
  const rowMicros = unitPriceMicros(prices, service, 'live') +
    optionsPriceMicros(optionPrices, priced, 'live')
  const requiredMicros = rowMicros * inputs.length
  return { code: 'insufficient_balance', more: { requiredMicros, availableMicros: 0 } }
}

/**
 * POST /api/v1/verifications: a job of a few inputs, answered with its rows. It is a job like any
 * other: if it has not ended within `wait`, it goes on and the answer is that of POST /api/v1/jobs.
 */
export function createVerificationRoute (deps: IngestDeps, settings: Settings): RouteOptions {
  return {
    method: 'POST',
    url: '/api/v1/verifications',
    config: {
      // It creates a job and reads its results.
      scope: ['jobs:write', 'results:read'],
      yields: { '/api/v1/jobs/{id}': '/id' },
      preflight: 'keyed',
      headers: IdempotencyHeaderSchema,
      sends: {
        200: ['Location', 'Idempotent-Replayed'], 202: ['Location', 'Idempotent-Replayed'],
      },
      errors: [...JOB_ERRORS, 'results_expired', 'results_erased'],
      records: null,
      sample: {
        bodies: ['phone', 'email'],
        curl: ['-H "Idempotency-Key: $(uuidgen)"'],
        client: body => [
          `const { results, chargedMicros } = await client.verify(${body})`,
          'console.log(results[0].status, results[0].reason, chargedMicros)',
        ],
      },
    },
    schema: {
      operationId: 'createVerification',
      summary: 'Verify a few contacts and wait for the rows',
      description: `Creates a job of at most ${MAX_VERIFICATION_INPUTS} inputs and answers with ` +
        'its status resource, preflight and rows once it has ended. What has not ended within ' +
        '`wait` seconds goes on and is answered with 202, like a job. A repeated request with ' +
        'the same Idempotency-Key gets the rows of the same job.',
      tags: ['Jobs'],
      querystring: VerificationQuerySchema,
      body: CreateVerificationSchema,
      response: { 200: VerificationSchema, 202: AcceptedSchema },
    },
    handler: async (request, reply) => {
      const startedAt = performance.now()
      const outcome = await submitRequest(deps, settings, request)
      failpoint('verification.accepted')
      const { wait = DEFAULT_WAIT_SECONDS } = request.body as CreateVerificationBody
      const { types } = request.query as VerificationQuery
      const timeoutMs = wait * 1_000 - (performance.now() - startedAt)
      const answer = await whileConnected(request, signal =>
        resultsOf(deps, { ...settings, job: outcome.job, types, timeoutMs, signal }))
      if (answer === undefined) return sendAccepted(reply, outcome)
      failpoint('verification.answering')
      return sendAccepted(reply, outcome, answer)
    },
  }
}

/**
 * The answer with the rows; undefined if the job has not ended in time, or if infrastructure failed
 * after it was accepted: then the client reads them later.
 * @throws ApiException if they cannot be read any more.
 */
async function resultsOf (
  deps: IngestDeps, awaited: AwaitedJob
): Promise<VerificationBody | undefined> {
  try {
    return await awaitResults(deps, awaited)
  } catch (error) {
    const isLater = error instanceof ApiException &&
      error.fault.code === 'temporarily_unavailable'
    if (isLater || isOutageOrFatal(error)) return undefined
    throw error
  }
}

/**
 * POST /api/v1/quotes: the preflight of a job, without a job. It takes the same body and passes the
 * same stages. Nothing is reserved, and the rows are unreadable afterwards.
 */
export function createQuoteRoute (
  deps: IngestDeps, settings: Settings, largeBody: LargeBody
): RouteOptions {
  return {
    method: 'POST',
    url: '/api/v1/quotes',
    config: {
      scope: 'jobs:write',
      takesFile: 'contacts',
      preflight: 'keyless',
      errors: [...REQUEST_ERRORS, 'insufficient_balance', 'too_many_preflights'],
      records: null,
      sample: {
        bodies: ['phones'],
        client: body => [
          `const { preflight } = await client.quote(${body})`,
          'console.log(preflight.freshChecks, preflight.maxQuoteMicros)',
        ],
      },
    },
    schema: {
      operationId: 'createQuote',
      summary: 'Quote a job without creating it',
      description: 'Takes the body of a job and answers with its preflight. Nothing is reserved, ' +
        'the quote cannot be redeemed, and the rows are unreadable after the answer. ' +
        '`limitations` lists what the checks of the service cannot tell. With `sample`, up to ' +
        `${MAX_SAMPLE_ROWS} contacts of the list are verified free, once in 24 hours, and the ` +
        'answer has the expected shares of verdicts, but no rows.',
      tags: ['Quotes'],
      querystring: QuoteOptionsSchema,
      body: CreateQuoteSchema,
      response: { 200: QuoteSchema },
    },
    ...largeBody,
    handler: async (request, reply) => {
      // A quote changes nothing, so it can be repeated without a key.
      const read = readSubmission(request, settings)
      const { service } = read
      const checks = checksBody(settings.checks, service, requireCaller(request).mode)
      const { sample = false } = request.body as CreateQuoteBody
      // Nothing of a quote waits for a deadline.
      const submission = { ...read, sample, quoteOnly: true, deadlineSeconds: undefined }
      const outcome = await deps.submit(submission)
      if (outcome.kind === 'accepted') throw new Error(`quote ${outcome.job.id} became a job`)
      if (outcome.kind === 'reused' || outcome.refusal.code !== 'quoted') {
        throw new ApiException(refusalError(outcome))
      }
      const { refusal: quoted } = outcome
      const { preflight, expiresAtMs } = quoted
      const estimated = sample
        ? await whileConnected(request, signal => estimate(deps, { submission, quoted, signal }))
        : undefined
      if (estimated !== undefined) {
        deps.metrics.count('estimates_total', { outcome: estimated.reason ?? estimated.status })
      }
      return reply.send({
        preflight,
        service,
        ...checks,
        redeemable: false,
        expiresAt: new Date(expiresAtMs).toISOString(),
        ...estimated && { estimate: estimated },
      })
    },
  }
}

/** How long a request waits for its estimate; one that takes longer is read by repeating it. */
const WAIT_MS = 15_000
/** Contacts of a sample whose mail servers have not answered by then are unknown. */
const DEADLINE_SECONDS = 900

type Unavailable = NonNullable<EstimateBody['reason']>

/** A submission of a quote and what it was answered with. */
type QuotedList = {
  readonly submission: Submission
  readonly quoted: Extract<Refusal, { code: 'quoted' }>
  /** Aborted when nobody waits any longer. */
  readonly signal: AbortSignal
}

/**
 * The expected verdicts of a list, from its sample. That is verified by a job of a tenant of its
 * own: its price is 0, nobody can read its rows, and they answer no job of the customer. The digest
 * of the sample is its idempotency key, so that it is verified once in 24 hours. Never fails: a
 * quote without an estimate is a quote.
 */
async function estimate (deps: IngestDeps, list: QuotedList): Promise<EstimateBody> {
  const { submission, quoted: { preflight, sample } } = list
  const contacts = preflight.freshChecks + preflight.cacheHits
  const sampledContacts = sample?.rows.length ?? 0
  const without = (reason: Unavailable): EstimateBody => ({
    status: 'unavailable', reason, contacts, sampledContacts, checkedContacts: 0, shares: null,
  })
  if (sample === undefined) return without('too_few_contacts')
  const tenant = sampleTenantOf(submission.tenant)
  try {
    const isFree = await deps.takeSample(tenant, sample.digest, sampledContacts)
    if (!isFree) return without('daily_limit')
    const job = await runSample(deps, {
      tenant,
      service: submission.service,
      inputs: sample.rows.map(row => submission.inputs[row] ?? ''),
      country: submission.country,
      forceFresh: false,
      deadlineSeconds: DEADLINE_SECONDS,
      idempotencyKey: sample.digest,
      fingerprint: sample.digest,
      metadata: {},
      webhookUrl: '',
    }, list.signal)
    if (job === undefined) return without('temporarily_unavailable')
    const checkedContacts = job.counts.finishedRows
    const shares = job.ended ? computeShares(job) : null
    if (job.ended && shares === null) return without('temporarily_unavailable')
    const status = job.ended ? 'completed' : 'running'
    return { status, reason: null, contacts, sampledContacts, checkedContacts, shares }
  } catch (error) {
    if (!(error instanceof ApiException) && !isOutageOrFatal(error)) throw error
    return without('temporarily_unavailable')
  }
}

/** The job of a sample, if possible once it has ended; undefined if it cannot be verified now. */
async function runSample (
  deps: IngestDeps, submission: Submission, signal: AbortSignal
): Promise<Job | undefined> {
  const ends = AbortSignal.any([signal, AbortSignal.timeout(WAIT_MS)])
  const submitted = await unlessAborted(deps.submit(submission), ends)
  if (submitted?.kind !== 'accepted') return undefined
  const { job } = submitted
  if (job.ended) return job
  return await deps.waitForJob({
    tenant: submission.tenant,
    job: job.id,
    isDone: ({ ended }) => ended,
    timeoutMs: WAIT_MS,
    signal: ends,
  }) ?? job
}

/** Null for a job that was not completed, or whose verdicts are not known. */
function computeShares (job: Job): EstimateBody['shares'] {
  const { verdicts } = verdictsBody(job)
  if (job.status !== 'completed' || verdicts === null) return null
  const rows = ROW_STATUSES.reduce((sum, status) => sum + verdicts[status], 0)
  const of = (part: number) => ({ share: rounded(part / rows), ...wilsonInterval(part, rows) })
  return {
    valid: of(verdicts.valid),
    risky: of(verdicts.risky),
    invalid: of(verdicts.invalid),
    unknown: of(verdicts.unknown),
  }
}

/** The quantile of the normal distribution for 95 %. */
const Z = 1.959964

/**
 * The Wilson score interval of a share with a confidence of 95 % (Wilson 1927): unlike the normal
 * approximation it stays within 0 and 1 and is right for shares close to them.
 */
function wilsonInterval (part: number, whole: number): { low: number, high: number } {
  const share = part / whole
  const center = (share + Z * Z / (2 * whole)) / (1 + Z * Z / whole)
  const half = Z / (1 + Z * Z / whole) *
    Math.sqrt(share * (1 - share) / whole + Z * Z / (4 * whole * whole))
  return {
    low: part === 0 ? 0 : rounded(center - half),
    high: part === whole ? 1 : rounded(center + half),
  }
}

const DECIMALS = 10_000
const rounded = (share: number) => Math.round(share * DECIMALS) / DECIMALS
