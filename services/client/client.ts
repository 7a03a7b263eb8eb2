import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type {
  BalanceBody, TransactionBody, TransactionList, TransactionsQuery, UsageBody, UsageQuery,
} from '../../schemas/api/account.ts'
import type { AcceptedBody, CreateJobBody, JobInput } from '../../schemas/api/create-job.ts'
import type {
  ChangeListsBody, ContactListsBody, ListFileQuery, LookedUpBody, LookUpBody,
} from '../../schemas/api/contact-lists.ts'
import type {
  AttemptBody, CreateEndpointBody, EndpointBody, EndpointDeliveriesBody, EndpointWithSecretBody,
  ResentBody, UpdateEndpointBody,
} from '../../schemas/api/webhooks.ts'
import type { FileOptions as FileQuery, FilePreviewBody } from '../../schemas/api/file.ts'
import type {
  EraseJobQuery, JobBody, JobListBody, ListJobsQuery, ProgressBody,
} from '../../schemas/api/job.ts'
import type { CreateQuoteBody, QuoteBody } from '../../schemas/api/quote.ts'
import type {
  LIST_PARAMETERS, ResultRow, ResultsPage, ResultsQuery,
} from '../../schemas/api/results.ts'
import type { ServicesBody } from '../../schemas/api/services.ts'
import type { CreateVerificationBody, VerificationBody } from '../../schemas/api/verifications.ts'
import {
  createTransport, isLostConnection, readJson, type Transport, type TransportOptions,
} from './transport.ts'

export { ApiError } from './transport.ts'
/** @public Programs import it from here, as the API reference says. */
export { ConnectionError } from './transport.ts'

/** The body of POST /api/v1/jobs. The API reference describes each field. */
export type JobRequest =
Readonly<Omit<CreateJobBody, 'service' | 'inputs' | 'options' | 'metadata'>> & {
  readonly service: string
  /** What else to find out about each number, at a price of its own. */
  readonly options?: readonly string[]
  readonly inputs: readonly JobInput[]
  readonly metadata?: Readonly<Record<string, string>>
}

/** The body of POST /api/v1/quotes: `sample` asks for the expected verdicts as well. */
type QuoteRequest = JobRequest & Pick<CreateQuoteBody, 'sample'>

/** How a CSV file or a workbook (.xlsx) becomes a job. The API reference describes each option. */
export type FileOptions = Omit<JobRequest, 'inputs'> & {
  /** The column with the contacts: its name, or its number from 1. */
  readonly column?: string | number
  readonly header?: boolean
  readonly delimiter?: FileQuery['delimiter']
  /** Of a workbook: the name of the sheet, or its number from 1. */
  readonly sheet?: string
}

/** What is known of a file before its preview. */
type PreviewOptions = Partial<Pick<FileOptions,
  'service' | 'column' | 'header' | 'delimiter' | 'sheet'>>

export type Created = Readonly<AcceptedBody>
export type JobStatusResource = Readonly<JobBody>
export type ClientOptions = TransportOptions

type Verified = Readonly<VerificationBody>

type WaitOptions = {
  /** Called when the status has changed, and once a second. */
  readonly onProgress?: (job: JobStatusResource) => void
  /** Polls at this interval instead of letting the service answer when the status changes. */
  readonly pollEveryMs?: number
  readonly timeoutMs?: number
}

type VerifyOptions = Pick<CreateVerificationBody, 'wait'> & Pick<WaitOptions, 'timeoutMs'> & {
  /** Your own key (UUID v4), to be able to repeat the request in another process. */
  readonly idempotencyKey?: string
}

/** Selects jobs by status and service. `limit` is the length of a page, not of the list. */
type JobFilter = Omit<ListJobsQuery, 'after'>

/** A row of the results: the columns of the result file by name. Blank cells are null. */
export type { ResultRow } from '../../schemas/api/results.ts'

type OneOrMore<T> = T | readonly T[]
type ListName = typeof LIST_PARAMETERS[number]

/**
 * Selects rows by the values of columns, and `columns`. `duplicates: 'drop'` leaves them out,
 * `'mailbox'` keeps the first row of each mailbox.
 * `join: 'original'` adds the columns of the job's file.
 */
export type RowSelection = Pick<ResultsQuery, 'duplicates' | 'join' | 'types'> & {
  readonly [Name in ListName]?: OneOrMore<NonNullable<ResultsQuery[Name]>[number]>
}

