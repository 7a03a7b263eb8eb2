import { finished as whenFinished, Readable } from 'node:stream'
import type {
  FastifyBaseLogger, FastifyReply, FastifyRequest, RouteOptions,
} from 'fastify'
import { LRUCache } from 'lru-cache'
import type { AttemptBody } from '../../schemas/api/webhooks.ts'
import { WORKBOOK_TYPE } from '../../schemas/api/file.ts'
import { JOB_STATES, type JobListBody } from '../../schemas/api/job.ts'
import type { ResultRow, ResultsPage } from '../../schemas/api/results.ts'
import { ROW_STATUSES, type RowStatus } from '../../schemas/api/verdicts.ts'
import { ApiError, type Client, hasEnded, type JobStatusResource } from '../client/client.ts'
import { resultDisposition } from '../jobs/results/csv.ts'
import { FairSlots, FairPool } from '../runtime/platform/limits.ts'
import { sleep } from '../runtime/platform/retry.ts'
import { SERVICE_SLUGS } from '../topology.ts'
import {
  customerRoutes, type Exchange, field, may, type PageDeps, type Permission, type Visit,
} from './context.ts'
import { isStillSignedIn, toRequester } from './guard.ts'
import { count, html, type Html, time } from './html.ts'
import {
  attemptTable, breakdown, jobName, jobState, jobTable, MAX_LIVE_JOBS, moneyTable,
  stateText, uploadLink, VERDICTS, waitingRows, type JobSummary, quality, summarize, summaryTables,
} from './job-components.ts'
import {
  badge, customerPage, emptyState, findNotice, postForm, redirect, select, sendHtml, table,
} from './layout.ts'
import { PageError } from './page-error.ts'

const JOBS_PER_PAGE = 20
/** The maximum page size of the REST interface. */
const MAX_JOBS_PER_PAGE = 100
/** How many of these pages one search reads. */
const MAX_SEARCHED_PAGES = 5
const PREVIEW_ROWS = 100

/** Ids of a path become part of a REST path, so they may contain no other characters. */
const ID = /^[a-z]+_[0-9a-z]{1,64}$/
/** Of an event, and of the endpoint that it went to. */
const DELIVERY_ID = /^[a-z]+_[0-9a-z]{1,64}(\.we_[0-9a-z]{1,64})?$/

/**
 * The list of jobs, and one job with its progress, its files, its deliveries, its cancellation and
 * its erasure.
 */
export function jobPageRoutes (deps: PageDeps): readonly RouteOptions[] {
  const route = customerRoutes(deps)
  return [
    route('GET', '/:mode/jobs', { access: 'jobs.view', navigation: 'Jobs' }, sendJobs),
    route('GET', '/:mode/jobs/:id', { access: 'jobs.view' }, exchange => sendJob(deps, exchange)),
    ...FILES.map(([name, end]) => route('GET', `/:mode/jobs/:id/${name}`, {
      access: 'results.view', records: 'results.downloaded',
    }, exchange => sendFile(exchange, end))),
    route('POST', '/:mode/jobs/:id/cancel', {
      access: 'jobs.change', records: 'job.cancelled',
    }, async exchange => {
      const { id } = pathIds(exchange.request.params)
      await exchange.visit.client.cancel(id)
      return redirect(exchange, `jobs/${id}`, 'cancelled')
    }),
    route('POST', '/:mode/jobs/:id/deliveries/:delivery/resend', {
      access: 'webhooks.change', records: 'delivery.resent',
    }, async exchange => {
      const { id, delivery } = pathIds(exchange.request.params)
      const { status } = await exchange.visit.client.resend(id, delivery)
      return redirect(exchange, `jobs/${id}`, status === 'queued' ? 'resent' : 'trying')
    }),
    route('GET', '/:mode/jobs/:id/erase', {
      access: 'jobs.change',
    }, async ({ visit, request, reply }) => {
      const job = await visit.client.job(pathIds(request.params).id)
      if (!isErasable(job)) throw new PageError('not_found')
      return sendHtml(reply, eraseView(visit, job))
    }),
    route('POST', '/:mode/jobs/:id/erase', {
      access: 'jobs.change', records: 'job.erased',
    }, async exchange => {
      const { visit, request } = exchange
      const { id } = pathIds(request.params)
      await visit.client.eraseJob(id, { cache: field(request, 'cache') === 'yes' })
      return redirect(exchange, `jobs/${id}`, 'erased')
    }),
    summaryRoute(deps),
    liveRoute(deps),
  ]
}

