import { closeSync, fsyncSync, ftruncateSync, writeSync } from 'node:fs'
import { pipeline, Readable } from 'node:stream'
import { parse } from 'csv-parse'
import type { Static } from 'typebox'
import type { PreflightSchema } from '../../schemas/api/create-job.ts'
import { type EstimateBody, NO_ESTIMATE_TEXTS, type QuoteBody } from '../../schemas/api/quote.ts'
import { limitationsText } from '../../schemas/api/services.ts'
import { csvCell, guardCell, uniqueNames } from '../../schemas/files/csv-format.ts'
import type { JobRequest, JobStatusResource, RowSelection } from './client.ts'
import { decodeCell, encodeCell, readRecords, type CsvRecord } from './csv.ts'
import {
  decodeContact, type FileFacts, type Plan, readContacts, ROW_NUMBER_COLUMNS, type RowRange,
  selectColumns,
} from './plan.ts'
import {
  NOTHING_JOINED, openRun, stateFileName, type Joined, type Run, type RunJob,
  type RunStore, type SubmitDeps, type SubmitSettings,
} from './run.ts'
import {
  CommandError, count, counted, duration, money, type SubmitProgress, UsageError,
} from './terminal.ts'
import { ApiError, createdNoJob, retryWhileUnavailable } from './transport.ts'

export type SubmitSummary = {
  readonly output: string
  readonly rows: number
  readonly byStatus: Readonly<Record<string, number>>
  readonly chargedMicros: number
  readonly releasedMicros: number
  readonly jobs: readonly { readonly id: string, readonly status: string, readonly rows: number }[]
  /** False when a job was cancelled or failed: its unchecked rows are unknown in the output. */
  readonly completed: boolean
}

/**
 * Verifies the contacts of a CSV file and writes a copy of the file with the results appended to
 * its lines. Stores its state next to the output: the same call after a crash resumes the run and
 * pays for nothing twice. Throws UsageError and CommandError with what to do, and ApiError for an
 * unsuccessful response of the service.
 */
export async function submitFile (
  settings: SubmitSettings, deps: SubmitDeps
): Promise<SubmitSummary> {
  const run = await openRun(settings, deps)
  const { store, input, folder, names } = run
  try {
    deps.onRun?.(store)
    const isJoined = store.state.joined.jobs === store.state.jobs.length
    // The last run may have crashed after it renamed the output and before it removed its state.
    const isRenamed = isJoined && folder.has(names.output) && !folder.has(names.unfinished)
    if (!isRenamed) {
      await resolveUnanswered(run)
      await confirmPrice(run)
      await runJobs(run)
      await joinResults(run)
      folder.rename(names.unfinished, names.output)
    }
    store.remove()
    return summarize(run)
  } finally {
    input.close()
    folder.close()
  }
}

function summarize ({ settings: { output }, store }: Run): SubmitSummary {
  const { jobs, plan, joined } = store.state
  const sum = (name: 'chargedMicros' | 'releasedMicros') =>
    jobs.reduce((total, { end }) => total + (end?.[name] ?? 0), 0)
  return {
    output,
    rows: plan.rows,
    byStatus: joined.byStatus,
    chargedMicros: sum('chargedMicros'),
    releasedMicros: sum('releasedMicros'),
    jobs: jobs.map(({ id = '', end, rows }) => ({ id, status: end?.status ?? '', rows })),
    completed: jobs.every(({ end }) => end?.status === 'completed'),
  }
}

/**
 * Returns the message for an interrupted run: how to resume it, and which jobs continue on the
 * service. Removes the state of a run that has sent nothing.
 */
export function interruptRun (settings: SubmitSettings, store?: RunStore): string {
  const sent = store?.state.jobs.filter(({ sentAtMs }) => sentAtMs !== undefined) ?? []
  if (sent.length === 0) {
    store?.remove()
    return 'Interrupted. No job was sent, nothing will be charged.'
  }
  const running = sent.filter(({ end }) => end === undefined)
  const ids = running.map(({ id }) => id ?? 'one whose id is not known yet')
  return [
    'Interrupted. Run the same command again to resume; nothing is paid twice.',
    `The state of the run is in ${stateFileName(settings.output)}.`,
    running.length === 0
      ? 'All jobs sent so far have ended.'
      : `These jobs continue and will be charged: ${ids.join(', ')}. ` +
        '"verification-jobs cancel JOB" cancels one.',
  ].join('\n')
}