/** What happened to a job, see `events`. */
type JobEvent = {
  readonly id: string
  readonly type: 'progress' | 'end'
  readonly data: ProgressBody
}

/** A row of a job that may still run: `provisional` is false once it has ended. */
type ProvisionalRow = ResultRow & {
  readonly provisional: boolean
  /** Continues after this row. */
  readonly cursor: string
}

type PageQuery = RowSelection & Pick<ResultsQuery, 'limit' | 'cursor'>
type ResultFileOptions = RowSelection & Pick<ResultsQuery, 'safe' | 'delimiter'>
type ResultFileFormat = { readonly format?: 'csv' | 'jsonl' | 'xlsx' | 'parquet' }
type Bytes = AsyncIterable<Uint8Array>

const ENDED: readonly string[] = ['completed', 'cancelled', 'failed']

/** Whether the status of a job is final. */
export function hasEnded ({ status }: JobStatusResource): boolean {
  return ENDED.includes(status)
}

const MAX_JOBS_PAGE = 100
const MAX_ROWS_PAGE = 1_000

/**
 * A client of the REST API. Every method resolves with the body of a successful response and throws
 * `ApiError` for every other response. It retries requests that fail temporarily, lost connections
 * included. It sends each job with an Idempotency-Key, so a retry never creates a second job.
 */
export function createClient (options: ClientOptions) {
  const send = createTransport(options)
  return {
    ...jobsApi(send),
    ...verifyApi(send),
    ...resultsApi(send),
    ...provisionalApi(send),
    ...quotesApi(send),
    ...accountApi(send),
    ...deliveriesApi(send),
    ...contactListsApi(send),
    ...webhookEndpointsApi(send),
  }
}

export type Client = ReturnType<typeof createClient>

function jobsApi (send: Transport) {
  const job = (id: string) => readJson<JobStatusResource>(send(`/jobs/${id}`))

  const jobsPage = ({ metadata, ...query }: ListJobsQuery = {}) =>
    readJson<JobListBody>(send(`/jobs${queryString({ ...query, ...labelFields(metadata) })}`))

  return {
    /** Pass your own key (UUID v4) to be able to repeat the request in another process. */
    createJob: (body: JobRequest, idempotencyKey: string = randomUUID()) =>
      readJson<Created>(send('/jobs', {
        method: 'POST', headers: { 'idempotency-key': idempotencyKey }, body,
      })),

    /**
     * Creates a job from a CSV file, in UTF-8 or Windows-1252, or a workbook (.xlsx). Its columns
     * come back with the results that are read with `join: 'original'`.
     */
    createJobFromFile: (
      file: Uint8Array, options: FileOptions, idempotencyKey: string = randomUUID()
    ) => readJson<Created>(sendFile(send, '/jobs', {
      file, options, headers: { 'idempotency-key': idempotencyKey },
    })),

    job,
    jobsPage,

    /** Iterates over all jobs, newest first. Requests the next page when the loop needs it. */
    jobs: (filter: JobFilter = {}): AsyncIterable<JobStatusResource> =>
      paginate(cursor => jobsPage({ limit: MAX_JOBS_PAGE, ...filter, ...cursor }), 'after'),

    /** Cancels a job: running checks complete and are charged, the remaining money is released. */
    cancel: (id: string) =>
      readJson<JobStatusResource>(send(`/jobs/${id}/cancel`, { method: 'POST' })),

    /**
     * Erases a job that has ended, for ever: its results, inputs and metadata. `cache` also deletes
     * the cached verdicts of its contacts.
     */
    eraseJob: (id: string, { cache = false }: { readonly cache?: boolean } = {}) =>
      readJson<JobStatusResource>(send(
        `/jobs/${id}${queryString({ cache: cache ? 'true' : undefined } satisfies EraseJobQuery)}`,
        { method: 'DELETE' })),

    /**
     * The progress of a job as it is made, until its end: each event once. Connects again by
     * itself. `after` is the id of the last event of an earlier call; `signal` ends it with its
     * reason as the error.
     */
    events: (id: string, after = '', signal?: AbortSignal): AsyncIterable<JobEvent> =>
      followJob(send, id, after, signal),

    /** Waits until the job has ended. Throws after `timeoutMs` (10 min by default). */
    waitForEnd: (id: string, options: WaitOptions = {}) => waitForEnd(send, id, options),
  }
}