/** Sends a page of the list of jobs. */
async function sendJobs ({ visit, request, reply }: Exchange): Promise<FastifyReply> {
  const query = request.query as Readonly<Record<string, unknown>>
  const text = (name: string) => typeof query[name] === 'string' ? query[name].trim() : ''
  const filter = Object.fromEntries(FILTERS.map(name => [name, text(name)])) as JobFilter
  const { search, label, value, ...fields } = filter
  const asked = {
    ...Object.fromEntries(Object.entries({ ...fields, after: text('after') })
      .filter(([, chosen]) => chosen !== '')),
    ...label !== '' && { metadata: { [label]: value } },
  }
  return sendHtml(reply, jobsView(visit, search === ''
    ? await visit.client.jobsPage({ limit: JOBS_PER_PAGE, ...asked })
    : await findJobs(visit.client, search.toLowerCase(), asked), filter))
}

/**
 * Jobs whose id, state, service or labels contain a text in lower case. Labels are encrypted, so
 * jobs are read until enough match; the cursor continues with those that were not read.
 */
async function findJobs (
  client: Client, search: string, asked: JobQuery
): Promise<Pick<JobListBody, 'data' | 'next_cursor'>> {
  const matching: JobStatusResource[] = []
  let after = asked.after
  for (let pages = 0; pages < MAX_SEARCHED_PAGES && matching.length < JOBS_PER_PAGE; pages++) {
    const { data, next_cursor: next } =
      await client.jobsPage({ limit: MAX_JOBS_PER_PAGE, ...asked, after })
    matching.push(...data.filter(({ id, status, service, metadata }) =>
      [id, stateText(status), service, ...Object.values(metadata)].some(text =>
        text.toLowerCase().includes(search))))
    if (next === null) return { data: matching, next_cursor: null }
    after = next
  }
  return { data: matching, next_cursor: after ?? null }
}

type JobQuery = NonNullable<Parameters<Client['jobsPage']>[0]>

const FILTERS = [
  'search', 'status', 'service', 'created_from', 'created_to', 'label', 'value',
] as const

/** The query of the list by field; '' means no filter. `label` and `value` are of metadata. */
type JobFilter = Readonly<Record<typeof FILTERS[number], string>>

async function sendJob (
  deps: PageDeps, { visit, request, reply }: Exchange
): Promise<FastifyReply> {
  const { id } = pathIds(request.params)
  const job = await visit.client.job(id)
  const { verdict } = request.query as { readonly verdict?: unknown }
  const status = ROW_STATUSES.find(name => name === verdict)
  const isShown = (permission: Permission) => hasEnded(job) && may(visit.visitor, permission)
  const [preview, attempts] = await Promise.all([
    isShown('results.view') ? readPreview(visit.client, id, status) : undefined,
    isShown('webhooks.view') ? visit.client.deliveries(id) : [],
  ])
  if (preview !== undefined && preview.data.length > 0) {
    await recordPreview(deps, { visit, request }, id)
  }
  return sendHtml(reply, jobView(visit, { job, preview, status, attempts }))
}

/** Records that a visitor sees rows of a job. */
async function recordPreview (
  { accessLog }: PageDeps, { visit, request }: Omit<Exchange, 'reply'>, id: string
): Promise<void> {
  await accessLog.append({
    ...toRequester(visit.visitor),
    action: 'results.previewed',
    target: id,
    address: request.clientAddress,
    details: { mode: visit.tenant.mode },
  })
}

async function readPreview (client: Client, id: string, status: RowStatus | undefined) {
  try {
    return await client.resultsPage(id, { limit: PREVIEW_ROWS, ...status && { status } })
  } catch (error) {
    // The results are erased, or older than their retention.
    if (error instanceof ApiError && error.status === 410) return undefined
    throw error
  }
}