/**
 * Asks the user to confirm the price of all unsent jobs. Without a confirmation it removes the
 * state of a run that has sent nothing: there is nothing to resume.
 */
async function confirmPrice (run: Run): Promise<void> {
  const { store } = run
  const unsent = store.state.jobs.flatMap((job, index) => job.sentAtMs === undefined ? [index] : [])
  if (unsent.length === 0) return
  try {
    const quotes = await quoteJobs(run, unsent)
    await askForConfirmation(run, quotes)
    for (const [index, { preflight }] of quotes) {
      store.updateJob(index, { confirmedMicros: preflight.maxQuoteMicros })
    }
  } catch (error) {
    if (unsent.length === store.state.jobs.length) store.remove()
    throw error
  }
}

type Quotes = readonly (readonly [job: number, quote: QuoteBody])[]

async function quoteJobs (run: Run, unsent: readonly number[]): Promise<Quotes> {
  const { deps, store } = run
  const quotes: [number, QuoteBody][] = []
  for (const index of unsent) {
    const body = await readRequest(run, store.state.jobs[index] as RunJob)
    // One sample says what to expect of a file, and they are limited.
    const sample = run.settings.estimate === true && quotes.length === 0
    quotes.push([index, await retryWhileUnavailable(() =>
      deps.client.quote(sample ? { ...body, sample } : body), deps)])
    if (unsent.length > 1) deps.say(`Quoted ${quotes.length} of ${unsent.length} jobs.`)
  }
  return quotes
}

/** The request of a job or its quote, with the contacts of its rows. */
async function readRequest ({ settings, store, input }: Run, range: RowRange): Promise<JobRequest> {
  const { file, plan: { column, idColumn } } = store.state
  const { service, country, forceFresh, deadline, options, metadata } = settings
  return {
    service,
    inputs: await readContacts(input, file, { range, column, idColumn }),
    forceFresh: forceFresh === true,
    countryCode: country,
    deadline,
    options,
    ...Object.keys(metadata).length > 0 && { metadata },
  }
}

type Counts = Omit<Readonly<Static<typeof PreflightSchema>>, 'quoteId'>

const COUNTRY_HINT = 'Numbers in national form (without + and country code) are invalid unless ' +
  '--country names their country, for example --country DE.'

/**
 * Shows the quotes and the balance, and asks the user to confirm the maximum price, unless an
 * earlier call confirmed at least as much. Throws CommandError when the user declines or the
 * balance is too small, and UsageError without a terminal to ask on.
 */
async function askForConfirmation (
  { settings, deps, store }: Run, quotes: Quotes
): Promise<void> {
  const { client, say, confirm, approve } = deps
  const { availableMicros } = await retryWhileUnavailable(() => client.balance(), deps)
  const sum = (name: keyof Counts) =>
    quotes.reduce((total, [, { preflight }]) => total + preflight[name], 0)
  const [invalidRows, maxQuoteMicros] = [sum('invalidRows'), sum('maxQuoteMicros')]
  const line = (label: string, rows: number, remark: string) =>
    say(`  ${label.padEnd(20)} ${count(rows).padStart(11)}  ${remark}`)
  say(`${counted(sum('totalRows'), 'row')} in ${counted(quotes.length, 'job')}:`)
  line('invalid', invalidRows, 'free')
  line('duplicates', sum('duplicateRows'), 'free')
  line('cached', sum('cacheHits'), 'free while cached')
  line('to verify', sum('freshChecks'), 'charged for a verdict')
  const price = money(maxQuoteMicros)
  say(`Maximum price: ${price}. Balance: ${money(availableMicros)} available.`)
  const { service, country } = settings
  if (invalidRows > 0 && country === undefined && service !== 'email-validation') say(COUNTRY_HINT)
  const limitations = new Set(quotes.flatMap(([, quote]) => quote.limitations))
  if (limitations.size > 0) say(`Limitations: ${limitationsText([...limitations])}.`)
  const estimate = quotes[0]?.[1].estimate
  if (estimate !== undefined) for (const text of estimateLines(estimate, quotes.length)) say(text)
  if (availableMicros < maxQuoteMicros) throw insufficientBalance(maxQuoteMicros, availableMicros)
  approve?.(maxQuoteMicros)
  const isConfirmed = quotes.every(([index, { preflight }]) =>
    preflight.maxQuoteMicros <= (store.state.jobs[index]?.confirmedMicros ?? -1))
  if (isConfirmed || settings.yes === true) return
  if (confirm === undefined) {
    throw new UsageError(`The maximum price ${price} needs confirmation, but there is no ` +
      'terminal to ask on. Confirm it with --yes.')
  }
  if (!await confirm(`Verify for at most ${price}? [y/N] `)) {
    throw new CommandError('You declined the price. No further job was sent or charged.')
  }
}

