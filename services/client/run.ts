import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { basename, dirname } from 'node:path'
import type { JobBody } from '../../schemas/api/job.ts'
import type { Client } from './client.ts'
import type { Account } from './connection.ts'
import { type InputFile, openInput, OutputFolder } from './files.ts'
import {
  type FileFacts, indexOfName, type Plan, planJobs, previewHead, readFacts, readHead,
  type RowRange, selectColumns, type TableHead,
} from './plan.ts'
import { CommandError, type Confirm, counted, type SubmitProgress, UsageError } from './terminal.ts'
import { ApiError, type RetryOptions } from './transport.ts'

/** The arguments of `submit`, most of them by the names of its options. */
export type SubmitSettings = {
  readonly input: string
  readonly output: string
  /** Absolute path: only files below it are read and written. Any file by default. */
  readonly folder?: string
  readonly service: string
  readonly column?: string
  /** The column with the caller's own ids, which come back with the rows of the jobs. */
  readonly idColumn?: string
  readonly delimiter?: string
  /** Of a workbook: the name of the sheet, or its number from 1. */
  readonly sheet?: string
  readonly country?: string
  readonly forceFresh?: boolean
  /** Seconds after which rows of a job that still wait end as unknown. */
  readonly deadline?: number
  /** What else to find out about each number. */
  readonly options?: readonly string[]
  readonly metadata: Readonly<Record<string, string>>
  /** Result columns, separated by commas; all columns by default. */
  readonly only?: string
  /** Verdicts of the lines to write; all by default. */
  readonly status?: readonly string[]
  /** Leaves out lines that repeat another line of their job. */
  readonly dropDuplicates?: boolean
  /** Leaves out lines whose address reaches the mailbox of an earlier line of their job. */
  readonly onePerMailbox?: boolean
  /** Escapes cells that a spreadsheet would run as formulas, including those of the input. */
  readonly safe?: 'spreadsheet'
  readonly rowsPerJob: number
  /** Maximum number of concurrent jobs of this run. */
  readonly parallel: number
  readonly restart?: boolean
  /** Shows the expected verdicts before the price is confirmed, by a free sample. */
  readonly estimate?: boolean
  /** Confirms the maximum price without a prompt. */
  readonly yes?: boolean
  readonly account: Account
}

export type SubmitDeps = RetryOptions & {
  readonly client: Client
  readonly confirm?: Confirm
  /** Receives the maximum price of all unsent jobs. Nothing is sent if it throws. */
  readonly approve?: (maxQuoteMicros: number) => void
  readonly progress?: (progress: SubmitProgress) => void
  readonly pollEveryMs?: number
  /** Receives the run when it is open, so that an interruption can report its jobs. */
  readonly onRun?: (store: RunStore) => void
}

type RunFiles = {
  readonly input: InputFile
  readonly folder: OutputFolder
  /** All in that folder. */
  readonly names: Readonly<Record<'output' | 'unfinished' | 'state', string>>
}

/** An open run. */
export type Run = RunFiles & {
  readonly settings: SubmitSettings
  readonly deps: SubmitDeps
  readonly store: RunStore
}

/** The file that stores the state of a run. */
export const stateFileName = (output: string) => `${output}.progress.json`

const START_OVER = 'start over with --restart'

/**
 * Resumes the run whose state file is next to the output, or starts a new one. Throws UsageError or
 * CommandError when the file, the options or the account differ from the unfinished run, and when
 * the output already exists.
 */
export async function openRun (settings: SubmitSettings, deps: SubmitDeps): Promise<Run> {
  const { output, folder: below } = settings
  const input = openInput(settings.input, below)
  let folder: OutputFolder | undefined
  try {
    folder = new OutputFolder(dirname(output), below)
    const name = basename(output)
    const names = { output: name, unfinished: `${name}.part`, state: stateFileName(name) }
    const files = { input, folder, names }
    checkNames(files)
    return { ...files, settings, deps, store: await openStore(files, settings, deps) }
  } catch (error) {
    folder?.close()
    input.close()
    throw error
  }
}