/** The result files of a job, with the ends of their names. */
const FILES = [
  ['results.csv', '.csv'], ['results.xlsx', '.xlsx'], ['valid.csv', '.valid.csv'],
] as const

/**
 * All rows, as CSV or a workbook, or the clean list: those that are valid, each contact once. CSV
 * has the delimiter of the upload, which is the one that spreadsheets of its country expect. With
 * `list=yes` it has only what was sent, as it was, to be verified by another service.
 */
async function sendFile (
  { visit, request, reply }: Exchange, end: typeof FILES[number][1]
): Promise<FastifyReply> {
  const job = await visit.client.job(pathIds(request.params).id)
  const { join, list } = request.query as Readonly<Record<string, unknown>>
  const isWorkbook = end === '.xlsx'
  const chunks = await visit.client.resultsFile(job.id, {
    ...isWorkbook ? { format: 'xlsx' } : { delimiter: 'original' },
    ...!isWorkbook && (list === 'yes' ? { columns: ['input'] } : { safe: 'spreadsheet' }),
    ...end === '.valid.csv' && { status: 'valid', duplicates: 'drop' },
    ...join === 'original' && { join },
  })
  const { id, hasOriginalColumns, metadata } = job
  return reply.type(isWorkbook ? WORKBOOK_TYPE : 'text/csv; charset=utf-8')
    // Named after the file that the job was made from.
    .header('content-disposition', resultDisposition(id, {
      end, ...hasOriginalColumns && { upload: metadata['file'] },
    }))
    .send(Readable.from(chunks))
}

/** The ids in a path; throws PageError 404 for an invalid id. */
function pathIds (parameters: unknown): { readonly id: string, readonly delivery: string } {
  const { id = '', delivery = 'evt_0' } = parameters as Readonly<Record<string, string>>
  if (!ID.test(id) || !DELIVERY_ID.test(delivery)) throw new PageError('not_found')
  return { id, delivery }
}

/** The jobs of a tenant, newest first, with their progress. */
function jobsView (
  visit: Visit, { data, next_cursor: after }: Pick<JobListBody, 'data' | 'next_cursor'>,
  filter: JobFilter
): Html {
  const path = `/${visit.tenant.mode}/jobs`
  const isFiltered = Object.values(filter).some(text => text !== '')
  return customerPage(visit, {
    title: 'Jobs',
    scripts: ['live.js'],
    body: html`
      <div class="heading"><h1>Jobs</h1>${uploadLink(visit)}</div>
      ${filterForm(filter)}
      ${data.length > 0
        ? jobTable(visit, data)
        : isFiltered
          ? emptyState(after === null
            ? 'No job matches the filter.'
            : 'No job among the newest matches the filter. Look at older jobs.', html`
            <a class="button quiet" href="${path}">Show all jobs</a>`)
          : emptyState('No job yet. Verify a file, or send jobs through the REST interface.')}
      ${after !== null && html`<p><a class="button quiet"
        href="${path}?${String(new URLSearchParams({ ...filter, after }))}">Older jobs</a></p>`}`,
  })
}

function filterForm (filter: JobFilter): Html {
  const choice = (name: keyof JobFilter, options: readonly (readonly [string, string])[]) =>
    select(name, filter[name], [['', 'Any'], ...options])
  const input = (type: string, name: keyof JobFilter) =>
    html`<input type="${type}" name="${name}" value="${filter[name]}">`
  const isRefined = [filter.created_from, filter.created_to, filter.label, filter.value]
    .some(text => text !== '')
  return html`<form class="filter" method="get" role="search" aria-label="Jobs">
    <label>Search <input type="search" name="search" value="${filter.search}"
      placeholder="File, label or id"></label>
    <label>State ${choice('status', JOB_STATES.map(name => [name, stateText(name)]))}</label>
    <label>Service ${choice('service', SERVICE_SLUGS.map(name => [name, name]))}</label>
    <details${isRefined && html` open`}><summary>More</summary><div class="filter">
      <label>Created from ${input('date', 'created_from')}</label>
      <label>Created to ${input('date', 'created_to')}</label>
      <label>Label ${input('text', 'label')}</label>
      <label>Value ${input('text', 'value')}</label>
    </div></details>
    <button class="button quiet" type="submit">Show</button>
  </form>`
}