/** The expected verdicts, or why there are none. */
function estimateLines (estimate: EstimateBody, jobs: number): readonly string[] {
  const { status, reason, shares, contacts, sampledContacts, checkedContacts } = estimate
  if (status === 'running') {
    return [`No estimate yet: ${checkedContacts} of ${counted(sampledContacts, 'contact')} of ` +
      'the sample have an answer. Run the command again for it; none is verified twice.']
  }
  if (shares === null) {
    return [`No estimate: ${NO_ESTIMATE_TEXTS[reason ?? 'temporarily_unavailable']}`]
  }
  const percent = (share: number) => `${(100 * share).toFixed(1)} %`
  const of = `${counted(contacts, 'contact')}${jobs > 1 ? ' of the first job' : ''}`
  return [
    `Expected of ${of} to verify, by a free sample of ${sampledContacts} (95 % confidence):`,
    ...Object.entries(shares).map(([verdict, { share, low, high }]) =>
      `  ${verdict.padEnd(20)} ${percent(share).padStart(11)}  ` +
      `${percent(low)} to ${percent(high)}`),
  ]
}

/** The error for a balance below the maximum price, with the difference. */
function insufficientBalance (requiredMicros: number, availableMicros: number): CommandError {
  return new CommandError('402 insufficient_balance: the maximum price is ' +
    `${money(requiredMicros)}, the available balance ${money(availableMicros)}. Top up at least ` +
    `${money(requiredMicros - availableMicros)} and run the same command again.`)
}

/** The service keeps a key for 24 hours. Leaves an hour for clock skew and slow requests. */
const MAX_KEY_AGE_MS = 23 * 3_600_000

/**
 * Resolves jobs that were sent but whose response was lost: repeats each request with its key, so
 * that the service returns the job it created. Throws CommandError when the service may have
 * expired the key, because then a repeated request could pay twice.
 */
async function resolveUnanswered (run: Run): Promise<void> {
  const { deps, settings } = run
  const nowMs = (deps.now ?? Date.now)()
  for (const [index, { sentAtMs, id, firstRow, rows }] of run.store.state.jobs.entries()) {
    if (sentAtMs === undefined || id !== undefined) continue
    const ageMs = nowMs - sentAtMs
    if (ageMs > MAX_KEY_AGE_MS) {
      throw new CommandError(`The request for rows ${firstRow + 1} to ${firstRow + rows} was ` +
        `sent ${duration(ageMs / 1_000)} ago and its response was lost. Repeating it could pay ` +
        'twice, because the service keeps idempotency keys for 24 hours. Search GET ' +
        `/api/v1/jobs for a job of ${rows} rows created at ${new Date(sentAtMs).toISOString()}. ` +
        `If it exists, add its id as jobs[${index}].id to ${stateFileName(settings.output)}. If ` +
        'not, start over with --restart.')
    }
    await send(run, index)
  }
}

/**
 * Sends the jobs that were not sent yet, one request at a time and at most `parallel` jobs
 * concurrently, and resolves when all jobs have ended.
 */
async function runJobs (run: Run): Promise<void> {
  const active = new Set<Promise<void>>()
  const failures: unknown[] = []
  const report = createProgressReport(run)
  for (const [index, { end }] of run.store.state.jobs.entries()) {
    if (end !== undefined) continue
    while (active.size >= run.settings.parallel) await Promise.race(active)
    if (failures.length > 0) break
    const id = run.store.state.jobs[index]?.id ?? await send(run, index)
    const waiting: Promise<void> = waitForJob(run, { index, id, report })
      .catch((error: unknown) => { failures.push(error) })
      .finally(() => active.delete(waiting))
    active.add(waiting)
  }
  await Promise.all(active)
  if (failures.length > 0) throw failures[0]
}