/** The pause before a lost stream is opened again. */
const RECONNECT_MS = 1_000

async function * followJob (
  send: Transport, id: string, after = '', signal?: AbortSignal
): AsyncIterable<JobEvent> {
  for (let last = after; ;) {
    const headers = { accept: 'text/event-stream', ...last !== '' && { 'last-event-id': last } }
    const response = await send(`/jobs/${id}/events`, { headers, signal })
    if (response.status === 204) return
    try {
      for await (const event of readEvents(readBytes(response))) {
        last = event.id
        yield event
        if (event.type === 'end') return
      }
    } catch (error) {
      if (!isLostConnection(error)) throw error
    }
    await delay(RECONNECT_MS, undefined, { signal })
  }
}

/** The whole events of a stream; an event ends with a blank line. */
async function * readEvents (bytes: Bytes): AsyncIterable<JobEvent> {
  let fields: Record<string, string> = {}
  for await (const line of readLines(bytes)) {
    const [, name = '', value = ''] = /^(\w+): (.*)$/.exec(line) ?? []
    if (name !== '') fields[name] = value
    if (line !== '') continue
    const { id, event, data } = fields
    if (id !== undefined && data !== undefined) {
      yield { id, type: event === 'end' ? 'end' : 'progress', data: JSON.parse(data) }
    }
    fields = {}
  }
}

/** Answers with rows in one call. */
function verifyApi (send: Transport) {
  return {
    /**
     * Verifies up to 100 contacts and resolves with their rows, even if they take longer than one
     * response. Throws if they have not ended after `timeoutMs` (10 min by default); the job
     * continues.
     */
    verify: async (body: JobRequest, options: VerifyOptions = {}): Promise<Verified> => {
      const { idempotencyKey = randomUUID(), wait, timeoutMs = TIMEOUT_MS } = options
      const response = await send('/verifications', {
        method: 'POST',
        headers: { 'idempotency-key': idempotencyKey },
        body: { ...body, wait },
      })
      if (response.status === 200) return await response.json() as Verified
      const { id, preflight } = await response.json() as Created
      const job = await waitForEnd(send, id, { timeoutMs })
      const { data } = await resultsApi(send).resultsPage(id, { limit: MAX_ROWS_PAGE })
      return { ...job, preflight, results: [...data] }
    },
  }
}

/** The query fields of labels: `metadata[name]=value`. */
function labelFields (
  metadata: Readonly<Record<string, string>> = {}
): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(metadata).map(([name, value]) => [`metadata[${name}]`, value]))
}

type SentFile = {
  readonly file: Uint8Array
  readonly options: FileOptions | PreviewOptions
  readonly headers?: Readonly<Record<string, string>>
}

function sendFile (
  send: Transport, path: string, { file, options, headers }: SentFile
): Promise<Response> {
  const { metadata, ...named } = options as Partial<FileOptions>
  return send(`${path}${queryString({ ...named, ...labelFields(metadata) })}`, {
    method: 'POST', headers: { ...headers, 'content-type': 'text/csv' }, body: file,
  })
}

const TIMEOUT_MS = 600_000
/** The longest wait of the service. */
const MAX_WAIT_SECONDS = 25
/** The pause after a response without a wait or a change: the service is too busy to wait. */
const BUSY_PAUSE_MS = 250

/** Long polling: the service answers when the status of the job changes. */
async function waitForEnd (
  send: Transport, id: string, options: WaitOptions
): Promise<JobStatusResource> {
  const { onProgress, pollEveryMs, timeoutMs = TIMEOUT_MS } = options
  const deadlineMs = Date.now() + timeoutMs
  const maxWait = pollEveryMs !== undefined ? 0 : onProgress !== undefined ? 1 : MAX_WAIT_SECONDS
  for (let before: string | undefined; ;) {
    const sentAtMs = Date.now()
    const wait = Math.max(0, Math.min(maxWait, Math.ceil((deadlineMs - sentAtMs) / 1_000)))
    const query = queryString({ wait: wait === 0 ? undefined : wait })
    const job = await readJson<JobStatusResource>(send(`/jobs/${id}${query}`))
    onProgress?.(job)
    if (hasEnded(job)) return job
    if (Date.now() > deadlineMs) {
      throw new Error(`${job.id} is still ${job.status} after ${timeoutMs} ms`)
    }
    const isBusy = job.status === before && Date.now() - sentAtMs < BUSY_PAUSE_MS
    await delay(pollEveryMs ?? (isBusy ? BUSY_PAUSE_MS : 0))
    before = job.status
  }
}