type JobDetails = {
  readonly job: JobStatusResource
  /** The first rows, while results exist. */
  readonly preview: ResultsPage | undefined
  /** The verdict that these have; undefined for any. */
  readonly status: RowStatus | undefined
  readonly attempts: readonly AttemptBody[]
}

/** One job: progress, breakdown, money, results and deliveries. */
function jobView (visit: Visit, details: JobDetails): Html {
  const { job } = details
  const { mode } = visit.tenant
  const mayChange = may(visit.visitor, 'jobs.change')
  return customerPage(visit, {
    title: `Job ${jobName(job)}`,
    scripts: ['live.js', 'sort.js'],
    body: html`
      <p class="back"><a href="/${mode}/jobs">Jobs</a></p>
      ${findNotice(visit)}
      <div class="heading">
        <h1 class="long">${jobName(job)}</h1>
        ${mayChange && !hasEnded(job) && job.status !== 'cancelling' && postForm(
          visit, `/${mode}/jobs/${job.id}/cancel`, html`
          <button class="button quiet danger" type="submit">Cancel the job</button>`)}
        ${mayChange && isErasable(job) && html`<a class="button quiet danger"
          href="/${mode}/jobs/${job.id}/erase">Erase the job</a>`}
      </div>
      ${!hasEnded(job) && html`<div data-live="/${mode}/live?view=job&amp;job=${job.id}"></div>`}
      ${jobState(job)}
      ${waitingRows(job, visit.zone)}
      ${facts(visit, job)}
      <div class="columns">
        <section><h2>Verdicts</h2>${quality(job)}</section>
        <div>
          <section><h2>Money</h2>${moneyTable(job)}</section>
          <section><h2>Where verdicts come from</h2>${breakdown(job)}</section>
        </div>
      </div>
      ${may(visit.visitor, 'results.view') && isErasable(job) && html`
        <div aria-live="polite" data-part="/${mode}/jobs/${job.id}/summary">
          <section><p class="hint">Counting the results.</p></section></div>`}
      ${may(visit.visitor, 'results.view') && resultSection(visit, details)}
      ${may(visit.visitor, 'webhooks.view') && deliverySection(visit, details)}`,
  })
}

function facts ({ zone }: Visit, job: JobStatusResource): Html {
  const fact = (name: string, value: Html | string) =>
    html`<div><dt>${name}</dt><dd>${value}</dd></div>`
  return html`<dl class="facts">
    ${fact('Job', html`<code>${job.id}</code>`)}
    ${fact('Service', job.service)}
    ${fact('Created', time(job.createdAt, zone))}
    ${fact('Ended', job.completedAt === null ? 'Not yet' : time(job.completedAt, zone))}
    ${job.deadline !== null && fact('Deadline', time(job.deadline, zone))}
    ${job.erasedAt !== null && fact('Erased', time(job.erasedAt, zone))}
  </dl>`
}

function resultSection (visit: Visit, { job, preview, status }: JobDetails): Html {
  return html`<section id="results"><div class="heading">
      <h2>Results</h2>
      ${preview !== undefined && downloads(visit, job)}</div>
    ${preview !== undefined
      ? html`${verdictChoice(visit, job, status)}${previewTable(visit, { job, preview, status })}`
      : !hasEnded(job)
        ? completeRows(job, [])
        : emptyState(job.erasedAt === null
          ? 'The results of this job are deleted.'
          : 'This job is erased.')}
  </section>`
}

/** The first rows that are complete while a job runs. Live updates replace this element. */
function completeRows ({ id, totalRows }: JobStatusResource, rows: readonly ResultRow[]): Html {
  return html`<div id="rows-${id}">${rows.length === 0
    ? emptyState('Rows appear here as they are complete. You may close this page: the job ' +
      'continues.')
    : html`<p class="hint">The first ${count(rows.length)} of ${count(totalRows)} rows that are
        complete. The files are here as soon as the job has ended; you may close this page.</p>
      ${rowTable(rows)}`}</div>`
}

