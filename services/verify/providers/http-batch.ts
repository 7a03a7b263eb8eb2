import { failpoint } from '../../runtime/platform/failpoint.ts'
import {
  type CheckOptions, type Provider, type ProviderAnswer, ProviderError, type ProviderFailure,
  type ProviderRow, type ProviderVerdict, type Submissions, type VendorSubmission,
} from '../provider.ts'
import { at, maxEntries, readAnswers, tableColumns, textOf, wordFor } from './http-answer.ts'
import {
  commonOf, createHttpProvider, download, exchange, MAX_RESPONSE_BYTES, maxResponseBytes, prepare,
  prepareCall, type PreparedCall, type Subject,
} from './http.ts'
import { readTable } from './http-table.ts'
import type { BatchVendor, HttpCall, HttpVendor } from './http-vendor.ts'

const POLL_MS = 15_000
const DEADLINE_MS = 3_600_000
const MAX_TASK = 256

const UNKNOWN = { status: 'unknown', confidence: 0, fields: {} } as const
const NO_ANSWER: ProviderVerdict = { ...UNKNOWN, reason: 'no_answer' }
/** The verdict of a row whose task has not ended by its deadline. */
const NOT_YET: ProviderVerdict = { ...UNKNOWN, reason: 'timeout' }

/** The provider of a description, whether the vendor answers at once or takes batches. */
export function createVendorProvider (vendor: HttpVendor): Provider {
  const { batch, ...single } = vendor
  return batch === undefined
    ? createHttpProvider(single)
    : createHttpBatchProvider({ ...single, batch })
}

/**
 * A vendor that takes many rows as one task and has its answers later. `check` submits rows once,
 * with their intention recorded before and their task after; with a submission it asks for its
 * answers. A vendor that may have rows without us knowing its task is asked for it, by our
 * reference, or gets the same reference again, or, if it offers neither, is not called again: its
 * rows end without a verdict.
 */
function createHttpBatchProvider (vendor: BatchVendor): Provider {
  const common = commonOf(vendor)
  const { rate } = vendor.batch
  const limits = { ...common.limits, ...(rate === undefined ? {} : { pollRate: rate }) }
  return {
    ...common,
    limits,
    takesBatches: true,
    check: async (rows, options) => {
      const { submission, submissions, isLast } = options
      if (submissions === undefined) throw new ProviderError('unavailable')
      const call = { vendor, rows, options, submissions }
      if (submission !== undefined) return await collect(call, submission)
      if (isLast === true) throw new ProviderError('timeout')
      return await submit(call, common.id)
    },
  }
}

type Call = {
  readonly vendor: BatchVendor
  readonly rows: readonly ProviderRow[]
  readonly options: CheckOptions
  readonly submissions: Submissions
}

type Answers = readonly ProviderAnswer[]

const answersWith = (rows: readonly ProviderRow[], verdict: ProviderVerdict): Answers =>
  rows.map(({ row }) => ({ row, verdict }))
const notYet = (rows: readonly ProviderRow[]): Answers =>
  rows.map(({ row }) => ({ row, verdict: NOT_YET, retry: true }))

async function submit (call: Call, provider: number): Promise<Answers> {
  const { vendor: { batch }, rows, submissions } = call
  const { pollMs = POLL_MS, deadlineMs = DEADLINE_MS } = batch
  const terms = { provider, pollMs, deadlineMs: submissions.now() + deadlineMs }
  const submission = await submissions.begin(rows.map(({ row }) => row), terms)
  failpoint('verify.intended')
  await send(call, submission)
  return notYet(rows)
}

/** A vendor that fails so has not accepted the rows, and they may be submitted anywhere. */
const NOT_ACCEPTED: ReadonlySet<ProviderFailure> = new Set([
  'rejected_input', 'auth', 'rate_limited', 'unavailable',
])

/** Submits rows and records the task, or that there is none. */
async function send ({ vendor, rows, options, submissions }: Call, submission: VendorSubmission):
Promise<string> {
  const subject = { ...subjectOf(rows, options), reference: submission.reference }
  try {
    const body = await exchange(vendor, prepareCall(vendor, subject), options.signal)
    failpoint('verify.submitted')
    const task = taskIn(body, vendor.batch.task)
    if (task === undefined) throw new ProviderError('bad_response')
    await submissions.accept(submission, task)
    failpoint('verify.recorded')
    return task
  } catch (error) {
    const isRefused = error instanceof ProviderError && NOT_ACCEPTED.has(error.failure)
    if (isRefused) await submissions.drop(submission)
    throw error
  }
}