async function send (run: Run, index: number): Promise<string> {
  const { deps, store } = run
  const job = store.state.jobs[index] as RunJob
  const body = await readRequest(run, job)
  const now = deps.now ?? Date.now
  if (job.sentAtMs === undefined) store.updateJob(index, { sentAtMs: now() })
  const post = () => deps.client.createJob(body, job.idempotencyKey)
  const { id, preflight } = await retryWhileUnavailable(post, deps).catch((error: unknown) => {
    if (createdNoJob(error)) store.updateJob(index, { sentAtMs: undefined })
    if (!(error instanceof ApiError) || error.status !== 402) throw error
    const { requiredMicros, availableMicros } = error.amounts
    if (requiredMicros === undefined || availableMicros === undefined) throw error
    throw insufficientBalance(requiredMicros, availableMicros)
  })
  store.updateJob(index, { id })
  if (job.confirmedMicros !== undefined && preflight.maxQuoteMicros > job.confirmedMicros) {
    deps.say(`The maximum price of ${id} rose from ${money(job.confirmedMicros)} to ` +
      `${money(preflight.maxQuoteMicros)} after you confirmed it. "verification-jobs cancel ` +
      `${id}" cancels it.`)
  }
  return id
}

type ProgressReport = (index: number, job: JobStatusResource) => void
type Waiting = { readonly index: number, readonly id: string, readonly report: ProgressReport }

async function waitForJob ({ deps, store }: Run, { index, id, report }: Waiting): Promise<void> {
  const onProgress = (job: JobStatusResource) => report(index, job)
  const { client, pollEveryMs } = deps
  const ended = await retryWhileUnavailable(() => client.waitForEnd(id, {
    onProgress, timeoutMs: Infinity, pollEveryMs,
  }), deps)
  const { status, successRecords, failedRecords, chargedMicros, releasedMicros } = ended
  const end = { status, successRecords, failedRecords, chargedMicros, releasedMicros }
  store.updateJob(index, { end })
}

const WAITING_HINT = 'Some servers ask to come back later; the run waits for them. ' +
  '"verification-jobs cancel JOB" ends a job now: verdicts stay, waiting rows are unknown and free.'

/** Sums the finished rows of all jobs, and those that wait. */
function createProgressReport ({ deps, store }: Run): ProgressReport {
  const { jobs, plan: { rows } } = store.state
  const done = jobs.map(job => job.end === undefined ? 0 : job.rows)
  const waiting = new Map<number, NonNullable<JobStatusResource['waiting']>>()
  const sum = () => done.reduce((total, count) => total + count, 0)
  const sentEarlier = new Set(jobs.flatMap(({ id }, index) => id === undefined ? [] : [index]))
  let before = sum()
  let isHinted = false
  return (index, job) => {
    const count = job.successRecords + job.failedRecords
    // Rows that were done before this process started do not count towards its rate.
    if (sentEarlier.delete(index)) before += count - (done[index] ?? 0)
    done[index] = count
    const endedJobs = store.state.jobs.filter(({ end }) => end !== undefined).length
    if (job.waiting) waiting.set(index, job.waiting)
    else waiting.delete(index)
    if (waiting.size > 0 && !isHinted) deps.say(WAITING_HINT)
    isHinted ||= waiting.size > 0
    deps.progress?.({
      done: sum(),
      rows,
      before,
      jobs: jobs.length,
      endedJobs,
      ...waiting.size > 0 && { waiting: sumWaiting([...waiting.values()]) },
    })
  }
}

/** The rows that wait in all jobs, until the last of these estimates. */
function sumWaiting (
  jobs: readonly NonNullable<JobStatusResource['waiting']>[]
): SubmitProgress['waiting'] {
  return {
    rows: jobs.reduce((total, { rows }) => total + rows, 0),
    untilMs: Math.max(...jobs.map(({ estimatedEndAt }) => Date.parse(estimatedEndAt))),
  }
}

const WRITE_CHARACTERS = 256 * 1_024

/**
 * Appends the results to the wanted lines of the file, job by job in the order of the file, and
 * stores after each job how much of the unfinished output is complete. Streams both the file and
 * the results. Throws CommandError when the file has changed or the results do not match the job.
 * The service's `join=original` keeps no bytes: it takes one job in UTF-8, writes cells with commas
 * and CRLF and only the quotes they need, and refuses rows that are wider than the first line.
 */