/** Checks each file that the run will write. */
function checkNames ({ input, folder, names }: RunFiles): void {
  const facts = folder.facts(names.output)
  if (facts !== undefined && input.isSame(facts)) {
    throw new UsageError(`The output ${folder.pathOf(names.output)} is the input file. Choose ` +
      'another output with -o.')
  }
  folder.checkReplaceable(names.output)
  folder.checkWritten(names.unfinished)
  folder.checkWritten(names.state)
}

async function openStore (
  files: RunFiles, settings: SubmitSettings, deps: SubmitDeps
): Promise<RunStore> {
  const { input, folder, names } = files
  const { output } = settings
  const facts = await readFacts(input, settings)
  const earlier = readEarlier(files, settings, deps)
  if (earlier === undefined || !earlier.jobs.some(({ sentAtMs }) => sentAtMs !== undefined)) {
    // Only at once: later it may be the state of another process.
    if (earlier !== undefined) folder.remove(names.state)
    const state = await startRun(files, facts, settings, deps)
    // Without a pause before the state is created: another process may end meanwhile.
    if (folder.has(names.output) && settings.restart !== true) {
      throw new CommandError(`The output ${output} already exists. Choose another one with -o, ` +
        `or ${START_OVER}, which replaces it and may pay again.`)
    }
    return RunStore.create(folder, names.state, state)
  }
  checkUnchanged(earlier, facts, toRunOptions(settings))
  await checkAccount(earlier, settings, deps)
  const ended = earlier.jobs.filter(({ end }) => end !== undefined).length
  deps.say(`Resuming the run of ${stateFileName(output)}: ${ended} of ` +
    `${counted(earlier.jobs.length, 'job')} ended.`)
  // A run of an earlier release has no value for what was added to the dialect since.
  const file = { ...earlier.file, dialect: { ...facts.dialect, ...earlier.file.dialect } }
  return RunStore.resume(folder, names.state, { ...earlier, file, account: settings.account })
}

function readEarlier (
  { folder, names }: RunFiles, { output, restart }: SubmitSettings, { say }: SubmitDeps
) {
  const stateFile = stateFileName(output)
  if (restart !== true) {
    const earlier = readState(folder, names.state)
    if (earlier !== undefined) checkLock(stateFile, earlier.lock)
    return earlier
  }
  const dropped = readDropped(folder, names.state)
  if (dropped !== undefined) {
    checkLock(stateFile, dropped.lock)
    const running = dropped.jobs.flatMap(({ id, end }) => id && !end ? [id] : [])
    if (running.length > 0) {
      say(`Jobs of the earlier run continue and will be charged: ${running.join(', ')}`)
    }
    if (dropped.jobs.some(({ id, sentAtMs }) => id === undefined && sentAtMs !== undefined)) {
      say('A request of the earlier run has no response: if the service created its job, which ' +
        'GET /api/v1/jobs lists, that continues and will be charged.')
    }
  }
  folder.remove(names.state)
  folder.remove(names.unfinished)
  return undefined
}

/** `--restart` also discards a file that another release wrote. */
function readDropped (folder: OutputFolder, name: string): RunState | undefined {
  try {
    return readState(folder, name)
  } catch (error) {
    if (error instanceof CommandError) return undefined
    throw error
  }
}

async function startRun (
  { input }: RunFiles, file: FileFacts, settings: SubmitSettings, { client, say }: SubmitDeps
): Promise<RunState> {
  const service = (await client.services()).find(({ slug }) => slug === settings.service)
  if (service?.configured !== true) {
    throw new UsageError(`This key may not use the service ${settings.service}. ` +
      '"verification-jobs services" lists the services that it may use.')
  }
  // An option may have a value: `reassigned_number:2026-01-31`.
  const chosen = settings.options?.map(option => option.split(':')[0]) ?? []
  const ofOptions = service.options.filter(({ name }) => chosen.includes(name))
  selectColumns(settings.only, [...service.columns, ...ofOptions.flatMap(({ columns }) => columns)])
  if (settings.onePerMailbox === true && !service.columns.includes('normalized')) {
    throw new UsageError(`--one-per-mailbox is for e-mail addresses, and ${service.slug} checks ` +
      'something else. Leave it out.')
  }
  const head = await readHead(input, file)
  const idColumn = settings.idColumn === undefined
    ? undefined
    : indexOfName(head.header, settings.idColumn, '--id-column')
  const column = await chooseColumn(head, settings, { client, say })
  if (file.encoding !== 'utf-8') say('The file is not UTF-8: reading and writing Windows-1252.')
  const { account, rowsPerJob } = settings
  const { ranges, ...plan } = await planJobs(input, file, {
    column, idColumn, rowsPerJob,
  })
  const jobs = ranges.map(range => ({ ...range, idempotencyKey: randomUUID() }))
  const options = toRunOptions(settings)
  const joined = NOTHING_JOINED
  return { version: 1, file, options, account, plan, jobs, joined, lock: lockOfThisProcess() }
}