function downloads (
  { tenant: { mode } }: Visit, { id, hasOriginalColumns }: JobStatusResource
): Html {
  const path = `/${mode}/jobs/${id}`
  return html`<div>
      <a class="button quiet" download
        href="${path}/valid.csv${hasOriginalColumns ? '?join=original' : ''}"
        title="The valid rows, without duplicates">Valid only</a>
      ${hasOriginalColumns && html`<a class="button quiet" download
        href="${path}/results.csv?join=original"
        title="The results beside the columns of your file">With your columns</a>`}
      <a class="button quiet" download
        href="${path}/results.xlsx${hasOriginalColumns ? '?join=original' : ''}">Download Excel</a>
      <a class="button" download href="${path}/results.csv">Download CSV</a>
    </div>`
}

/** Chooses the verdict of the rows that are shown. */
function verdictChoice (
  { tenant: { mode } }: Visit, { id, verdicts }: JobStatusResource, status: RowStatus | undefined
): Html {
  const choice = (text: string, query: string, isChosen: boolean) => html`
    <a href="/${mode}/jobs/${id}${query}#results"${isChosen && html` aria-current="true"`}>${
      text}</a>`
  return html`<nav class="modes" aria-label="Verdict of the rows">
    ${choice('All', '', status === undefined)}
    ${Object.entries(VERDICTS).map(([name, [text]]) => choice(verdicts === null
      ? text
      : `${text} ${count(verdicts[name as RowStatus])}`, `?verdict=${name}`, name === status))}
  </nav>`
}

const PREVIEW_COLUMNS = [
  'row', 'input', 'status', 'reason', 'source', 'confidence', 'e164', 'email', 'country',
  'line_type', 'carrier',
] as const

type Preview = Pick<JobDetails, 'job' | 'status'> & { readonly preview: ResultsPage }

function previewTable (
  { visitor, tenant: { mode } }: Visit, { job, preview: { data }, status }: Preview
): Html {
  const check = `/${mode}/upload?${new URLSearchParams({ service: CARRIER_CHECK, list: job.id })}`
  const isStartable = may(visitor, 'jobs.change') && job.service !== CARRIER_CHECK
  return html`
    <p class="hint">The first ${count(data.length)} ${status === undefined
      ? `of ${count(job.totalRows)} rows`
      : `rows that are ${status}`}. The file has all rows and columns; cells that a spreadsheet
      would run as a formula start with an apostrophe.</p>
    ${data.some(isByPlan) && html`<p class="hint">By numbering plan: the range of the number is
      assigned or not, which does not say that a number is in service. ${
        isStartable && html`<a href="${check}">Verify the list with a carrier
          check</a>, which shows its price first.`}</p>`}
    ${data.length > 0 && rowTable(data, { isSortable: true })}`
}

/** A service that asks carriers about each number. */
const CARRIER_CHECK = 'carrier-lookup'

function rowTable (rows: readonly ResultRow[], options: { readonly isSortable?: boolean } = {}) {
  // Omits columns that are blank in every row, or as the input.
  const columns = PREVIEW_COLUMNS.filter(name => name === 'input' ||
    rows.some(row => (row[name] ?? '') !== '' && row[name] !== row['input']))
  return table('Results', rows, columns.map(name => ({
    text: `${name.charAt(0).toUpperCase()}${name.slice(1).replace('_', ' ')}`,
    isNumber: name === 'row' || name === 'confidence',
    cell: (row: ResultRow) => {
      const text = String(row[name] ?? '')
      if (name === 'source' && isByPlan(row)) return PLAN_SOURCES[text] ?? text
      if (name === 'status') return badge(text, TONES[text] ?? 'muted')
      return IN_WORDS.has(name) ? text.replaceAll('_', ' ') : text
    },
  })), options)
}

/** Columns of codes, which people read as words. */
const IN_WORDS: ReadonlySet<string> = new Set(['reason', 'line_type'])

const PLAN_SOURCES: Readonly<Record<string, string>> = {
  live: 'by numbering plan', cache: 'by numbering plan (cache)',
}

/** Whether only the range of a number was looked up. */
function isByPlan ({ checks }: ResultRow): boolean {
  return checks?.numbering_plan !== undefined && checks.vendor === undefined
}

const TONES: Readonly<Record<string, string>> = {
  valid: 'good', invalid: 'bad', risky: 'waiting', unknown: 'muted',
}