/** Prices of jobs. */
function quotesApi (send: Transport) {
  return {
    /**
     * Quotes a job without creating it. Reserves nothing. With `sample` it also verifies a sample
     * of the list, free, and resolves with the expected shares of verdicts.
     */
    quote: (body: QuoteRequest) => readJson<QuoteBody>(send('/quotes', { method: 'POST', body })),

    /** Quotes a job from a CSV file or a workbook. */
    quoteFile: (file: Uint8Array, options: FileOptions & Pick<QuoteRequest, 'sample'>) =>
      readJson<QuoteBody>(sendFile(send, '/quotes', { file, options })),

    /**
     * Says in which column of a CSV file or a workbook the contacts are, which service takes them,
     * and which country national numbers are from. The first lines of a CSV file are enough.
     */
    previewFile: (file: Uint8Array, options: PreviewOptions = {}) =>
      readJson<FilePreviewBody>(sendFile(send, '/file-previews', { file, options })),
  }
}

/**
 * The request options for a result file. zstd costs both sides half as much as gzip, which `fetch`
 * requests by default. `undici` is what `fetch` is made of: it decodes zstd from 7.29 on, older
 * versions return the compressed bytes.
 */
function acceptCompressed (): { readonly headers?: Record<string, string> } {
  const [major = 0, minor = 0] = (process.versions['undici'] ?? '').split('.').map(Number)
  const decodesZstd = major > 7 || (major === 7 && minor >= 29)
  return decodesZstd ? { headers: { 'accept-encoding': 'zstd, gzip' } } : {}
}

/** Reads the results of a job as a file, as pages or as a stream of rows. */
function resultsApi (send: Transport) {
  const requestFile = (id: string, options: ResultFileOptions & ResultFileFormat) =>
    send(`/jobs/${id}/results${queryString({ format: 'csv', ...options })}`, acceptCompressed())

  const fileBytes = async (id: string, options: ResultFileOptions & ResultFileFormat) =>
    new Uint8Array(await (await requestFile(id, options)).arrayBuffer())

  const resultsPage = (id: string, query: PageQuery = {}): Promise<ResultsPage> =>
    readJson(send(`/jobs/${id}/results${queryString({ ...query, format: 'json' })}`))

  return {
    /**
     * The whole result file as text. `safe: 'spreadsheet'` escapes formulas, `join: 'original'`
     * puts the columns of the job's file before those of the results.
     */
    results: async (id: string, options: ResultFileOptions = {}): Promise<string> =>
      (await requestFile(id, options)).text(),

    /**
     * The result file as a stream of bytes, for files that do not fit into memory: CSV, or
     * `format: 'jsonl'`, `'xlsx'` and `'parquet'`.
     */
    resultsFile: async (
      id: string, options: ResultFileOptions & ResultFileFormat = {}
    ): Promise<Bytes> => readBytes(await requestFile(id, options)),

    /** The results as an Excel workbook (.xlsx): a sheet of the rows, and one of the summary. */
    resultsWorkbook: (id: string, options: ResultFileOptions = {}): Promise<Uint8Array> =>
      fileBytes(id, { ...options, format: 'xlsx' }),

    /** The results as Parquet, for DuckDB, ClickHouse, pandas and the like. */
    resultsParquet: (id: string, options: ResultFileOptions = {}): Promise<Uint8Array> =>
      fileBytes(id, { ...options, format: 'parquet' }),

    resultsPage,

    /** Iterates over the selected rows. Requests the next page when needed. */
    resultRows: (id: string, selection: RowSelection = {}): AsyncIterable<ResultRow> =>
      paginate(cursor =>
        resultsPage(id, { ...selection, limit: MAX_ROWS_PAGE, ...cursor }), 'cursor'),

    /** Iterates over the selected rows of one streamed response (JSON lines). */
    resultLines: async function * (
      id: string, selection: RowSelection = {}
    ): AsyncIterable<ResultRow> {
      yield * readRows<ResultRow>(await requestFile(id, { format: 'jsonl', ...selection }))
    },
  }
}