async function collect (call: Call, submission: VendorSubmission): Promise<Answers> {
  const { vendor, rows, options, submissions } = call
  const task = submission.task ?? await recoverTask(call, submission)
  if (task === undefined) return answersWith(rows, NO_ANSWER)
  const subject = { ...subjectOf(rows, options), reference: submission.reference, task }
  const { status, result } = vendor.batch
  const body = await exchange(vendor, prepareIn(call, status, subject), options.signal)
  const state = wordFor(status.values, textOf(at(body, status.pointer))) ?? 'running'
  if (state === 'failed') return answersWith(rows, NO_ANSWER)
  if (state === 'running') {
    const isOver = submissions.now() >= submission.deadlineMs
    return isOver ? answersWith(rows, NOT_YET) : notYet(rows)
  }
  const results = result === undefined ? body : await resultsOf(call, body, subject)
  const answers = results === undefined
    ? []
    : await readAnswers(vendor, results, subject)
  if (answers.length === 0) throw new ProviderError('bad_response')
  return answers
}

/** The task of rows that the vendor may have accepted; undefined if nobody can tell. */
async function recoverTask (call: Call, submission: VendorSubmission): Promise<string | undefined> {
  const { vendor, rows, options, submissions } = call
  const { find, idempotent } = vendor.batch
  if (find !== undefined) {
    const subject = { ...subjectOf(rows, options), reference: submission.reference }
    const prepared = { ...prepareIn(call, find, subject), maxBytes: MAX_RESPONSE_BYTES }
    const body = await exchange(vendor, prepared, options.signal)
    const list = at(body, find.rows)
    if (!Array.isArray(list)) throw new ProviderError('bad_response')
    const own = list.find((one) => textOf(at(one, find.reference)) === submission.reference)
    const task = taskIn(own, find.task)
    if (task !== undefined) {
      await submissions.accept(submission, task)
      return task
    }
  }
  const isRepeatable = find !== undefined || idempotent === true
  return isRepeatable ? await send(call, submission) : undefined
}

function taskIn (body: unknown, pointer: string): string | undefined {
  const task = textOf(at(body, pointer))
  return task === undefined || task === '' || task.length > MAX_TASK ? undefined : task
}

/** The results of a task that has ended: a JSON value, or the rows of a table. */
async function resultsOf (call: Call, status: unknown, subject: Subject): Promise<unknown> {
  const { vendor, rows, options: { signal, service } } = call
  const { result } = vendor.batch
  if (result === undefined) return status
  const prepared = result.link === undefined
    ? prepareIn(call, { ...result, url: result.url ?? '' }, subject)
    : linked(call, textOf(at(status, result.link)))
  if (result.format !== 'table') return await exchange(vendor, prepared, signal)
  const bytes = await download(vendor, prepared, signal)
  if (bytes === undefined) return undefined
  const columns = tableColumns(vendor, service)
  return await readTable(bytes, { columns, maxRows: maxEntries(rows.length), signal })
}

/**
 * The download from an address of the vendor's answer, which must be one of the described hosts:
 * an answer must not make this process call anything else. It gets no key of the vendor.
 */
function linked ({ vendor, rows }: Call, text: string | undefined): PreparedCall {
  const url = URL.parse(text ?? '')
  const own = new URL(vendor.url)
  const isKnown = url !== null && [own.hostname, ...vendor.batch.result?.hosts ?? []]
    .some((host) => host.startsWith('.') ? url.hostname.endsWith(host) : url.hostname === host)
  const isSafe = url?.protocol === 'https:' || url?.origin === own.origin
  if (url === null || !isKnown || !isSafe) throw new ProviderError('bad_response')
  return {
    url: url.href, init: { method: 'GET' }, maxBytes: maxResponseBytes(rows.length),
  }
}

type DescribedCall = Omit<HttpCall, 'method'> & Partial<Pick<HttpCall, 'method'>>

function prepareIn ({ vendor }: Call, described: DescribedCall, subject: Subject): PreparedCall {
  return prepare({ method: 'GET', ...described }, vendor, subject)
}

/** Answers of a batch are matched by contact, as references would have to be kept. */
function subjectOf (rows: readonly ProviderRow[], { service }: CheckOptions) {
  return { requested: rows.map((row) => ({ ...row, reference: row.row })), service }
}