/** The column of the contacts. Says why it was chosen, and which country its numbers may need. */
async function chooseColumn (
  head: TableHead, { service, column, country }: SubmitSettings, { client, say }: SubmitDeps
): Promise<number> {
  const preview = await previewHead(client, head, { service, column })
  if (preview.column === undefined) {
    throw new UsageError(`${preview.reason} Name the column of the contacts with --column.`)
  }
  if (column === undefined) say(preview.reason)
  if (preview.country !== null && country === undefined) {
    const { reason, guess } = preview.country
    say(`${reason} ${guess === null
      ? 'Name their country with --country; without it they are invalid.'
      : `If they are from there, run the command with --country ${guess}.`}`)
  }
  return preview.column
}

/** The options that must not change while a run is unfinished. */
function toRunOptions (settings: SubmitSettings): RunOptions {
  return {
    '--service': settings.service,
    '--column': settings.column ?? '',
    '--id-column': settings.idColumn ?? '',
    '--delimiter': settings.delimiter ?? '',
    '--sheet': settings.sheet ?? '',
    '--country': settings.country ?? '',
    '--force-fresh': String(settings.forceFresh === true),
    '--deadline': settings.deadline === undefined ? '' : `${settings.deadline} s`,
    '--options': settings.options?.join() ?? '',
    '--metadata': JSON.stringify(settings.metadata),
    '--only': settings.only ?? '',
    '--status': settings.status?.join() ?? '',
    '--drop-duplicates': settings.dropDuplicates === true ? 'given' : '',
    '--one-per-mailbox': settings.onePerMailbox === true ? 'given' : '',
    '--safe': settings.safe ?? '',
    '--rows-per-job': String(settings.rowsPerJob),
  }
}

function checkUnchanged (earlier: RunState, file: FileFacts, options: RunOptions): void {
  const action = 'To resume, run the original command on the original file; or ' +
    `${START_OVER}, which may pay for rows a second time.`
  if (earlier.file.digest !== file.digest) {
    throw new CommandError(`The input is not the file of the unfinished run. ${action}`)
  }
  const format = (value = '') => value === '' ? 'not given' : value
  const changes = Object.entries(options).filter(([name, value]) =>
    // A run of an earlier release has no value for options that were added since.
    (earlier.options[name] ?? '') !== value)
    .map(([name, value]) => `${name} was ${format(earlier.options[name])} and is ${format(value)}`)
  if (changes.length > 0) {
    throw new CommandError(
      `The unfinished run has other options: ${changes.join('; ')}. ${action}`)
  }
}

/** A changed key is safe if it can read a job of the run: then it has the same tenant. */
async function checkAccount (
  earlier: RunState, { account }: SubmitSettings, { client }: SubmitDeps
): Promise<void> {
  const { baseUrl, key } = earlier.account
  if (baseUrl === account.baseUrl && key === account.key) return
  const problem = 'The unfinished run used another key or base URL'
  const action = `Resume with the original ones, or ${START_OVER}.`
  const id = earlier.jobs.find(job => job.id !== undefined)?.id
  if (id === undefined) {
    throw new CommandError(`${problem}, and it is unknown whether a job was created. ${action}`)
  }
  try {
    await client.job(id)
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error
    throw new CommandError(`${problem}: this key cannot read its job ${id}. ${action}`,
      { cause: error })
  }
}

/** The outcome of a job, from its status resource. */
type JobEnd = Pick<JobBody,
  'status' | 'successRecords' | 'failedRecords' | 'chargedMicros' | 'releasedMicros'>

/** A range of rows and the job that verifies them. */
export type RunJob = RowRange & {
  /** Generated before the first POST, so that a retry never creates a second job. */
  readonly idempotencyKey: string
  /** The maximum price that the user confirmed. */
  readonly confirmedMicros?: number
  /** Time of the first POST that may have created a job. Written to disk before the POST. */
  readonly sentAtMs?: number
  /** The id that the service gave to the job. */
  readonly id?: string
  readonly end?: JobEnd
}