/** Rows of jobs that run. */
function provisionalApi (send: Transport) {
  return {
    /**
     * Iterates over the selected rows that are complete now, also of a job that runs. `after` is
     * the cursor of the last row of an earlier call.
     */
    completeRows: async function * (
      id: string, selection: RowSelection & { readonly after?: string } = {}
    ): AsyncIterable<ProvisionalRow> {
      yield * readRows<ProvisionalRow>(await sendProvisional(send, id, selection))
    },

    /**
     * Iterates over the selected rows of a job while it runs, each once as soon as it is complete,
     * until all have come. `after` is the cursor of the last row of an earlier call.
     */
    provisionalResults: async function * (
      id: string, { after, ...selection }: RowSelection & { readonly after?: string } = {}
    ): AsyncIterable<ProvisionalRow> {
      let cursor = after
      // The rows of an event may be stored a moment after it, but those of the last one are.
      for await (const { type } of followJob(send, id)) {
        for (let isRead = false; !isRead;) {
          const response = await sendProvisional(send, id, { ...selection, after: cursor })
          try {
            for await (const row of readRows<ProvisionalRow>(response)) {
              cursor = row.cursor
              yield row
            }
            cursor = response.headers.get('next-cursor') ?? cursor
            isRead = type !== 'end' || response.headers.get('results-complete') === 'true'
          } catch (error) {
            if (!isLostConnection(error)) throw error
          }
        }
      }
    },
  }
}

/** One answer with the rows that are complete. */
function sendProvisional (
  send: Transport, id: string, selection: RowSelection & { readonly after?: string | undefined }
): Promise<Response> {
  const query = { format: 'jsonl', provisional: true, ...selection }
  return send(`/jobs/${id}/results${queryString(query)}`, acceptCompressed())
}

async function * readRows<T extends ResultRow> (response: Response): AsyncIterable<T> {
  for await (const line of readLines(readBytes(response))) yield JSON.parse(line) as T
}

function readBytes ({ body, status, url }: Response): Bytes {
  if (body === null) throw new Error(`the response ${status} of ${url} has no body`)
  return body
}

/** The lines of a text in UTF-8. */
export async function * readLines (bytes: Bytes): AsyncIterable<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of bytes) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    yield * lines
  }
  if (rest !== '') yield rest
}

const MAX_TRANSACTIONS_PAGE = 100
type UsageFilter = Omit<UsageQuery, 'format'>

/** Balance, movements, usage and services of the organization that owns the key. */
function accountApi (send: Transport) {
  const transactionsPage = (query: TransactionsQuery = {}) =>
    readJson<TransactionList>(send(`/transactions${queryString(query)}`))

  return {
    balance: () => readJson<BalanceBody>(send('/balance')),

    transactionsPage,

    /** Iterates over the movements of the balance, newest first. */
    transactions: (filter: Omit<TransactionsQuery, 'after'> = {}): AsyncIterable<TransactionBody> =>
      paginate(cursor =>
        transactionsPage({ limit: MAX_TRANSACTIONS_PAGE, ...filter, ...cursor }), 'after'),

    /** Jobs, rows and money by day, service or key; by default the last 30 days by day. */
    usage: (query: UsageFilter = {}) =>
      readJson<UsageBody>(send(`/usage${queryString({ ...query, format: 'json' })}`)),

    /** The same as a CSV file. */
    usageFile: async (query: UsageFilter = {}): Promise<string> =>
      (await send(`/usage${queryString({ ...query, format: 'csv' })}`)).text(),

    /** The services with their prices for the mode of the key. */
    services: () => readData<ServicesBody['data'][number]>(send('/services')),
  }
}

const MAX_ATTEMPTS_PAGE = 100
const ADDRESS = '/webhook-endpoints'