/**
 * The delivery attempts of a job's events, with a form to send each again: not progress, and none
 * that was discarded, as its endpoint or the contents of its job no longer exist.
 */
function deliverySection (visit: Visit, { job, attempts }: JobDetails): Html {
  const discarded = new Set(attempts.filter(({ outcome }) => outcome === 'discarded')
    .map(({ deliveryId }) => deliveryId))
  const types = new Map(attempts
    .filter(({ deliveryId, type }) => type !== 'job.progress' && !discarded.has(deliveryId))
    .map(({ deliveryId, type }) => [deliveryId, type]))
  return html`<section><div class="heading">
      <h2>Webhook deliveries</h2>
      ${[...types].map(([id, type]) => postForm(
        visit, `/${visit.tenant.mode}/jobs/${job.id}/deliveries/${id}/resend`, html`
        <button class="button quiet" type="submit">${
          types.size > 1 ? `Send ${type} once more` : 'Send once more'}</button>`))}</div>
    ${attempts.length > 0
      ? attemptTable(visit, 'job', attempts)
      : emptyState(hasEnded(job)
        ? 'No event was sent. A job with a webhook address sends one when it ends; the first ' +
          'attempt appears here within seconds.'
        : 'If the job has a webhook address, it sends an event when it ends.')}
  </section>`
}

/** Whether a job has ended and is not erased yet. */
function isErasable (job: JobStatusResource): boolean {
  return hasEnded(job) && job.erasedAt === null
}

/** Asks whether a job is to be erased. */
function eraseView (visit: Visit, job: JobStatusResource): Html {
  const path = `/${visit.tenant.mode}/jobs/${job.id}`
  return customerPage(visit, {
    title: 'Erase a job',
    body: html`
      <div class="narrow">
        <h1>Erase ${jobName(job)}?</h1>
        <p>Its inputs, results and labels become unreadable for ever, at once and for everybody.
          Counts, prices and movements of the balance stay. This cannot be undone.</p>
        ${postForm(visit, `${path}/erase`, html`
          <label class="check"><input type="checkbox" name="cache" value="yes">
            Also forget the cached verdicts of its contacts: later jobs check them again, and
            pay for it.</label>
          <p class="row"><button class="button bad" type="submit">Erase the job</button>
            <a class="button quiet" href="${path}">Keep it</a></p>`)}
      </div>`,
  })
}

const MAX_SUMMARIES = 200
/** Summaries that are counted at a time, which organizations share fairly: each reads all rows. */
const CONCURRENT_SUMMARIES = 8

/** The counts of an ended job by country, line type, mail provider and domain, for the script. */
function summaryRoute (deps: PageDeps): RouteOptions {
  const slots = new FairSlots({ capacity: CONCURRENT_SUMMARIES, maxCredit: 0 })
  // The results of an ended job do not change.
  const summaries = new LRUCache<string, Promise<JobSummary | undefined>>({ max: MAX_SUMMARIES })
  return customerRoutes(deps)('GET', '/:mode/jobs/:id/summary', {
    access: 'results.view', forScript: true,
  }, async ({ visit, request, reply }) => {
    const job = await visit.client.job(pathIds(request.params).id)
    if (!isErasable(job)) throw new PageError('not_found')
    let counting = summaries.get(job.id)
    if (counting === undefined) {
      // Shared from its start: however often a page asks, the rows are read once.
      counting = slots.run({ name: visit.tenant.orgId, cost: 1 }, async () =>
        await summarize(await deps.rest.of(visit.tenant), job))
      summaries.set(job.id, counting)
      counting.catch(() => summaries.delete(job.id))
    }
    const summary = await counting
    return reply.send({ html: summary === undefined ? '' : summaryTables(summary).html })
  })
}

/** A change of a page, as its script receives it. */
type LiveUpdate = {
  /** HTML of changed elements, by their ids. */
  readonly elements: Readonly<Record<string, string>>
  /** Text for screen readers; '' for none. */
  readonly announcement: string
  /** All jobs have ended, so no update follows. */
  readonly done: boolean
}