/** The options that determine what is sent, by name. They must not change during a run. */
type RunOptions = Readonly<Record<string, string>>

/** The process that owns a run. Its start time distinguishes it from a later one with its id. */
type RunLock = { readonly pid: number, readonly started: string }

/** Everything needed to resume a run after a crash. */
type RunState = {
  readonly version: 1
  readonly file: FileFacts
  readonly options: RunOptions
  readonly account: Account
  readonly plan: Omit<Plan, 'ranges'>
  readonly jobs: readonly RunJob[]
  readonly joined: Joined
  readonly lock: RunLock
}

/** The complete part of the unfinished output. */
export type Joined = {
  readonly jobs: number
  readonly bytes: number
  /** The appended columns, by their names in the results. */
  readonly columns: readonly string[]
  readonly byStatus: Readonly<Record<string, number>>
}

export const NOTHING_JOINED: Joined = { jobs: 0, bytes: 0, columns: [], byStatus: {} }

/**
 * Reads the state of an earlier run; undefined when there is none. Throws CommandError when the
 * file is damaged or was written by another release.
 */
function readState (folder: OutputFolder, name: string): RunState | undefined {
  const text = folder.readText(name)
  if (text === undefined) return undefined
  try {
    const state = JSON.parse(text) as RunState
    if (state.version === 1) return state
  } catch {
    // Damaged: reported below.
  }
  throw new CommandError(`${folder.pathOf(name)} is damaged or was written by another release. ` +
    'It prevents a second payment: resume with the release that wrote it, or start over ' +
    'with --restart.')
}

/** The state file of a run, locked for this process. An update is durable when it returns. */
export class RunStore {
  readonly #folder: OutputFolder
  readonly #name: string
  #state: RunState

  private constructor (folder: OutputFolder, name: string, state: RunState) {
    this.#folder = folder
    this.#name = name
    this.#state = state
  }

  /** Creates the file. Throws CommandError if another process has created it meanwhile. */
  static create (folder: OutputFolder, name: string, state: RunState): RunStore {
    const store = new RunStore(folder, name, state)
    if (folder.createPrivate(name, store.#text())) return store
    throw new CommandError(`Another process has just created ${folder.pathOf(name)}. Run the ` +
      'command again.')
  }

  /** Opens the file with this state. Throws CommandError while another process runs on it. */
  static resume (folder: OutputFolder, name: string, state: RunState): RunStore {
    checkLock(folder.pathOf(name), state.lock)
    const store = new RunStore(folder, name, state)
    store.update({ lock: lockOfThisProcess() })
    return store
  }

  get state (): RunState {
    return this.#state
  }

  update (change: Partial<RunState>): void {
    this.#state = { ...this.#state, ...change }
    this.#folder.writePrivate(this.#name, this.#text())
  }

  updateJob (index: number, change: Partial<RunJob>): void {
    this.update({
      jobs: this.#state.jobs.map((job, at) => at === index ? { ...job, ...change } : job),
    })
  }

  remove (): void {
    this.#folder.remove(this.#name)
  }

  #text (): string {
    return `${JSON.stringify(this.#state, null, 2)}\n`
  }
}

/** Throws CommandError when another running process owns the run. */
function checkLock (file: string, lock: RunLock): void {
  if (lock.pid === process.pid || !isRunning(lock)) return
  throw new CommandError(`Process ${lock.pid} already works on this output (${file}). Wait until ` +
    'it ends, or stop it, and run the command again to resume.')
}

function isRunning ({ pid, started }: RunLock): boolean {
  try {
    process.kill(pid, 0)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false
  }
  return startTime(pid) === started
}

const lockOfThisProcess = (): RunLock => ({ pid: process.pid, started: startTime(process.pid) })

/** Empty on machines without `ps`: then only the process id counts. */
function startTime (pid: number): string {
  try {
    const words = ['-o', 'lstart=', '-p', String(pid)]
    return execFileSync('ps', words, { stdio: ['ignore', 'pipe', 'ignore'] }).toString().trim()
  } catch {
    return ''
  }
}
