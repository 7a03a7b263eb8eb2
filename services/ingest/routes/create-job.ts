import type { FastifyRequest, RouteOptions } from 'fastify'
import {
  AcceptedSchema, CreateJobSchema, IdempotencyHeaderSchema,
} from '../../../schemas/api/create-job.ts'
import {
  FilePreviewSchema, JobOptionsSchema, QuoteOptionsSchema,
} from '../../../schemas/api/file.ts'
import {
  type CreateQuoteBody, CreateQuoteSchema, type EstimateBody, MAX_SAMPLE_ROWS, QuoteSchema,
} from '../../../schemas/api/quote.ts'
import { ROW_STATUSES } from '../../../schemas/api/verdicts.ts'
import {
  type CreateVerificationBody, CreateVerificationSchema, DEFAULT_WAIT_SECONDS,
  MAX_VERIFICATION_INPUTS, type VerificationBody, type VerificationQuery, VerificationQuerySchema,
  VerificationSchema,
} from '../../../schemas/api/verifications.ts'
import { sampleTenantOf } from '../../accounts/tenant.ts'
import { verdictsBody } from '../../jobs/job-view.ts'
import type { Job } from '../../jobs/job.ts'
import {
  NotSubmittedError, type Quoted, type Submission, type Submitted,
} from '../../jobs/submit.ts'
import { failpoint } from '../../runtime/platform/failpoint.ts'
import type { FairPool } from '../../runtime/platform/limits.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../../topology.ts'
import { createBodyBudget, reserveMemory } from '../body.ts'
import type { Settings } from '../config.ts'
import type { IngestDeps } from '../deps.ts'
import { type ApiError, ApiException } from '../errors.ts'
import { previewFile } from '../file/preview-file.ts'
import { type AwaitedJob, awaitResults, whileConnected } from '../find-jobs.ts'
import { callerOf } from '../guard.ts'
import { readKeyedSubmission, readSubmission, unknownService } from '../request.ts'
import { OUTCOME_UNKNOWN, refusalError, sendAccepted, sendError } from '../response.ts'
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
  deps: IngestDeps, settings: Settings, budget = createBodyBudget(settings.bodyBudgetBytes)
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
    ...reserveMemory(budget, settings.bodyThroughput),
    handler: async (request, reply) => {
      const outcome = await submitRequest(deps, settings, request)
      if ('code' in outcome) return sendError(reply, outcome)
      failpoint('ingest.answering')
      return sendAccepted(reply, outcome)
    },
  }
}

/** The job of a request, new or replayed, or the error why there is none. */
async function submitRequest (
  deps: IngestDeps, settings: Settings, request: FastifyRequest
): Promise<Extract<Submitted, { kind: 'accepted' }> | ApiError> {
  const read = readKeyedSubmission(request, settings)
  if ('code' in read) return read
  try {
    const outcome = await deps.submit(read)
    return outcome.kind === 'accepted' ? outcome : refusalError(outcome)
  } catch (error) {
    const isKnown = error instanceof NotSubmittedError
    if (!isKnown && deps.isInfrastructure(error)) return OUTCOME_UNKNOWN
    throw error
  }
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
      if ('code' in outcome) return sendError(reply, outcome)
      failpoint('verification.accepted')
      const { wait = DEFAULT_WAIT_SECONDS } = request.body as CreateVerificationBody
      const { types } = request.query as VerificationQuery
      const timeoutMs = wait * 1_000 - (performance.now() - startedAt)
      const answer = await whileConnected(request, signal =>
        resultsOf(deps, { ...settings, job: outcome.job, types, timeoutMs, signal }))
      if (answer === undefined) return sendAccepted(reply, outcome)
      if ('code' in answer) return sendError(reply, answer)
      failpoint('verification.answering')
      return sendAccepted(reply, outcome, answer)
    },
  }
}

/**
 * The answer with the rows, or why they cannot be read any more; undefined if the job has not ended
 * in time, or if infrastructure failed after it was accepted: then the client reads them later.
 */
async function resultsOf (
  deps: IngestDeps, awaited: AwaitedJob
): Promise<VerificationBody | ApiError | undefined> {
  try {
    const answer = await awaitResults(deps, awaited)
    const isLater = answer !== undefined && 'code' in answer &&
      answer.code === 'temporarily_unavailable'
    return isLater ? undefined : answer
  } catch (error) {
    if (deps.isInfrastructure(error)) return undefined
    throw error
  }
}