const POLL_MS = { job: 500, list: 1_000 } as const
/** A job that is followed by its events is read after so long without one: what waits changes. */
const QUIET_MS = 5_000
/** Concurrent streams, shared fairly by organizations; above it a page shows no progress. */
const MAX_STREAMS = 1_000
const MAX_STREAMS_PER_ORG = 100
/** Browsers reconnect after this time, which checks their session again. */
const MAX_STREAM_MS = 300_000
const MAX_SEEN = 10_000
const SEEN_MS = 3_600_000
const STREAM_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
}

/** Progress of jobs as server-sent events. */
function liveRoute (deps: PageDeps): RouteOptions {
  const pool = new FairPool({ capacity: MAX_STREAMS, maxPerName: MAX_STREAMS_PER_ORG })
  const seenRows: LiveDeps['seenRows'] = new LRUCache({ max: MAX_SEEN, ttl: SEEN_MS })
  return customerRoutes(deps)('GET', '/:mode/live', {
    access: 'jobs.view', forScript: true,
  }, async exchange => {
    const closed = new AbortController()
    const place = pool.open(exchange.visit.tenant.orgId, () => closed.abort())
    if (!place.grow(1)) throw new PageError('unavailable')
    try {
      return await sendProgress({ ...deps, seenRows }, exchange, closed)
    } finally {
      place.release()
    }
  })
}

type LiveDeps = PageDeps & {
  /** Sessions and the running jobs whose rows they saw, for the access log: one entry an hour. */
  readonly seenRows: LRUCache<string, true>
}

async function sendProgress (
  { seenRows, ...deps }: LiveDeps, { visit, request, reply }: Exchange, closed: AbortController
): Promise<FastifyReply> {
  const { ids, isOne } = readWatched(request)
  let jobs = await readJobs(visit.client, ids)
  // The browser may have gone already.
  whenFinished(reply.raw, () => closed.abort())
  reply.hijack()
  reply.raw.writeHead(200, STREAM_HEADERS)
  const write = (update: LiveUpdate) => reply.raw.write(`data: ${JSON.stringify(update)}\n\n`)
  const pause = (ms: number) => (deps.sleep ?? sleep)(ms, closed.signal)
  const shown = new Map<string, JobStatusResource>()
  const [id = ''] = ids
  const events = isOne ? new JobEvents(visit.client, id, closed.signal, request.log) : undefined
  const rows = isOne && may(visit.visitor, 'results.view') ? new CompleteRows(id) : undefined
  const endsAt = performance.now() + MAX_STREAM_MS
  try {
    for (;;) {
      const update = nextUpdate(jobs, shown, isOne ? visit.zone : undefined)
      if (update !== undefined) write(update)
      if (jobs.every(hasEnded) || performance.now() > endsAt) break
      if (rows !== undefined && await rows.readMore(await deps.rest.of(visit.tenant))) {
        const seen = `${visit.visitor.id} ${id}`
        if (!seenRows.has(seen)) await recordPreview(deps, { visit, request }, id)
        seenRows.set(seen, true)
        const elements = { [`rows-${id}`]: completeRows(jobs[0]!, rows.read).html }
        write({ elements, announcement: '', done: false })
      }
      const latest = await (events?.next(pause) ?? pause(POLL_MS.list))
      if (!await isStillSignedIn(deps, visit.visitor)) break
      jobs = latest === undefined
        ? await readJobs(await deps.rest.of(visit.tenant), ids)
        : [latest]
    }
  } catch (error) {
    // The browser reconnects shortly after the stream ends.
    if (!closed.signal.aborted) {
      request.log.warn({ err: error, request: request.id, jobs: ids }, 'progress stream failed')
    }
  }
  closed.abort()
  reply.raw.end()
  return reply
}

/** Follows a job by its events, and by polling while there are none. */
class JobEvents {
  readonly #client: Client
  readonly #id: string
  readonly #signal: AbortSignal
  #latest: JobStatusResource | undefined
  #isOpen = false
  #wake = () => {}

