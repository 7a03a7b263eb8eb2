import {
  type CallToolResult, fromJsonSchema, type JsonSchemaType, McpServer, type ServerContext,
} from '@modelcontextprotocol/server'
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import { createHash, randomUUID } from 'node:crypto'
import { realpathSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { type Static, type TObject, type TProperties, Type } from 'typebox'
import {
  DEADLINE_SECONDS, MAX_CONTACT_CHARACTERS, MAX_ID_CHARACTERS,
} from '../../schemas/api/create-job.ts'
import { SERVICE_SLUGS } from '../../schemas/api/parts.ts'
import { ROW_SOURCES, ROW_STATUSES } from '../../schemas/api/verdicts.ts'
import {
  type Client, hasEnded, type JobRequest, type JobStatusResource, type ResultRow,
} from './client.ts'
import type { Account } from './connection.ts'
import { openInput, OutputFolder, resolveBelow } from './files.ts'
import {
  detectService, planJobs, previewHead, readContacts, readFacts, readHead, type RowRange,
} from './plan.ts'
import { stateFileName, type SubmitSettings } from './run.ts'
import { submitFile, type SubmitSummary } from './submit.ts'
import { CommandError, failureMessage, money, UsageError } from './terminal.ts'
import { ApiError, createdNoJob } from './transport.ts'

/** What the tools of a session work with. */
type SessionDeps = {
  readonly client: Client
  readonly spending: Spending
  readonly account: Account
  /** Only files below this folder are read and written. */
  readonly folder: string
  /** Writes messages for the user of the host. */
  readonly say: (line: string) => void
  readonly pollEveryMs?: number
  readonly version: string
}

/** Receives how many of the rows of a file are verified. */
type ReportProgress = (progress: { readonly done: number, readonly rows: number }) => void

/** Serves MCP on these streams until the input ends or `stop` resolves. */
export async function serveMcp (
  deps: SessionDeps,
  { input, output }: { readonly input: Readable, readonly output: Writable }, stop: Promise<void>
): Promise<void> {
  const ended = new Promise<void>(resolve => {
    input.once('end', resolve)
    input.once('close', resolve)
  })
  const transport = new StdioServerTransport(input, output)
  const handle = serveStdio(() => createMcpServer(deps), {
    transport,
    onerror: error => { deps.say(`MCP: ${error.message}`) },
  })
  await Promise.race([ended, stop])
  await handle.close()
}

/** Creates the MCP server with its tools. Errors become tool errors that say what to do. */
function createMcpServer (deps: SessionDeps): McpServer {
  const { limitMicros } = deps.spending.figures()
  const server = new McpServer({ name: 'verification-jobs', version: deps.version }, {
    capabilities: { tools: {} },
    instructions: 'Verifies phone numbers and e-mail addresses. Use verify_contacts for short ' +
      'lists and verify_file for CSV files. This session may spend ' +
      `${money(limitMicros)}. Invalid, duplicate and cached contacts are free. Status unknown ` +
      'means that no verdict was possible; it is free, too.',
  })
  const session = createSession(deps)
  const register = <K extends ToolKey>(key: K) => {
    const { name, input, output, ...description } = TOOLS[key]
    const inputSchema = fromJsonSchema<ToolInput<K>>(toJson(input))
    const outputSchema = fromJsonSchema(toJson(output))
    server.registerTool(name, { ...description, inputSchema, outputSchema },
      async (args, { mcpReq }) =>
        await toResult(async () => await session[key](args, createReporter(mcpReq))))
  }
  for (const key of Object.keys(TOOLS) as ToolKey[]) register(key)
  return server
}

/** A schema without the properties that are not JSON. */
const toJson = (schema: object) => JSON.parse(JSON.stringify(schema)) as JsonSchemaType

/** Sends progress to a host that asked for it. The protocol allows none that does not increase. */
function createReporter (
  { _meta, notify }: Pick<ServerContext['mcpReq'], '_meta' | 'notify'>
): ReportProgress | undefined {
  const progressToken = _meta?.progressToken
  if (progressToken === undefined) return undefined
  let last = 0
  return ({ done, rows }) => {
    if (done <= last) return
    last = done
    const params = { progressToken, progress: done, total: rows }
    // A host that is gone gets no result either.
    notify({ method: 'notifications/progress', params }).catch(() => {})
  }
}

async function toResult (call: () => Promise<object>): Promise<CallToolResult> {
  try {
    const output = await call()
    const text = JSON.stringify(output)
    return { content: [{ type: 'text', text }], structuredContent: { ...output } }
  } catch (error) {
    const message = failureMessage(error)
    if (message === undefined) throw error
    // Messages of the command name its options.
    const text = /(^|\s)--(column|service|country|restart)\b/.test(message)
      ? `${message} Options such as --column are arguments of this tool here; --restart is replace.`
      : message
    return { content: [{ type: 'text', text }], isError: true }
  }
}

type Session = {
  readonly [K in ToolKey]: (args: ToolInput<K>, report?: ReportProgress) => Promise<ToolOutput<K>>
}

/**
 * The tools of one session. Every job is quoted, and its maximum price is reserved within the
 * spending limit, before it is created. Rejects with CommandError and ApiError, whose messages say
 * what to do.
 */
function createSession (deps: SessionDeps): Session {
  const { client, spending } = deps
  const jobs = new ContactJobs(deps)
  const files = new FileRuns(deps)
  const withSpending = <T extends object>(fields: T) =>
    ({ ...fields, spending: spending.figures() })

  return {
    verifyContacts: async args => {
      const { service, contacts, country, force_fresh: forceFresh } = args
      const { deadline_seconds: deadline, options } = args
      await jobs.refresh()
      const id = await jobs.create({
        service,
        inputs: contacts,
        countryCode: country,
        forceFresh,
        options,
        deadline,
      })
      const job = await jobs.wait(id, parseWaitMs(args))
      const ended = hasEnded(job)
      const rows = ended ? (await client.resultsPage(id, { limit: contacts.length })).data : []
      return withSpending({ ended, job: toJob(job), rows: rows.map(dropBlanks) })
    },

    estimateFile: async args => await estimateFile(deps, args),

    verifyFile: async (args, report) => {
      await jobs.refresh()
      return withSpending(await files.run(args, parseWaitMs(args), report))
    },

    getJob: async ({ job_id: id }) => {
      const job = await jobs.read(id)
      return withSpending({ ended: hasEnded(job), job: toJob(job) })
    },

    getResults: async ({ job_id: id, limit = 50, ...query }) => {
      const { data, has_more: hasMore, next_cursor: next } =
        await client.resultsPage(id, { limit, ...query })
      return { rows: data.map(dropBlanks), has_more: hasMore, next_cursor: next }
    },

    getBalance: async () => {
      await jobs.refresh()
      return withSpending(await client.balance())
    },
  }
}

const toJob = (job: JobStatusResource) => pickFields(TOOLS.getJob.output.properties.job, job)

const dropBlanks = (row: ResultRow): ResultRow =>
  Object.fromEntries(Object.entries(row).filter(([, cell]) => cell !== null))

/** A request for a job: its body as JSON, and its idempotency key. */
type Attempt = {
  readonly text: string
  readonly key: string
  readonly reservation: Reservation
}

/** The jobs that `verify_contacts` created, with the money that each may cost. */
class ContactJobs {
  readonly #deps: SessionDeps
  readonly #open = new Map<string, Reservation>()
  /** Requests without a response: the same request, sent again with its key, is the same job. */
  readonly #unanswered: Attempt[] = []

  constructor (deps: SessionDeps) {
    this.#deps = deps
  }

  /** Quotes and creates a job within the spending limit; resolves with its id. */
  async create (body: JobRequest): Promise<string> {
    const { client, spending } = this.#deps
    const text = JSON.stringify(body)
    const at = this.#unanswered.findIndex(attempt => attempt.text === text)
    // Taken out, so that the same request beside this one is another job.
    const [earlier] = at < 0 ? [] : this.#unanswered.splice(at, 1)
    const attempt = earlier ?? { text, key: randomUUID(), reservation: spending.reserve() }
    const { key, reservation } = attempt
    try {
      reservation.cover((await client.quote(body)).preflight.maxQuoteMicros)
    } catch (error) {
      if (earlier === undefined) reservation.settle(0)
      else this.#unanswered.push(earlier)
      throw error
    }
    const created = await client.createJob(body, key).catch((error: unknown) => {
      if (createdNoJob(error)) reservation.settle(0)
      else this.#unanswered.push(attempt)
      throw error
    })
    this.#open.set(created.id, reservation)
    await coverOrCancel({ client, reservation }, created.id, created.preflight.maxQuoteMicros)
    return created.id
  }

  /** Reads a job, and settles it if it has ended. */
  async read (id: string): Promise<JobStatusResource> {
    const job = await this.#deps.client.job(id)
    if (hasEnded(job)) {
      this.#open.get(id)?.settle(job.chargedMicros)
      this.#open.delete(id)
    }
    return job
  }

  async wait (id: string, waitMs: number): Promise<JobStatusResource> {
    const { client, pollEveryMs } = this.#deps
    const deadlineMs = Date.now() + waitMs
    await client.waitForEnd(id, { timeoutMs: waitMs, pollEveryMs }).catch((error: unknown) => {
      if (error instanceof ApiError || Date.now() < deadlineMs) throw error
    })
    return await this.read(id)
  }

  /** Settles jobs that have ended since. */
  async refresh (): Promise<void> {
    await Promise.all([...this.#open.keys()].map(id => this.read(id)))
  }
}

/** Raises a reservation to the price of a created job, or cancels the job and throws. */
async function coverOrCancel (
  { client, reservation }: { readonly client: Client, readonly reservation: Reservation },
  id: string, micros: number
): Promise<void> {
  try {
    reservation.cover(micros)
  } catch (error) {
    // It exists, and costs what it costs.
    reservation.raise(micros)
    await client.cancel(id).catch((failure: unknown) => {
      const hasEnded = failure instanceof ApiError && failure.status === 409
      if (!hasEnded) throw failure
    })
    throw error
  }
}

/**
 * Quotes the contacts of a file, or of one that needs several jobs those of the first, with an
 * estimate of their verdicts. Throws CommandError unless the file exists below the folder.
 */
async function estimateFile (
  { client, folder: root }: SessionDeps, args: ToolInput<'estimateFile'>
): Promise<ToolOutput<'estimateFile'>> {
  const folder = realpathSync(root)
  const file = openInput(relative(folder, resolveBelow(root, args.file)) || '.', folder)
  try {
    const facts = await readFacts(file)
    const { column: named, country, options } = args
    const { column, service, reason } = await previewHead(client, await readHead(file, facts), {
      column: named, service: args.service,
    })
    if (column === undefined || service === null) {
      throw new UsageError(`${reason} Name the column with --column, or the service with ` +
        '--service.')
    }
    const { rows, ranges } = await planJobs(file, facts, { column })
    const { preflight, estimate } = await client.quote({
      service,
      inputs: await readContacts(file, facts, { range: ranges[0] as RowRange, column }),
      sample: true,
      countryCode: country?.toUpperCase(),
      options,
    })
    if (estimate === undefined) throw new CommandError('The service makes no estimates.')
    const { totalRows: quotedRows, quoteId: _, ...counts } = preflight
    return {
      service,
      rows,
      quotedRows,
      ...counts,
      estimate: pickFields(TOOLS.estimateFile.output.properties.estimate, estimate),
    }
  } finally {
    file.close()
  }
}

type FileArgs = ToolInput<'verifyFile'>

type FileRun = {
  /** The arguments as JSON, without those that may differ between calls. */
  readonly args: string
  readonly summary: Promise<SubmitSummary>
  readonly progress: Progress
}

type Progress = {
  done: number
  rows: number
  /** Rows whose servers ask to come back later. */
  waiting: number
  ended: boolean
  /** Of the calls that wait. */
  readonly reports: Set<ReportProgress>
}

/** The real path of the folder, and paths below it. */
type RunFiles = { readonly folder: string, readonly input: string, readonly output: string }

/**
 * What a file may cost, and the maximum price of each job that this session created for it, by its
 * id, or by its idempotency key as long as its request has no answer.
 */
type FileMoney = { readonly reservation: Reservation, readonly prices: Map<string, number> }

const sumPrices = (prices: FileMoney['prices']): number =>
  [...prices.values()].reduce((sum, micros) => sum + micros, 0)

const ROWS_PER_JOB = 100_000
const PARALLEL_JOBS = 4

/**
 * Verifies files as the command `submit` does, each in the background: a call waits for a while,
 * and the same call later continues to wait or returns the result. A file whose run failed, or that
 * an earlier session left unfinished, is resumed and pays for nothing twice.
 */
class FileRuns {
  readonly #deps: SessionDeps
  readonly #runs = new Map<string, FileRun>()
  /** By output; a run that failed keeps its money until the file is verified. */
  readonly #money = new Map<string, FileMoney>()

  constructor (deps: SessionDeps) {
    this.#deps = deps
  }

  /** Throws CommandError unless the file exists below the folder. */
  async run (
    args: FileArgs, waitMs: number, report: ReportProgress = () => {}
  ): Promise<Omit<ToolOutput<'verifyFile'>, 'spending'>> {
    const root = this.#deps.folder
    const folder = realpathSync(root)
    // The names of a file that has several are one run.
    const input = relative(folder, resolveBelow(root, args.file)) || '.'
    const files = { folder, input, output: input.replace(/(\.csv)?$/i, '.verified.csv') }
    const earlier = this.#runs.get(files.output)
    const isReplaced = earlier?.progress.ended === true && args.replace === true
    if (earlier === undefined || isReplaced) checkOutput(files, args)
    const run = earlier === undefined || isReplaced ? this.#start(args, files) : earlier
    if (run.args !== formatArgs(args, input)) {
      throw new CommandError(`${args.file} was verified with other arguments. Repeat them to get ` +
        'the result, or set replace to true once it has ended, which may pay again.')
    }
    this.#runs.set(files.output, run)
    const summary = await summaryWithin(run, waitMs, report)
    return {
      ended: summary !== undefined,
      output: join(folder, files.output),
      rows: summary?.rows ?? run.progress.rows,
      doneRows: summary?.rows ?? run.progress.done,
      waitingRows: summary === undefined ? run.progress.waiting : 0,
      byStatus: summary?.byStatus ?? {},
      jobs: summary?.jobs.map(({ id }) => id) ?? [],
      chargedMicros: summary?.chargedMicros ?? 0,
    }
  }

  #start (args: FileArgs, files: RunFiles): FileRun {
    const progress: Progress = { done: 0, rows: 0, waiting: 0, ended: false, reports: new Set() }
    const summary = this.#verify(args, files, progress)
    // The call that waits reports the error; without one the next call resumes the run.
    summary.catch(() => {})
    return { args: formatArgs(args, files.input), summary, progress }
  }

  async #verify (args: FileArgs, files: RunFiles, progress: Progress): Promise<SubmitSummary> {
    const { client, spending, account, say, pollEveryMs } = this.#deps
    const { output } = files
    const earlier = this.#money.get(output)
    const money = earlier ?? { reservation: spending.reserve(), prices: new Map() }
    this.#money.set(output, money)
    const release = (chargedMicros: number) => {
      money.reservation.settle(chargedMicros)
      this.#money.delete(output)
    }
    try {
      const summary = await submitFile(await toSettings(args, files, { account, client }), {
        client: guardedClient(client, money),
        say,
        approve: micros => { money.reservation.cover(sumPrices(money.prices) + micros) },
        progress: ({ done, rows, waiting }) => {
          Object.assign(progress, { done, rows, waiting: waiting?.rows ?? 0 })
          for (const report of progress.reports) report({ done, rows })
        },
        pollEveryMs,
      })
      for (const { id } of summary.jobs) money.prices.delete(id)
      // The jobs of a run that was replaced continue, and are charged as well.
      release(summary.chargedMicros + sumPrices(money.prices))
      return summary
    } catch (error) {
      this.#runs.delete(output)
      const sentNothing = error instanceof CommandError || createdNoJob(error)
      if (sentNothing && earlier === undefined && money.prices.size === 0) release(0)
      throw error
    } finally {
      progress.ended = true
    }
  }
}

const formatArgs = ({ replace: _, wait_seconds: __, ...args }: FileArgs, file: string) =>
  JSON.stringify({ ...args, file })

/** Throws CommandError for an output with the results of an earlier run, unless it is replaced. */
function checkOutput (
  { folder: below, output }: RunFiles, { file, replace }: FileArgs
): void {
  const folder = new OutputFolder(dirname(output), below)
  try {
    const name = basename(output)
    if (replace === true || !folder.has(name) || folder.has(stateFileName(name))) return
    throw new CommandError(`${output} exists already: it has the results of an earlier run of ` +
      `${file}. Read it, or set replace to true, which replaces it and may pay again.`)
  } finally {
    folder.close()
  }
}

async function toSettings (
  args: FileArgs, files: RunFiles, { account, client }: Pick<SessionDeps, 'account' | 'client'>
): Promise<SubmitSettings> {
  const { column, country } = args
  return {
    ...files,
    service: args.service ?? await detectService(client, files.input, { ...files, column }),
    column,
    country: country?.toUpperCase(),
    metadata: {},
    forceFresh: args.force_fresh === true,
    options: args.options,
    deadline: args.deadline_seconds,
    rowsPerJob: ROWS_PER_JOB,
    parallel: PARALLEL_JOBS,
    restart: args.replace === true,
    yes: true,
    account,
  }
}

/**
 * A client for the jobs of a file. A request counts with its quote before it is sent, and as long
 * as it has no answer: there may be a job. A job whose price has risen above what the session may
 * spend is cancelled.
 */
function guardedClient (client: Client, { reservation, prices }: FileMoney): Client {
  const quotes = new Map<string, number>()
  const quote: Client['quote'] = async body => {
    const quoted = await client.quote(body)
    quotes.set(digest(body), quoted.preflight.maxQuoteMicros)
    return quoted
  }
  const coverRequest = async (body: JobRequest, key: string) => {
    const micros = quotes.get(digest(body)) ?? (await quote(body)).preflight.maxQuoteMicros
    reservation.cover(sumPrices(prices) + micros)
    prices.set(key, micros)
  }
  return {
    ...client,
    quote,
    createJob: async (body, key = randomUUID()) => {
      if (!prices.has(key)) await coverRequest(body, key)
      const created = await client.createJob(body, key).catch((error: unknown) => {
        if (createdNoJob(error)) prices.delete(key)
        throw error
      })
      prices.delete(key)
      prices.set(created.id, created.preflight.maxQuoteMicros)
      await coverOrCancel({ client, reservation }, created.id, sumPrices(prices))
      return created
    },
  }
}

const digest = (body: JobRequest): string =>
  createHash('sha256').update(JSON.stringify(body)).digest('base64')

/** Undefined if the run takes longer. Reports its progress meanwhile. */
async function summaryWithin (
  { summary, progress: { reports } }: FileRun, waitMs: number, report: ReportProgress
): Promise<SubmitSummary | undefined> {
  const timer = new AbortController()
  const timeout = delay(waitMs, undefined, { signal: timer.signal }).catch(() => undefined)
  reports.add(report)
  return await Promise.race([summary, timeout]).finally(() => {
    timer.abort()
    reports.delete(report)
  })
}

/** Money of a session, USD micros. */
type SpendingFigures = {
  readonly limitMicros: number
  /** Charged for jobs that have ended. */
  readonly spentMicros: number
  /** Maximum prices of work that has not ended. */
  readonly reservedMicros: number
  /** What further work may cost. */
  readonly remainingMicros: number
}

/** What one piece of work, a job or a file, may cost. */
type Reservation = {
  /** Raises the reservation to this price. Throws SpendingLimitError if the limit forbids it. */
  readonly cover: (micros: number) => void
  /** Raises it whatever the limit says: for a job that exists. */
  readonly raise: (micros: number) => void
  /** Replaces the reservation with the charge. Does nothing the second time. */
  readonly settle: (chargedMicros: number) => void
}

type Spending = {
  readonly reserve: () => Reservation
  readonly figures: () => SpendingFigures
}

/** The session may not spend this much. Nothing was sent for it. */
class SpendingLimitError extends CommandError {
  override readonly name = 'SpendingLimitError'

  constructor (micros: number, figures: SpendingFigures) {
    const { limitMicros, spentMicros, reservedMicros, remainingMicros } = figures
    super(`spending_limit: this may cost up to ${money(micros)}, but only ` +
      `${money(remainingMicros)} of the limit of this session (${money(limitMicros)}) remains: ` +
      `${money(spentMicros)} is spent and ${money(reservedMicros)} reserved for work that has ` +
      'not ended. Verify fewer contacts, wait for running work to end, or ask the user to ' +
      'restart the server with a higher --max-spend.')
  }
}

/**
 * Counts what a session spends: the maximum price of everything that runs, and the charge of
 * everything that has ended. Their sum exceeds the limit only by a job whose price rose after its
 * quote, which is cancelled.
 */
export function createSpending (limitMicros: number): Spending {
  const reserved = new Map<symbol, number>()
  let spentMicros = 0
  const figures = (): SpendingFigures => {
    const reservedMicros = [...reserved.values()].reduce((sum, micros) => sum + micros, 0)
    const remainingMicros = Math.max(0, limitMicros - spentMicros - reservedMicros)
    return { limitMicros, spentMicros, reservedMicros, remainingMicros }
  }
  const reserve = (): Reservation => {
    const id = Symbol('reservation')
    reserved.set(id, 0)
    return {
      cover: micros => {
        const covered = reserved.get(id) ?? 0
        if (micros <= covered) return
        const now = figures()
        if (micros - covered > now.remainingMicros) throw new SpendingLimitError(micros, now)
        reserved.set(id, micros)
      },
      raise: micros => { reserved.set(id, micros) },
      settle: chargedMicros => {
        // A resumed file also reports the charges of earlier sessions.
        spentMicros += Math.min(chargedMicros, reserved.get(id) ?? 0)
        reserved.delete(id)
      },
    }
  }
  return { reserve, figures }
}

/** Contacts of one `verify_contacts` call. A longer list belongs in a file. */
const MAX_CONTACTS = 100
/** Rows of one `get_results` call: hosts truncate longer answers. */
const MAX_RESULT_ROWS = 200
/** Hosts end a call after a minute. */
const MAX_WAIT_SECONDS = 50
const DEFAULT_WAIT_SECONDS = 30

const input = <T extends TProperties>(properties: T) =>
  Type.Object(properties, { additionalProperties: false })

const Service = Type.Enum([...SERVICE_SLUGS], {
  description: 'phone-validation: is the number assigned, and of which type. carrier-lookup: ' +
    'also its carrier. email-validation: does the address accept mail. whatsapp, telegram: is ' +
    'the number registered there.',
})
const Contact = Type.String({ maxLength: MAX_CONTACT_CHARACTERS })
const Id = Type.String({ maxLength: MAX_ID_CHARACTERS })
const Country = Type.String({
  pattern: '^[A-Za-z]{2}$',
  description: 'ISO 3166 country of numbers in national form, such as DE. Without it only ' +
    'numbers in international form (+49...) are valid.',
})
const ForceFresh = Type.Boolean({
  description: 'Bypasses the cache. Costs more: cached contacts are free otherwise.',
})
const DeadlineSeconds = Type.Integer({
  minimum: DEADLINE_SECONDS.min,
  maximum: DEADLINE_SECONDS.max,
  description: 'When rows that still wait for a slow mail server end as unknown, free. Left out, ' +
    'usually six hours.',
})
const Options = Type.Array(Type.String({ maxLength: 40 }), {
  minItems: 1,
  maxItems: 10,
  description: 'What else to find out about each number, at a further price: line_status, ' +
    'sim_swap, call_forwarding, sms_pumping_risk, or reassigned_number with the date of the last ' +
    'contact (reassigned_number:2026-01-31), if the service sells them.',
})
const File = Type.String({
  minLength: 1, maxLength: 4_096, description: 'Path of a CSV file with a header line.',
})
const Column = Type.String({
  minLength: 1,
  maxLength: 1_000,
  description: 'Column of the contacts, by name or position (#3). By default the only ' +
    'plausible one.',
})
const WaitSeconds = Type.Integer({
  minimum: 0,
  maximum: MAX_WAIT_SECONDS,
  default: DEFAULT_WAIT_SECONDS,
  description: 'How long to wait for the end.',
})
const JobId = Type.String({ pattern: '^job_[0-9a-z]{1,40}$', description: 'job_...' })

const Micros = Type.Integer({ description: 'USD micros; 1 USD is 1,000,000.' })
const Count = Type.Integer()

const SpendingFields = Type.Object({
  limitMicros: Micros, spentMicros: Micros, reservedMicros: Micros, remainingMicros: Micros,
}, { description: 'Money of this session.' })

/** Open types: a newer service may know further states and columns. */
const Job = Type.Object({
  id: Type.String(),
  status: Type.String({ description: 'completed, cancelled and failed are final.' }),
  service: Type.String(),
  totalRows: Count,
  successRecords: Type.Integer({ description: 'Rows with a verdict.' }),
  failedRecords: Type.Integer({ description: 'Rows without a verdict.' }),
  pendingRecords: Type.Integer({ description: 'Rows that have not ended.' }),
  verdicts: Type.Union([Type.Record(Type.String(), Count), Type.Null()], {
    description: 'Rows that are valid, invalid, risky and unknown so far; null if not known.',
  }),
  reasons: Type.Union([Type.Record(Type.String(), Count), Type.Null()], {
    description: 'The same rows by reason.',
  }),
  maxQuoteMicros: Micros,
  chargedMicros: Micros,
  releasedMicros: Micros,
  deadline: Type.Union([Type.String(), Type.Null()], {
    description: 'When rows that still wait end as unknown; null without a deadline.',
  }),
  waiting: Type.Union([
    Type.Object({
      rows: Count, reasons: Type.Record(Type.String(), Count), estimatedEndAt: Type.String(),
    }),
    Type.Null(),
  ], { description: 'Rows whose servers ask to come back later; null for none.' }),
})
const Rows = Type.Array(Type.Record(Type.String(), Type.Unknown()), {
  description: 'Result columns by name, blank ones left out. status is the verdict, reason its ' +
    'cause.',
})
const NextCursor = Type.Union([Type.String(), Type.Null()], {
  description: 'To be sent as cursor; null on the last page.',
})

const READS = { readOnlyHint: true, openWorldHint: false }
const SPENDS = {
  readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: true,
}

/** The tools as hosts list them, with their arguments and structured results. */
const TOOLS = {
  verifyContacts: {
    name: 'verify_contacts',
    title: 'Verify contacts',
    description: 'Verifies up to 100 phone numbers or e-mail addresses of one kind and returns a ' +
      'row for each. Costs money within the spending limit of the session.',
    annotations: SPENDS,
    input: input({
      service: Service,
      contacts: Type.Array(Type.Union([Contact, input({ input: Contact, id: Id })]), {
        minItems: 1,
        maxItems: MAX_CONTACTS,
        description: 'Phone numbers or e-mail addresses; with your own id of each, which its row ' +
          'then has, as objects.',
      }),
      country: Type.Optional(Country),
      force_fresh: Type.Optional(ForceFresh),
      options: Type.Optional(Options),
      deadline_seconds: Type.Optional(DeadlineSeconds),
      wait_seconds: Type.Optional(WaitSeconds),
    }),
    output: Type.Object({
      ended: Type.Boolean({ description: 'false: call get_results with the id of the job later.' }),
      job: Job,
      rows: Rows,
      spending: SpendingFields,
    }),
  },
  estimateFile: {
    name: 'estimate_file',
    title: 'Estimate a CSV file',
    description: 'Says what a file may cost and which verdicts to expect, free: a sample of up ' +
      'to 100 contacts is verified, once a day. Of a file with more than 100,000 rows it is ' +
      'about those first. Creates no job.',
    annotations: { readOnlyHint: true, openWorldHint: true },
    input: input({
      file: File,
      service: Type.Optional(Service),
      column: Type.Optional(Column),
      country: Type.Optional(Country),
      options: Type.Optional(Options),
    }),
    output: Type.Object({
      service: Type.String(),
      rows: Type.Integer({ description: 'Rows of the file.' }),
      quotedRows: Type.Integer({ description: 'The first rows, which all else is about.' }),
      invalidRows: Count,
      duplicateRows: Count,
      cacheHits: Count,
      freshChecks: Count,
      maxQuoteMicros: Micros,
      estimate: Type.Object({
        status: Type.String({
          description: 'running: some contacts have no answer yet; call estimate_file again later.',
        }),
        reason: Type.Union([Type.String(), Type.Null()], {
          description: 'Why there is no estimate; null if there is one.',
        }),
        contacts: Type.Integer({ description: 'The contacts that the shares are of.' }),
        checkedContacts: Count,
        shares: Type.Union([Type.Record(Type.String(), Type.Object({
          share: Type.Number(), low: Type.Number(), high: Type.Number(),
        })), Type.Null()], {
          description: 'The expected share of each verdict, from 0 to 1, with its 95 % interval.',
        }),
      }),
    }),
  },
  verifyFile: {
    name: 'verify_file',
    title: 'Verify a CSV file',
    description: 'Verifies a column of a CSV file and writes a copy with the results beside it, ' +
      'FILE.verified.csv. Costs money within the spending limit of the session. For long files ' +
      'call it with the same arguments until ended is true.',
    annotations: SPENDS,
    input: input({
      file: File,
      service: Type.Optional(Service),
      column: Type.Optional(Column),
      country: Type.Optional(Country),
      force_fresh: Type.Optional(ForceFresh),
      options: Type.Optional(Options),
      deadline_seconds: Type.Optional(DeadlineSeconds),
      replace: Type.Optional(Type.Boolean({
        description: 'Discards an unfinished run and replaces the results file. May pay again.',
      })),
      wait_seconds: Type.Optional(WaitSeconds),
    }),
    output: Type.Object({
      ended: Type.Boolean({
        description: 'false: call verify_file with the same arguments again.',
      }),
      output: Type.String({
        description: 'The file with the results, complete when ended is true.',
      }),
      rows: Count,
      doneRows: Count,
      waitingRows: Type.Integer({
        description: 'Rows whose servers ask to come back later.',
      }),
      byStatus: Type.Record(Type.String(), Count, { description: 'Rows by verdict, at the end.' }),
      jobs: Type.Array(Type.String(), { description: 'Ids of the jobs, at the end.' }),
      chargedMicros: Micros,
      spending: SpendingFields,
    }),
  },
  getJob: {
    name: 'get_job',
    title: 'Status of a job',
    description: 'Returns the status, progress and price of a job.',
    annotations: READS,
    input: input({ job_id: JobId }),
    output: Type.Object({ ended: Type.Boolean(), job: Job, spending: SpendingFields }),
  },
  getResults: {
    name: 'get_results',
    title: 'Results of a job',
    description: 'Returns result rows of a job that has ended, a page at a time.',
    annotations: READS,
    input: input({
      job_id: JobId,
      status: Type.Optional(Type.Enum([...ROW_STATUSES], { description: 'Only such rows.' })),
      source: Type.Optional(Type.Enum([...ROW_SOURCES], { description: 'Only such rows.' })),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_RESULT_ROWS, default: 50 })),
      cursor: Type.Optional(Type.String({
        minLength: 1, maxLength: 100, description: 'The next_cursor of the page before.',
      })),
    }),
    output: Type.Object({ rows: Rows, has_more: Type.Boolean(), next_cursor: NextCursor }),
  },
  getBalance: {
    name: 'get_balance',
    title: 'Balance',
    description: 'Returns the balance of the organization and what this session may still spend.',
    annotations: READS,
    input: input({}),
    output: Type.Object({
      balanceMicros: Micros,
      reservedMicros: Micros,
      availableMicros: Micros,
      currency: Type.String(),
      spending: SpendingFields,
    }),
  },
} as const

type ToolKey = keyof typeof TOOLS
type ToolInput<K extends ToolKey> = Static<typeof TOOLS[K]['input']>
type ToolOutput<K extends ToolKey> = Static<typeof TOOLS[K]['output']>

/** The fields of a schema that a value has; null for those that an older service lacks. */
function pickFields<T extends TObject> (
  { properties }: T, value: Readonly<Record<string, unknown>>
): Static<T> {
  return Object.fromEntries(
    Object.keys(properties).map(name => [name, value[name] ?? null])) as Static<T>
}

/** The wait of a call in milliseconds. */
const parseWaitMs = ({ wait_seconds: seconds = DEFAULT_WAIT_SECONDS }: {
  readonly wait_seconds?: number
}): number => seconds * 1_000