async function joinResults (run: Run): Promise<void> {
  const { store, deps, folder, names } = run
  const { bytes } = store.state.joined
  if (bytes > 0 && (folder.facts(names.unfinished)?.size ?? 0) < bytes) {
    store.update({ joined: NOTHING_JOINED })
  }
  for (let index = store.state.joined.jobs; index < store.state.jobs.length; index++) {
    await retryWhileUnavailable(() => joinJob(run), deps)
  }
}

async function joinJob (run: Run): Promise<void> {
  const { store, settings, deps, input, folder, names: { unfinished } } = run
  const { joined, file, plan, jobs } = store.state
  const job = jobs[joined.jobs] as RunJob
  const firsts = await readFirstsOfMailboxes(run, job)
  const results = await readResults(run, job)
  const handle = joined.bytes === 0 ? folder.create(unfinished) : folder.continue(unfinished)
  try {
    ftruncateSync(handle, joined.bytes)
    const { value: resultColumns = [] } = await results.next()
    const columns = joined.jobs > 0
      ? joined.columns
      : selectColumns(settings.only, resultColumns)
    const layout: Layout = {
      file,
      plan,
      columns,
      guarded: settings.safe === 'spreadsheet',
      inputAt: resultColumns.indexOf('input'),
      sources: columns.map(name => resultColumns.indexOf(name)),
      firstRow: job.firstRow,
    }
    const writer = new OutputWriter(handle, joined)
    if (joined.jobs === 0) writer.write(headerLine(await readHeader(run), layout))
    const statusAt = resultColumns.indexOf('status')
    const originalAt = resultColumns.indexOf('duplicate_of')
    let rows = 0
    for await (const record of readRecords(input, file.dialect, job)) {
      const { value: result, done } = await results.next()
      if (done === true) throw countError(run, job, { lines: rows + 1, results: rows })
      rows++
      const line = joinedLine(record, result, layout, rows)
      const isWanted = firsts?.has(rows) !== false &&
        settings.status?.includes(result[statusAt] ?? '') !== false &&
        !(settings.dropDuplicates === true && result[originalAt] !== '')
      writer.write(isWanted ? line : '', result[statusAt])
    }
    if ((await results.next()).done !== true) {
      throw countError(run, job, { lines: rows, results: rows + 1 })
    }
    const { bytes, byStatus } = writer.flush()
    fsyncSync(handle)
    store.update({ joined: { jobs: joined.jobs + 1, bytes, columns, byStatus } })
  } finally {
    closeSync(handle)
    await results.return?.()
  }
  if (jobs.length > 1) deps.say(`Joined ${store.state.joined.jobs} of ${jobs.length} jobs.`)
}

/** Streams the rows of a result file, starting with its header. */
async function readResults (
  { deps: { client } }: Run, { id = '' }: RunJob
): Promise<AsyncIterator<readonly string[]>> {
  const parser = parse()
  const bytes = Readable.from(await client.resultsFile(id), { objectMode: false })
  // Reading from the parser throws the errors of the pipeline.
  pipeline(bytes, parser, () => {})
  return (parser as AsyncIterable<readonly string[]>)[Symbol.asyncIterator]()
}

/**
 * The rows of a job with the first address of each mailbox, of those with a wanted verdict;
 * undefined without --one-per-mailbox. The service knows which addresses reach one mailbox.
 */
async function readFirstsOfMailboxes (
  { settings: { onePerMailbox, status }, deps: { client } }: Run, { id = '' }: RunJob
): Promise<ReadonlySet<number> | undefined> {
  if (onePerMailbox !== true) return undefined
  const rows = new Set<number>()
  for await (const { row } of client.resultLines(id, {
    duplicates: 'mailbox',
    columns: ['row'],
    status: status as RowSelection['status'],
  })) rows.add(Number(row))
  return rows
}

/** `lines` of the file and `results` of the job are counted up to the first difference. */
function countError (
  { settings: { input } }: Run, { id, rows }: RunJob,
  { lines, results }: { readonly lines: number, readonly results: number }
): CommandError {
  if (lines > rows || (lines < results && lines < rows)) {
    return new CommandError(`${input} no longer has the ${rows} rows of job ${id}: it has ` +
      'changed during the run. Restore it and run the command again.')
  }
  const has = results > rows ? `more than ${rows}` : `only ${results}`
  return new CommandError(
    `Job ${id} has ${rows} rows, but its result file has ${has}. Run the command again.`)
}