/** The webhook endpoints of an organization, in the mode of the key. */
function webhookEndpointsApi (send: Transport) {
  return {
    /** The secret is in this result only. A retry after a lost response is left to the caller. */
    createWebhookEndpoint: (body: CreateEndpointBody) =>
      readJson<EndpointWithSecretBody>(send(ADDRESS, { method: 'POST', body, repeatable: false })),

    webhookEndpoints: () => readData<EndpointBody>(send(ADDRESS)),

    webhookEndpoint: (id: string) => readJson<EndpointBody>(send(`${ADDRESS}/${id}`)),

    /** Changes the given settings only. */
    updateWebhookEndpoint: (id: string, body: UpdateEndpointBody) =>
      readJson<EndpointBody>(send(`${ADDRESS}/${id}`, { method: 'PATCH', body })),

    deleteWebhookEndpoint: (id: string) =>
      readJson<{ readonly id: string, readonly deleted: true }>(
        send(`${ADDRESS}/${id}`, { method: 'DELETE' })),

    /** The old secret signs beside the new one for a day. A second call would drop it earlier. */
    rotateWebhookEndpointSecret: (id: string) =>
      readJson<EndpointWithSecretBody>(send(`${ADDRESS}/${id}/rotate-secret`, {
        method: 'POST', repeatable: false,
      })),

    /** The public keys that verify events, the newest first: `publicKey` of `verifyWebhook`. */
    webhookKeys: async () =>
      (await readData<{ readonly key: string }>(send('/webhook-keys'))).map(({ key }) => key),

    /** Iterates over the delivery attempts to an endpoint, those of the newest jobs first. */
    endpointDeliveries: (id: string): AsyncIterable<AttemptBody> =>
      paginate(cursor => readJson<EndpointDeliveriesBody>(
        send(`${ADDRESS}/${id}/deliveries${queryString({ limit: MAX_ATTEMPTS_PAGE, ...cursor })}`)),
      'after'),
  }
}

/** The allow, block and suppression lists of an organization. */
function contactListsApi (send: Transport) {
  return {
    contactLists: () => readJson<ContactListsBody>(send('/contact-lists')),

    /** Adds entries, or removes them; resolves once jobs follow them two seconds later. */
    changeContactLists: (body: Readonly<ChangeListsBody>) =>
      readJson<ContactListsBody>(send('/contact-lists', { method: 'POST', body })),

    /**
     * Does so by a CSV file with the columns entry, list and perhaps kind, or with one column of
     * entries and an action. A line that cannot be used rejects all of them.
     */
    changeContactListsFromFile: (file: Uint8Array, query: Readonly<ListFileQuery> = {}) =>
      readJson<ContactListsBody>(send(`/contact-lists/file${queryString({ ...query })}`, {
        method: 'POST', headers: { 'content-type': 'text/csv' }, body: file,
      })),

    /** What the lists say of at most 1,000 contacts or other entries. */
    lookUpContacts: (body: Readonly<LookUpBody>) => readData<LookedUpBody['data'][number]>(
      send('/contact-lists/lookups', { method: 'POST', body })),
  }
}

/** Webhook deliveries of a job. */
function deliveriesApi (send: Transport) {
  return {
    /** The delivery attempts of the job's event, newest first. */
    deliveries: (id: string) => readData<AttemptBody>(send(`/jobs/${id}/deliveries`)),

    /** Resends an event. Never retries after a lost response: that could send the event twice. */
    resend: (id: string, deliveryId: string) =>
      readJson<ResentBody>(send(`/jobs/${id}/deliveries/${deliveryId}/resend`, {
        method: 'POST', repeatable: false,
      })),
  }
}

/** The items of a list that is not paginated. */
async function readData<T> (response: Promise<Response>): Promise<readonly T[]> {
  return (await readJson<{ readonly data: readonly T[] }>(response)).data
}

type Page<T> = {
  readonly data: readonly T[]
  readonly has_more: boolean
  readonly next_cursor: string | null
}

/** Iterates over all items of a paginated list. `name` is the query parameter of the cursor. */
async function * paginate<T> (
  read: (cursor: Readonly<Record<string, string>>) => Promise<Page<T>>, name: string
): AsyncIterable<T> {
  let cursor = {}
  for (;;) {
    const { data, next_cursor: next } = await read(cursor)
    yield * data
    if (next === null) return
    cursor = { [name]: next }
  }
}

type QueryValue = string | number | boolean | readonly string[]

/** Formats defined fields as `?a=1&b=2`, lists with commas; returns '' when there are none. */
function queryString (
  fields: Readonly<Record<string, QueryValue | undefined>>
): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined) query.set(name, String(value))
  }
  return query.size === 0 ? '' : `?${query}`
}