  constructor (client: Client, id: string, signal: AbortSignal, log: FastifyBaseLogger) {
    this.#client = client
    this.#id = id
    this.#signal = signal
    this.#follow().catch((error: unknown) => {
      this.#isOpen = false
      if (!signal.aborted) log.info({ err: error, job: id }, 'events of a job ended; polling it')
    })
  }

  async #follow (): Promise<void> {
    for await (const { data } of this.#client.events(this.#id, '', this.#signal)) {
      const { finished: _, cursor: _cursor, ...job } = data
      this.#isOpen = true
      this.#latest = job
      this.#wake()
    }
  }

  /** The job by its next event; undefined when it is time to read it. */
  async next (pause: (ms: number) => Promise<unknown>): Promise<JobStatusResource | undefined> {
    const woken = new Promise<void>(resolve => { this.#wake = resolve })
    if (this.#latest === undefined) {
      await Promise.race([pause(this.#isOpen ? QUIET_MS : POLL_MS.job), woken])
    }
    const latest = this.#latest
    this.#latest = undefined
    return latest
  }
}

/** The first rows of a running job that are complete. */
class CompleteRows {
  readonly #id: string
  #rows: ResultRow[] = []
  #cursor: string | undefined

  constructor (id: string) {
    this.#id = id
  }

  /** Those that were read, each once. */
  get read (): readonly ResultRow[] {
    return this.#rows
  }

  /** Whether there are more of them now. */
  async readMore (client: Client): Promise<boolean> {
    const before = this.#rows.length
    if (before === PREVIEW_ROWS) return false
    try {
      for await (const row of client.completeRows(this.#id, { after: this.#cursor })) {
        this.#cursor = row.cursor
        if (this.#rows.push(row) === PREVIEW_ROWS) break
      }
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      // After a fault the rows were counted again, in another order.
      if (error.code === 'cursor_moved') [this.#rows, this.#cursor] = [[], undefined]
    }
    return this.#rows.length > before
  }
}

/** Reads several jobs with one request, because each request counts in the limits of the tenant. */
async function readJobs (
  client: Client, ids: readonly string[]
): Promise<readonly JobStatusResource[]> {
  const { data } = ids.length === 1
    ? { data: [] }
    : await client.jobsPage({ limit: MAX_JOBS_PER_PAGE })
  const listed = new Map(data.map(job => [job.id, job]))
  return await Promise.all(ids.map(async id => listed.get(id) ?? await client.job(id)))
}

/** The jobs that a page watches; one of its own, or those of a list. */
function readWatched (
  { query }: FastifyRequest
): { readonly ids: readonly string[], readonly isOne: boolean } {
  const { job = [], view } = query as { readonly job?: string | string[], readonly view?: string }
  const ids = [...new Set([job].flat())]
  if (ids.length === 0 || ids.length > MAX_LIVE_JOBS) throw new PageError('bad_form')
  return { ids: ids.map(id => pathIds({ id }).id), isOne: view === 'job' }
}

/**
 * The update for a page that shows these jobs, which become the new ones; undefined when none
 * changed. The page of one job, which needs the time zone, also gets its breakdown and what waits.
 */
function nextUpdate (
  jobs: readonly JobStatusResource[], shown: Map<string, JobStatusResource>, zone?: string
): LiveUpdate | undefined {
  const changed = jobs.filter(job => JSON.stringify(job) !== JSON.stringify(shown.get(job.id)))
  if (changed.length === 0) return undefined
  const announced = changed.filter(job => {
    const before = shown.get(job.id)
    return before !== undefined && before.status !== job.status
  })
  for (const job of changed) shown.set(job.id, job)
  const elements = changed.flatMap(job => [
    [`state-${job.id}`, jobState(job).html] as const,
    ...(zone === undefined ? [] : renderDetails(job, zone)),
  ])
  return {
    elements: Object.fromEntries(elements),
    announcement: announced.map(job => `${jobName(job)}: ${stateText(job.status)}.`).join(' '),
    done: jobs.every(hasEnded),
  }
}

/** What only the page of one job shows. */
const renderDetails = (job: JobStatusResource, zone: string) => [
  [`quality-${job.id}`, quality(job).html] as const,
  [`money-${job.id}`, moneyTable(job).html] as const,
  [`breakdown-${job.id}`, breakdown(job).html] as const,
  [`waiting-${job.id}`, waitingRows(job, zone).html] as const,
]