/**
 * POST /api/v1/quotes: the preflight of a job, without a job. It takes the same body and passes the
 * same stages. Nothing is reserved, and the rows are unreadable afterwards.
 */
export function createQuoteRoute (
  deps: IngestDeps, settings: Settings, budget: FairPool
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
    ...reserveMemory(budget, settings.bodyThroughput),
    handler: async (request, reply) => {
      // A quote changes nothing, so it can be repeated without a key.
      const read = readSubmission(request, settings)
      if ('code' in read) return sendError(reply, read)
      const { service } = read
      const checks = checksBody(settings.checks, service, callerOf(request).mode)
      const { sample = false } = request.body as CreateQuoteBody
      const submission = { ...read, sample }
      const quoted = await deps.quote(submission)
      if (quoted.kind === 'refused') return sendError(reply, refusalError(quoted))
      const { preflight, expiresAtMs } = quoted
      const estimated = sample
        ? await whileConnected(request, signal => estimate(deps, { submission, quoted, signal }))
        : undefined
      if (estimated !== undefined) deps.onEstimate(estimated)
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
  readonly quoted: Extract<Quoted, { kind: 'quoted' }>
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
    const shares = job.ended ? sharesOf(job) : null
    if (job.ended && shares === null) return without('temporarily_unavailable')
    const status = job.ended ? 'completed' : 'running'
    return { status, reason: null, contacts, sampledContacts, checkedContacts, shares }
  } catch (error) {
    if (!(error instanceof ApiException) && !deps.isInfrastructure(error)) throw error
    return without('temporarily_unavailable')
  }
}

/** The job of a sample, if possible once it has ended; undefined if it cannot be verified now. */
async function runSample (
  deps: IngestDeps, submission: Submission, signal: AbortSignal
): Promise<Job | undefined> {
  const endsAt = performance.now() + WAIT_MS
  const submitted = await deps.submit(submission)
  if (submitted.kind !== 'accepted') return undefined
  const { job } = submitted
  if (job.ended) return job
  return await deps.waitForJob({
    tenant: submission.tenant,
    job: job.id,
    isDone: ({ ended }) => ended,
    timeoutMs: endsAt - performance.now(),
    signal,
  }) ?? job
}

/** Null for a job that was not completed, or whose verdicts are not known. */
function sharesOf (job: Job): EstimateBody['shares'] {
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

/** What is chosen for a file whose service is not named, first. */
const PREFERRED: readonly ServiceSlug[] = ['phone-validation', 'email-validation']

/** POST /api/v1/file-previews: what a file has, from its first lines; nothing is kept of it. */
export function createFilePreviewRoute (settings: Settings, budget: FairPool): RouteOptions {
  return {
    method: 'POST',
    url: '/api/v1/file-previews',
    config: {
      scope: 'jobs:write',
      takesFile: 'preview',
      errors: ['unknown_service', 'invalid_file'],
      records: null,
      sample: {
        curl: ['-F file=@contacts.csv'],
        client: () => [
          "const file = Buffer.from('name,phone\\nAnn,+12127365000\\n')",
          'const { column, service, reason } = await client.previewFile(file)',
          'console.log(column, service, reason)',
        ],
      },
    },
    schema: {
      operationId: 'previewFile',
      summary: 'See which contacts a file has',
      description: 'Reads the first 1,000 lines of a CSV file or a workbook, and says in which ' +
        'column the contacts are, which service takes them, and why. Of numbers without a ' +
        'country code it says which country fits them best. It creates no job, costs nothing, ' +
        'and nothing of the file is kept. The first lines of a file are enough.',
      tags: ['Quotes'],
      response: { 200: FilePreviewSchema },
    },
    ...reserveMemory(budget, settings.bodyThroughput),
    handler: async (request, reply) => {
      const { previewed } = request
      if (previewed === undefined) return sendError(reply, { code: 'unsupported_media_type' })
      const { service: slug } = request.body as { readonly service?: string }
      const service = SERVICE_SLUGS.find(name => name === slug)
      if (slug !== undefined && service === undefined) return sendError(reply, unknownService())
      const { mode } = callerOf(request)
      const services = [...PREFERRED, ...SERVICE_SLUGS]
        .filter(name => mode === 'test' || settings.checks.has(name))
      const { bytes, csv, reading } = previewed
      return reply.send(await previewFile(bytes, { ...csv, service, services }, reading))
    },
  }
}
