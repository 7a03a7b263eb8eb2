import { finished as whenFinished, Readable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import type { FastifyRequest, RouteOptions, FastifyReply } from 'fastify'
import { COUNTRY_CODES } from '../../schemas/api/country.ts'
import { MAX_BODY_BYTES, UUID_V4_PATTERN } from '../../schemas/api/create-job.ts'
import { type EstimateBody, NO_ESTIMATE_TEXTS, type QuoteBody } from '../../schemas/api/quote.ts'
import { limitationsText } from '../../schemas/api/services.ts'
import type { RowStatus } from '../../schemas/api/verdicts.ts'
import { UnreadableFile } from '../../schemas/files/csv-format.ts'
import { sheetAsCsv, type SheetFacts } from '../../schemas/files/workbook.ts'
import type { Client, FileOptions, JobStatusResource } from '../client/client.ts'
import { BodyGuard, type MinimumThroughput } from '../runtime/platform/peer-guards.ts'
import { eventLoop, FairPool } from '../runtime/platform/limits.ts'
import { customerRoutes, type PageDeps, type Visit } from './context.ts'
import { count, html, money, share, type Html } from './html.ts'
import { shareBar, swatch, VERDICTS } from './job-components.ts'
import { customerPage, emptyState, select, sendHtml } from './layout.ts'
import { PageError } from './page-error.ts'

const MAX_FILE_NAME_CHARACTERS = 200
const UUID_V4 = new RegExp(UUID_V4_PATTERN)

/** The query of both requests, whose body is the file. */
type UploadQuery = Readonly<Record<string, unknown>>

/** Verifies a file in two requests: its quote, then its job. The page reads and stores no file. */
export function uploadRoutes (deps: PageDeps, pace: MinimumThroughput): readonly RouteOptions[] {
  const route = customerRoutes(deps)
  const limits = createUploadLimits(pace)
  const takeFile = (name: string, handle: Parameters<typeof route>[3]): RouteOptions => ({
    ...route('POST', `/:mode/upload/${name}`, {
      // As for the REST interface, a job is in the journal.
      access: 'jobs.change', records: null, forScript: true,
    }, handle),
    ...limits,
  })
  return [
    route('GET', '/:mode/upload', {
      access: 'jobs.change', navigation: 'Verify a file',
    }, async ({ visit, request, reply }) => {
      const services = await visit.client.services()
      return sendHtml(reply, uploadView(visit, services, await readStart(visit, request)))
    }),
    takeFile('quote', async ({ visit, request, reply }) => {
      const { file, options } = requireUpload(request)
      const [quote, balance, services] = await Promise.all([
        visit.client.quoteFile(file, options), visit.client.balance(), visit.client.services(),
      ])
      const priceMicros = rowPriceMicros(services, options)
      const { availableMicros } = balance
      const { earlier } = request.query as UploadQuery
      const counts = readCounts(earlier)
      const sums = COUNTED.map(name => [name, quote.preflight[name] + counts[name]])
      const preflight = { ...quote.preflight, ...Object.fromEntries(sums) as Counts }
      const { html } = quoteView({
        quote: { ...quote, preflight }, availableMicros, priceMicros, jobs: countParts(request),
      })
      return reply.send({ html, preflight })
    }),
    takeFile('estimate', async ({ visit, request, reply }) => {
      const { file, options } = requireUpload(request)
      const { estimate } = await visit.client.quoteFile(file, { ...options, sample: true })
      return reply.send(estimateView(estimate, countParts(request) > 1))
    }),
    takeFile('sheet', async ({ visit, request, reply }) => {
      if (!Buffer.isBuffer(request.body)) throw new PageError('bad_form')
      const { sheet } = request.query as UploadQuery
      const content = await readSheet(request.body, visit.tenant.orgId,
        typeof sheet === 'string' && sheet !== '' ? sheet : undefined)
      return reply.type('application/json; charset=utf-8').send(Readable.from(sheetJson(content)))
    }),
    takeFile('preview', async ({ visit, request, reply }) => {
      const { file, options } = readUpload(request)
      const { column, service, header, delimiter } = options
      return reply.send(await visit.client.previewFile(file, {
        delimiter,
        column: column || undefined,
        service: service || undefined,
        header: (request.query as UploadQuery)['header'] === undefined ? undefined : header,
      }))
    }),
    takeFile('job', async ({ visit, request, reply }) => {
      const { id } = request.query as UploadQuery
      if (typeof id !== 'string' || !UUID_V4.test(id)) throw new PageError('bad_form')
      const { file, options } = requireUpload(request)
      const job = await visit.client.createJobFromFile(file, options, id)
      return reply.send({ path: `/${visit.tenant.mode}/jobs/${job.id}` })
    }),
  ]
}

/** How many jobs the file becomes. */
function countParts ({ query }: FastifyRequest): number {
  const { parts } = query as UploadQuery
  return /^\d{1,4}$/.test(String(parts)) ? Number(parts) : 1
}

/** Of a workbook: as many as the service accepts, and of the CSV that the browser gets. */
const MAX_INFLATED_BYTES = 256 * 1_024 * 1_024
const MAX_CSV_BYTES = 64 * 1_024 * 1_024

type Sheet = SheetFacts & { readonly csv: Buffer }

/** A sheet of a workbook as CSV, and the names of all; a PageError says why it cannot be read. */
async function readSheet (
  workbook: Buffer, tenant: string, wanted: string | undefined
): Promise<Sheet> {
  try {
    return await sheetAsCsv(workbook, {
      sheet: wanted,
      maxInflatedBytes: MAX_INFLATED_BYTES,
      maxBytes: MAX_CSV_BYTES,
      pause: () => eventLoop.yield('bulk', tenant),
    })
  } catch (error) {
    if (!(error instanceof UnreadableFile)) throw error
    throw new PageError('bad_form', error.message)
  }
}

const PIECE_BYTES = 65_536

/** A sheet as JSON, in pieces: one text of it would take several times the memory of the sheet. */
function * sheetJson ({ csv, ...facts }: Sheet): Generator<string> {
  const decoder = new StringDecoder('utf8')
  const escaped = (text: string) => JSON.stringify(text).slice(1, -1)
  yield `${JSON.stringify(facts).slice(0, -1)},"csv":"`
  for (let at = 0; at < csv.length; at += PIECE_BYTES) {
    yield escaped(decoder.write(csv.subarray(at, at + PIECE_BYTES)))
  }
  yield `${escaped(decoder.end())}"}`
}

/** The price of a row with the chosen options. */
function rowPriceMicros (services: readonly Service[], chosen: FileOptions): number {
  const service = services.find(({ slug }) => slug === chosen.service)
  const more = (service?.options ?? []).filter(({ name }) =>
    chosen.options?.some(option => option.split(':')[0] === name))
  return more.reduce((sum, { priceMicros }) => sum + priceMicros, service?.priceMicros ?? 0)
}

type Counts = Readonly<Record<typeof COUNTED[number], number>>

const COUNTED = [
  'totalRows', 'invalidRows', 'duplicateRows', 'cacheHits', 'freshChecks', 'maxQuoteMicros',
] as const

/** The counts of parts that were quoted before, as the browser sends them back; zero without. */
function readCounts (text: unknown): Counts {
  let sent: Readonly<Record<string, unknown>> | null = null
  try {
    sent = JSON.parse(String(text)) as typeof sent
  } catch {
    // Zero, as for the first part.
  }
  return Object.fromEntries(COUNTED.map(name => {
    const number = Number(sent?.[name])
    return [name, Number.isSafeInteger(number) && number >= 0 ? number : 0]
  })) as Counts
}

type Upload = { readonly file: Buffer, readonly options: FileOptions }

/** As `readUpload`; throws PageError 400 as well if no service is chosen. */
function requireUpload (request: FastifyRequest): Upload {
  const upload = readUpload(request)
  if (upload.options.service === '') throw new PageError('bad_form')
  return upload
}

/** The file and its options; throws PageError 400. The REST interface validates the rest. */
function readUpload ({ body, query }: FastifyRequest): Upload {
  const text = (name: string) => {
    const value = (query as UploadQuery)[name]
    return typeof value === 'string' ? value.trim() : ''
  }
  if (!Buffer.isBuffer(body)) throw new PageError('bad_form')
  const name = text('file').slice(0, MAX_FILE_NAME_CHARACTERS)
  const options = {
    service: text('service'),
    column: text('column'),
    delimiter: text('delimiter') as FileOptions['delimiter'] & string,
    header: text('header') === 'true',
    forceFresh: text('fresh') === 'true',
    options: text('options') === '' ? undefined : text('options').split(','),
    countryCode: text('country') || undefined,
    deadline: text('deadline') === '' ? undefined : Number(text('deadline')),
    webhook_url: text('webhook') || undefined,
    metadata: name === '' ? undefined : { file: name },
  }
  return { file: body, options }
}

type Service = Awaited<ReturnType<Client['services']>>[number]

/** With what the form starts: a service, and the list of a job. */
type Start = { readonly service: string, readonly list: JobStatusResource | undefined }

/** As the query says it: `service`, and the id of a job as `list`. */
async function readStart ({ client }: Visit, { query }: FastifyRequest): Promise<Start> {
  const { service, list } = query as UploadQuery
  return {
    service: typeof service === 'string' ? service : '',
    list: typeof list === 'string' && JOB_ID.test(list) ? await client.job(list) : undefined,
  }
}

const JOB_ID = /^job_[0-9a-z]{1,64}$/

/** Where the browser reads the list, and what it is called. */
function listData (mode: string, { id, hasOriginalColumns, metadata }: JobStatusResource): Html {
  const join = hasOriginalColumns ? '&join=original' : ''
  const name = metadata['file']?.replace(/\.xlsx$/i, '.csv') ?? `${id}.csv`
  return html` data-list="/${mode}/jobs/${id}/results.csv?list=yes${join}" data-name="${name}"`
}

/** The form that verifies a file: file, column and service, then quote and confirmation. */
function uploadView (
  visit: Visit, services: readonly Service[], { service, list }: Start
): Html {
  const { mode } = visit.tenant
  const usable = services.filter(({ configured }) => configured)
  const isMissing = service !== '' && !usable.some(({ slug }) => slug === service)
  return customerPage(visit, {
    title: 'Verify a file',
    scripts: ['upload.js'],
    body: html`
      <h1>Verify a file</h1>
      ${usable.length === 0
        ? emptyState('No service is set up for this mode. Ask the operator of this installation.')
        : html`
          <p class="hint">The file is kept encrypted with its job, so that the results can be
            downloaded beside your own columns. You see the price before anything is charged.</p>
          ${isMissing && html`<p class="notice warn">The service ${service} is not set up here. Ask
            the operator of this installation, or choose another one.</p>`}
          <form id="upload" class="card" data-mode="${mode}"${list && listData(mode, list)}
            data-token="${visit.visitor.session.token}">
            <label>File <input type="file" name="file" accept=".csv,.tsv,.txt,.xlsx,text/csv"
              aria-describedby="file-hint" required></label>
            <p class="hint" id="file-hint">CSV or an Excel workbook (.xlsx). One contact per line,
              separated by comma, semicolon, tab or bar, up to 200 MiB; of a workbook one sheet,
              up to 34 MiB. More than 100,000 rows become several jobs.</p>
            <div id="chosen" hidden>${choices(usable, service)}</div>
            <p id="error" class="notice bad" role="alert" hidden></p>
            <button id="ask" class="button" type="submit" disabled>Show the price</button>
          </form>
          <section id="quote" aria-labelledby="quote-title" hidden></section>
          <p id="working" class="state" hidden><span></span>
            <progress aria-label="Progress" max="1"></progress></p>`}
      <noscript><p class="notice bad">Reading a file needs JavaScript. Jobs can also be sent
        through the REST interface.</p></noscript>`,
  })
}

const regions = new Intl.DisplayNames('en', { type: 'region' })

/** Countries by their names: browsers find one by the letters that are typed. */
const COUNTRIES: readonly (readonly [code: string, name: string])[] = [
  ['', 'None: all numbers start with +'],
  ...COUNTRY_CODES.map(code => [code, regions.of(code) ?? code] as const)
    .toSorted(([, one], [, other]) => one.localeCompare(other, 'en')),
]

/** Deadlines to choose from, in seconds. */
const DEADLINES = [
  ['', 'As long as usual'], ['600', '10 minutes'], ['3600', '1 hour'], ['21600', '6 hours'],
  ['86400', '1 day'], ['172800', '2 days'],
] as const

function choices (services: readonly Service[], chosen: string): Html {
  return html`
    <label class="check"><input type="checkbox" name="header" checked> The first line names the
      columns</label>
    <div class="fields">
      <label id="sheets" hidden>Sheet <select name="sheet"></select></label>
      <label>Column <select name="column"></select></label>
      <label>Service <select name="service">${services.map(({ slug, inputKind, priceMicros }) =>
        html`<option value="${slug}" data-kind="${inputKind}"${
          slug === chosen && html` selected`}>${slug} (${money(priceMicros)} per row)</option>`)
      }</select></label>
      <div><label>Country ${select('country', '', COUNTRIES)}</label>
        <p class="hint">Of the numbers that have no country code.</p></div>
    </div>
    <p class="hint" id="reason" role="status"></p>
    ${services.filter(({ options }) => options.length > 0).map(optionChoices)}
    <p class="notice warn" id="national" role="status" hidden><span></span> Choose their country:
      without it they end as not readable. <button class="button quiet" type="button"
        id="guess" hidden></button></p>
    <div class="table" id="sample" role="region" aria-label="First lines of the file" tabindex="0">
    </div>
    <details><summary>More</summary>
      <label>Webhook address, called when the job ends
        <input type="url" name="webhook" maxlength="2048" placeholder="https://"
          autocomplete="off"></label>
      <label>Wait for slow mail servers
        ${select('deadline', '', DEADLINES)}</label>
      <p class="hint">Some mail servers answer only after minutes or hours. Contacts without an
        answer by then end as unknown, free. You can also cancel the job at any time: what is
        verified stays.</p>
      <label class="check"><input type="checkbox" name="fresh"> Check every contact live, even if
        it is in the cache</label>
    </details>`
}

/** What an option finds out, in words. */
const OPTIONS: Readonly<Record<string, string>> = {
  line_status: 'Is it in service and reachable now?',
  sim_swap: 'Was its SIM changed lately?',
  call_forwarding: 'Are calls forwarded?',
  reassigned_number: 'Does somebody else have it now, since the date',
  sms_pumping_risk: 'Is it used to inflate SMS traffic?',
}

/** The priced options of a service, which are shown while it is chosen. */
function optionChoices ({ slug, options }: Service): Html {
  return html`<fieldset class="options" data-service="${slug}" hidden>
    <legend>Find out more about each number</legend>
    ${options.map(({ name, priceMicros }) => html`<label class="check">
      <input type="checkbox" name="option" value="${name}"> ${OPTIONS[name] ?? name}
      (${money(priceMicros)} more per row)</label>
      ${name === 'reassigned_number' && html`<label>Date of the consent or the last contact
        <input type="date" name="since-${slug}"></label>`}`)}
    <p class="hint">A row is charged if every chosen question has an answer; otherwise it ends as
      unknown, free.</p>
  </fieldset>`
}

type Quote = {
  readonly quote: QuoteBody
  readonly availableMicros: number
  readonly priceMicros: number
  /** How many jobs the file becomes. */
  readonly jobs: number
}

/** The maximum price of a job, and the button that starts it. */
function quoteView ({ quote, availableMicros, priceMicros, jobs }: Quote): Html {
  const { preflight, service, limitations } = quote
  const { totalRows, invalidRows, duplicateRows, cacheHits, freshChecks } = preflight
  const line = (name: string, rows: number, price: string) => html`<tr>
    <th scope="row">${name}</th><td class="number">${count(rows)}</td>
    <td class="number">${price}</td></tr>`
  const isEnough = preflight.maxQuoteMicros <= availableMicros
  return html`
    <h2 id="quote-title" tabindex="-1">At most ${money(preflight.maxQuoteMicros)}</h2>
    <table>
      <caption class="unseen">Quote for ${service}</caption>
      <thead><tr><th scope="col">Rows</th><th scope="col" class="number">Number</th>
        <th scope="col" class="number">Price</th></tr></thead>
      <tbody>
        ${line('Checked live', freshChecks, `${money(priceMicros)} each`)}
        ${line('In your cache', cacheHits, 'free, but reserved')}
        ${line('Duplicates', duplicateRows, 'free')}
        ${line('Unreadable or blocked', invalidRows, 'free')}
      </tbody>
      <tfoot>${line('All', totalRows, `at most ${money(preflight.maxQuoteMicros)}`)}</tfoot>
    </table>
    ${jobs > 1 && html`<p>The file becomes ${count(jobs)} jobs. Duplicates are found within each of
      them, and in your cache.</p>`}
    <p class="hint">The maximum is reserved. What is not charged, for example for rows without a
      verdict, is released when the job ends. Available: ${money(availableMicros)}.</p>
    ${limitations.length === 0
      ? ''
      : html`<p class="hint">Limitations: ${limitationsText(limitations)}.</p>`}
    <div id="estimate">${estimateButton()}</div>
    ${isEnough
      ? html`<p class="row"><button class="button" type="button" id="confirm">${jobs > 1
        ? `Start ${count(jobs)} jobs`
        : 'Start the job'}</button><button class="button quiet" type="button" id="back">Change
          something</button></p>`
      : html`<p class="notice bad" role="alert">${money(preflight.maxQuoteMicros - availableMicros)}
          more is needed. Have the balance topped up, or verify fewer rows.</p>
          <p><button class="button quiet" type="button" id="back">Change something</button></p>`}`
}

function estimateButton (): Html {
  return html`<p><button class="button quiet" type="button" id="ask-estimate">Estimate the
      verdicts, free</button></p>
    <p class="hint">Verifies up to 100 contacts of the list and shows how many are likely to be
      valid. Nothing is reserved or charged, and rows are not shown.</p>`
}

/**
 * The expected verdicts of a list, or why they are not known. Of a file that becomes several jobs
 * it is the first part.
 */
function estimateView (estimate: EstimateBody | undefined, isPart: boolean): Html {
  const { status, reason, shares, contacts = 0, sampledContacts = 0, checkedContacts = 0 } =
    estimate ?? {}
  if (status === 'running') {
    return html`<p class="notice" id="estimate-title" tabindex="-1">${count(checkedContacts)} of
      ${count(sampledContacts)} contacts of the sample have an answer. Ask again in a minute:
      none is verified twice.</p>${estimateButton()}`
  }
  if (shares === undefined || shares === null) {
    return html`<p class="notice" id="estimate-title" tabindex="-1">
      ${NO_ESTIMATE_TEXTS[reason ?? 'temporarily_unavailable']}</p>`
  }
  const verdicts = Object.entries(VERDICTS).map(([verdict, [name, tone]]) => {
    const { share: part, low, high } = shares[verdict as RowStatus]
    return { name, tone, rows: Math.round(part * sampledContacts), low, high }
  })
  return html`<h3 id="estimate-title" tabindex="-1">What to expect</h3>
    ${shareBar('Expected verdicts', verdicts, sampledContacts)}
    <table>
      <caption class="unseen">Expected verdicts</caption>
      <thead><tr><th scope="col">Verdict</th><th scope="col" class="number">Expected</th>
        <th scope="col" class="number">With 95 % confidence</th></tr></thead>
      <tbody>${verdicts.map(({ name, tone, rows, low, high }) => html`<tr>
        <th scope="row">${swatch(tone)} ${name}</th>
        <td class="number">${share(rows, sampledContacts)}</td>
        <td class="number">${share(low, 1)} to ${share(high, 1)}</td></tr>`)}</tbody>
    </table>
    <p class="hint">By a free sample of ${count(sampledContacts)} of ${count(contacts)} contacts to
      verify${isPart && ' in the first part of the file'}. Duplicates,
      unreadable and blocked rows are not among them.</p>`
}

/** Concurrent uploads in all. Reading a file takes several times its size in memory. */
const MAX_UPLOADS = 6
/** Concurrent uploads of one organization, so that no customer locks out the others. */
const MAX_UPLOADS_PER_ORG = 2

type Hooks = Required<Pick<RouteOptions, 'bodyLimit' | 'preParsing'>> & {
  readonly onRequest: (request: FastifyRequest, reply: FastifyReply) => Promise<void>
}

/**
 * Limits concurrent uploads, which organizations share fairly, and rejects others with 503 before
 * it reads their bodies: each takes the memory of the largest file. A body below the minimum
 * throughput of `pace` loses its connection, and so does the latest of an organization that has
 * more than another one needs.
 */
export function createUploadLimits (pace: MinimumThroughput): Hooks {
  const guard = new BodyGuard({
    pool: new FairPool({
      capacity: MAX_UPLOADS * MAX_BODY_BYTES, maxPerName: MAX_UPLOADS_PER_ORG * MAX_BODY_BYTES,
    }),
    minimum: pace,
    maxBytes: MAX_BODY_BYTES,
    end: ({ raw }) => raw.socket.destroy(),
  })
  return {
    bodyLimit: MAX_BODY_BYTES,
    onRequest: async (request, reply) => {
      const subject = request.visitor?.session.subject
      const org = subject?.kind === 'customer' ? subject.orgId : ''
      const isFree = guard.open(request, org).grow(MAX_BODY_BYTES)
      // The browser may have gone already.
      whenFinished(reply.raw, () => guard.release(request))
      if (isFree) return
      throw new PageError('unavailable', 'The service is reading too many files at the moment. ' +
        'Try again in a few seconds.')
    },
    // A synchronous hook, because the parser of the body has to be attached before the first chunk.
    preParsing: (...[request, , payload, done]) => {
      guard.watch(request, payload as Readable)
      done(null, payload)
    },
  }
}
