import { randomUUID } from 'node:crypto'
import { realpathSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import {
  type CallToolResult, fromJsonSchema, type JsonSchemaType, McpServer, type ServerContext,
} from '@modelcontextprotocol/server'
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import {
  type Client, hasEnded, type JobRequest, type JobStatusResource, type ResultRow,
} from './client.ts'
import type { Account } from './connection.ts'
import { openInput, OutputFolder, resolveBelow } from './files.ts'
import {
  parseWaitMs, pickFields, type Reservation, type Spending, type ToolInput, type ToolKey,
  type ToolOutput, TOOLS,
} from './mcp-tools.ts'
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
      return withSpending({ ended, job: toJob(job), rows: rows.map(withoutBlanks) })
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
      return { rows: data.map(withoutBlanks), has_more: hasMore, next_cursor: next }
    },

    getBalance: async () => {
      await jobs.refresh()
      return withSpending(await client.balance())
    },
  }
}

const toJob = (job: JobStatusResource) => pickFields(TOOLS.getJob.output.properties.job, job)

const withoutBlanks = (row: ResultRow): ResultRow =>
  Object.fromEntries(Object.entries(row).filter(([, cell]) => cell !== null))

type Attempt = { readonly key: string, readonly reservation: Reservation }

/** The jobs that `verify_contacts` created, with the money that each may cost. */
class ContactJobs {
  readonly #deps: SessionDeps
  readonly #open = new Map<string, Reservation>()
  /** Requests whose outcome is unknown: the same request, sent again, is the same job. */
  readonly #unanswered = new Map<string, Attempt>()

  constructor (deps: SessionDeps) {
    this.#deps = deps
  }

  /** Quotes and creates a job within the spending limit; resolves with its id. */
  async create (body: JobRequest): Promise<string> {
    const { client } = this.#deps
    const text = JSON.stringify(body)
    const attempt = await this.#approve(body, this.#unanswered.get(text))
    const { key, reservation } = attempt
    this.#unanswered.set(text, attempt)
    const created = await client.createJob(body, key).catch((error: unknown) => {
      if (createdNoJob(error)) {
        this.#unanswered.delete(text)
        reservation.settle(0)
      }
      throw error
    })
    this.#unanswered.delete(text)
    this.#open.set(created.id, reservation)
    await coverOrCancel({ client, reservation }, created.id, created.preflight.maxQuoteMicros)
    return created.id
  }

  async #approve (body: JobRequest, earlier: Attempt | undefined): Promise<Attempt> {
    const { client, spending } = this.#deps
    const attempt = earlier ?? { key: randomUUID(), reservation: spending.reserve() }
    try {
      attempt.reservation.cover((await client.quote(body)).preflight.maxQuoteMicros)
      return attempt
    } catch (error) {
      if (earlier === undefined) attempt.reservation.settle(0)
      throw error
    }
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
    await client.cancel(id)
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

/** What a file may cost, and the maximum price of each job that this session created for it. */
type FileMoney = { readonly reservation: Reservation, readonly prices: Map<string, number> }

const sumOf = (prices: FileMoney['prices']): number =>
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
    if (run.args !== comparable(args, input)) {
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
    return { args: comparable(args, files.input), summary, progress }
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
        approve: micros => { money.reservation.cover(sumOf(money.prices) + micros) },
        progress: ({ done, rows, waiting }) => {
          Object.assign(progress, { done, rows, waiting: waiting?.rows ?? 0 })
          for (const report of progress.reports) report({ done, rows })
        },
        pollEveryMs,
      })
      for (const { id } of summary.jobs) money.prices.delete(id)
      // The jobs of a run that was replaced continue, and are charged as well.
      release(summary.chargedMicros + sumOf(money.prices))
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

const comparable = ({ replace: _, wait_seconds: __, ...args }: FileArgs, file: string) =>
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

/** A client that cancels a job whose price has risen above what the session may spend. */
function guardedClient (client: Client, { reservation, prices }: FileMoney): Client {
  return {
    ...client,
    createJob: async (body, key) => {
      const created = await client.createJob(body, key)
      prices.set(created.id, created.preflight.maxQuoteMicros)
      await coverOrCancel({ client, reservation }, created.id, sumOf(prices))
      return created
    },
  }
}

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