async function readHeader ({ store, input }: Run): Promise<CsvRecord> {
  const { file, plan } = store.state
  let header: CsvRecord | undefined
  for await (const record of readRecords(input, file.dialect, plan.header)) header = record
  if (header !== undefined) return header
  throw new CommandError(`${input.path} has lost its header line during the run. Restore it and ` +
    'run the command again.')
}

/** Writes lines behind the complete part of the output, and counts them by status. */
class OutputWriter {
  readonly #handle: number
  readonly #byStatus: Record<string, number>
  #bytes: number
  #buffered = ''

  constructor (handle: number, { bytes, byStatus }: Joined) {
    this.#handle = handle
    this.#bytes = bytes
    this.#byStatus = { ...byStatus }
  }

  write (line: string, status?: string): void {
    if (status !== undefined) this.#byStatus[status] = (this.#byStatus[status] ?? 0) + 1
    this.#buffered += line
    if (this.#buffered.length >= WRITE_CHARACTERS) this.flush()
  }

  flush (): Pick<Joined, 'bytes' | 'byStatus'> {
    const data = Buffer.from(this.#buffered, 'latin1')
    for (let at = 0; at < data.length;) {
      at += writeSync(this.#handle, data, at, data.length - at, this.#bytes + at)
    }
    this.#bytes += data.length
    this.#buffered = ''
    return { bytes: this.#bytes, byStatus: this.#byStatus }
  }
}

/** How the lines of a job are joined with its results. */
type Layout = {
  readonly file: FileFacts
  readonly plan: Omit<Plan, 'ranges'>
  /** The result columns to append, by their names in the results. */
  readonly columns: readonly string[]
  /** Where they are in a result. */
  readonly sources: readonly number[]
  /** Where the contact is in a result. */
  readonly inputAt: number
  /** Rows of the file before those of the job. */
  readonly firstRow: number
  readonly guarded: boolean
}

/**
 * Formats the header line: the columns of the file, then the names of the appended ones. A line
 * `sep=` stays before it, so that Excel reads the output as it reads the file.
 */
function headerLine (record: CsvRecord, layout: Layout): string {
  const { file: { dialect: { preamble }, encoding }, plan: { lineEnd }, columns } = layout
  const original = record.cells.map(cell => decodeCell(cell, encoding))
  return preamble + (preamble.includes('=') ? lineEnd : '') +
    appendCells(record, uniqueNames(columns, original), layout)
}

/**
 * Formats a line: the unchanged record, padded to the width of the table, and the result cells.
 * `row` counts from 1 in the job. Throws CommandError when the result belongs to another contact.
 */
function joinedLine (
  record: CsvRecord, result: readonly string[], layout: Layout, row: number
): string {
  const { file: { encoding }, plan: { column }, columns, sources, inputAt, firstRow } = layout
  if (result[inputAt] !== decodeContact(record.cells[column], encoding)) {
    throw new CommandError(`Row ${firstRow + row} of the file is not the contact that was ` +
      'verified: the file has changed during the run. Restore it and run the command again.')
  }
  return appendCells(record, sources.map((source, index) => {
    const text = result[source] ?? ''
    const isRowNumber = ROW_NUMBER_COLUMNS.includes(columns[index] ?? '') && text !== ''
    return isRowNumber ? String(Number(text) + firstRow) : text
  }), layout)
}

/** A line has one character per byte, as records have, and its own CRLF or LF, or the file's. */
function appendCells (record: CsvRecord, appended: readonly string[], layout: Layout): string {
  const { file: { dialect: { delimiter }, encoding }, plan: { width, lineEnd }, guarded } = layout
  const { cells, text, end } = record
  // The bytes of a record stay unchanged unless one of its cells must be escaped.
  const original = guarded && cells.some(cell => guardCell(cell) !== cell)
    ? cells.map(cell => csvCell(guardCell(cell), delimiter)).join(delimiter)
    : text
  const padding = delimiter.repeat(Math.max(0, width - cells.length))
  const added = appended.map(cell =>
    encodeCell(csvCell(guarded ? guardCell(cell) : cell, delimiter), encoding))
  return `${original}${padding}${delimiter}${added.join(delimiter)}` +
    (end === '\r\n' || end === '\n' ? end : lineEnd)
}
