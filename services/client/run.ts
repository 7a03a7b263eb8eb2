import { basename, dirname } from 'node:path'
import type { Client, JobRequest } from './client.ts'
import { contactColumn, parseOnly } from './columns.ts'
import { CommandError, type Confirm, counted, type SubmitProgress, UsageError } from './terminal.ts'
import type { Account } from './connection.ts'
import { type InputFile, openInput, OutputFolder } from './files.ts'
import { type FileFacts, planJobs, readFacts, readHead } from './plan.ts'
import {
  checkLock, newState, openRunStore, readState, type RunOptions, type RunState, type RunStore,
} from './run-state.ts'
import { ApiError, type RetryOptions } from './transport.ts'

/** The arguments of `submit`. */
export type SubmitSettings = {
  readonly input: string
  readonly output: string
  /** Absolute path: only files below it are read and written. Any file by default. */
  readonly folder?: string | undefined
  readonly service: string
  readonly column?: string | undefined
  readonly delimiter?: string | undefined
  readonly country?: string | undefined
  readonly forceFresh: boolean
  readonly metadata: Readonly<Record<string, string>>
  /** Result columns, separated by commas; all columns by default. */
  readonly only?: string | undefined
  /** Verdicts of the lines to write; all by default. */
  readonly status?: readonly string[] | undefined
  /** Leaves out lines that repeat another line of their job. */
  readonly dropDuplicates?: boolean
  /** Escapes cells that a spreadsheet would run as formulas, including those of the input. */
  readonly guarded: boolean
  readonly rowsPerJob: number
  /** Maximum number of concurrent jobs of this run. */
  readonly parallel: number
  readonly restart: boolean
  /** Confirms the maximum price without a prompt. */
  readonly yes: boolean
  readonly account: Account
}

export type SubmitDeps = RetryOptions & {
  readonly client: Client
  readonly confirm?: Confirm
  /** Receives the maximum price of all unsent jobs. Nothing is sent if it throws. */
  readonly approve?: (maxQuoteMicros: number) => void
  readonly progress?: (progress: SubmitProgress) => void
  readonly pollEveryMs?: number | undefined
  /** Receives the run when it is open, so that an interruption can report its jobs. */
  readonly onRun?: (store: RunStore) => void
  /** Called instead of the rename of the complete output, which it receives. For tests. */
  readonly rename?: (rename: () => void) => void
}

/** The names of the files of a run, all in one folder. */
type RunNames = { readonly output: string, readonly unfinished: string, readonly state: string }

type RunFiles = {
  readonly input: InputFile
  readonly folder: OutputFolder
  readonly names: RunNames
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
  const files = openFiles(settings)
  try {
    return { ...files, settings, deps, store: await openStore(files, settings, deps) }
  } catch (error) {
    closeRun(files)
    throw error
  }
}

/** Closes the files of a run. */
export function closeRun ({ input, folder }: Pick<Run, 'input' | 'folder'>): void {
  input.close()
  folder.close()
}

/** Opens the input and the folder of the output, and checks each file that the run will write. */
function openFiles ({ input: path, output, folder: below }: SubmitSettings): RunFiles {
  const input = openInput(path, below)
  try {
    const folder = new OutputFolder(dirname(output), below)
    try {
      const name = basename(output)
      const names = {
        output: name, unfinished: `${name}.part`, state: stateFileName(name),
      }
      checkNames({ input, folder, names })
      return { input, folder, names }
    } catch (error) {
      folder.close()
      throw error
    }
  } catch (error) {
    input.close()
    throw error
  }
}

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
  const facts = await readFacts(input, settings.delimiter)
  const earlier = readEarlier(files, settings, deps)
  if (earlier === undefined || !earlier.jobs.some(({ sentAtMs }) => sentAtMs !== undefined)) {
    if (folder.has(names.output) && !settings.restart) {
      throw new CommandError(`The output ${output} already exists. Choose another one with -o, ` +
        `or ${START_OVER}, which replaces it and may pay again.`)
    }
    const state = await startRun(files, facts, settings, deps)
    folder.remove(names.state)
    return openRunStore(folder, names.state, state)
  }
  checkUnchanged(earlier, facts, toRunOptions(settings))
  await checkAccount(earlier, settings, deps)
  const ended = earlier.jobs.filter(({ end }) => end !== undefined).length
  deps.say(`Resuming the run of ${stateFileName(output)}: ${ended} of ` +
    `${counted(earlier.jobs.length, 'job')} ended.`)
  // A run of an earlier release has no value for what was added to the dialect since.
  const file = { ...earlier.file, dialect: { ...facts.dialect, ...earlier.file.dialect } }
  return openRunStore(folder, names.state, { ...earlier, file, account: settings.account })
}

function readEarlier (
  { folder, names }: RunFiles, { output, restart }: SubmitSettings, { say }: SubmitDeps
) {
  const stateFile = stateFileName(output)
  if (!restart) {
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
  parseOnly(settings.only, service.columns)
  const head = await readHead(input, file)
  const column = contactColumn(head, { kind: service.inputKind, named: settings.column })
  if (column.guessed) say(`Contact column: ${column.name}.`)
  if (file.encoding !== 'utf-8') say('The file is not UTF-8: reading and writing Windows-1252.')
  const { account, rowsPerJob } = settings
  const plan = await planJobs(input, file, { column: column.index, rowsPerJob })
  return newState({ file, options: toRunOptions(settings), account }, plan)
}

/** The options that must not change while a run is unfinished. */
function toRunOptions (settings: SubmitSettings): RunOptions {
  return {
    '--service': settings.service,
    '--column': settings.column ?? '',
    '--delimiter': settings.delimiter ?? '',
    '--country': settings.country ?? '',
    '--force-fresh': String(settings.forceFresh),
    '--metadata': JSON.stringify(settings.metadata),
    '--only': settings.only ?? '',
    '--status': settings.status?.join() ?? '',
    '--drop-duplicates': settings.dropDuplicates === true ? 'given' : '',
    '--safe': settings.guarded ? 'spreadsheet' : '',
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

/** Builds the request body of a job or a quote for these contacts. */
export function toRequest (settings: SubmitSettings, inputs: readonly string[]): JobRequest {
  const { service, country, forceFresh, metadata } = settings
  return {
    service,
    inputs,
    forceFresh,
    ...country !== undefined && { countryCode: country },
    ...Object.keys(metadata).length > 0 && { metadata },
  }
}
