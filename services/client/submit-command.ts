import { type Command, Option } from 'commander'
import { COUNTRY_CODES } from '../../schemas/api/country.ts'
import { MAX_INPUTS } from '../../schemas/api/create-job.ts'
import { API_SERVICES } from '../../schemas/api/service.ts'
import { createClient } from './client.ts'
import { type ContactKind, contactKinds } from './columns.ts'
import {
  CommandError, count, counted, createConsole, InterruptedError, money, UsageError,
} from './terminal.ts'
import { openInput } from './files.ts'
import { type CliContext, type CommonFlags, openConnection } from './connection.ts'
import { readFacts, readHead } from './plan.ts'
import type { SubmitSettings } from './run.ts'
import { interruptRun, submitFile, type SubmitSummary } from './submit.ts'
import { addCleaningOptions } from './job-commands.ts'

type SubmitFlags = CommonFlags & {
  readonly service?: string
  readonly output?: string
  readonly column?: string
  readonly delimiter?: string
  readonly country?: string
  readonly forceFresh?: true
  readonly metadata: Readonly<Record<string, string>>
  readonly only?: string
  readonly status?: readonly string[]
  readonly dropDuplicates?: true
  readonly safe?: 'spreadsheet'
  readonly rowsPerJob: number
  readonly parallel: number
  readonly restart?: true
  readonly yes?: true
  readonly quiet?: true
}

const MAX_PARALLEL_JOBS = 10

const HELP = `
The file is any CSV file whose first line contains column names: cells separated by comma,
semicolon, tab or bar, in UTF-8 or Windows-1252. The output has the same lines in the same order,
or those that --status and --drop-duplicates select, with the result columns appended. A result
column whose name the file already uses is called verified_<name>.

The command shows the maximum price and asks for confirmation before anything is paid. After Ctrl-C
or a crash, run the same command again to resume. Until it is done, OUTPUT.progress.json and
OUTPUT.part belong to it.

Examples:
  verification-jobs submit contacts.csv
  verification-jobs submit contacts.csv --service phone-validation --column phone -o verified.csv
  verification-jobs submit list.csv --service email-validation --only status,reason -o out.csv
  verification-jobs submit list.csv --status valid --drop-duplicates -o clean.csv
  verification-jobs submit contacts.csv --service carrier-lookup --country DE --yes --quiet \\
    --safe spreadsheet -o for-excel.csv`

/** Adds `submit` to the program. */
export function addSubmit (program: Command, context: CliContext): Command {
  return addCleaningOptions(program.command('submit <file>'))
    .description('verify the contacts of a CSV file and write a copy with the results')
    .addOption(new Option('--service <slug>', 'the service; by default phone-validation or ' +
      'email-validation, if the contacts are clearly of one kind').choices(API_SERVICES))
    .option('-o, --output <file>', 'the CSV file to write; FILE.verified.csv by default')
    .option('--column <name>', 'the column of the contacts, by name or position (#3); by ' +
      'default the only plausible one')
    .option('--country <code>', 'ISO 3166 country of numbers in national form', parseCountry)
    .option('--force-fresh', 'bypass the cache')
    .option('--metadata <key=value>', 'label of the jobs; repeatable', addLabel, {})
    .option('--only <columns>', 'result columns to write, separated by commas')
    .addOption(new Option('--safe <for>', 'escape cells that a spreadsheet would run as ' +
      'formulas, including those of the file').choices(['spreadsheet']))
    .option('--delimiter <character>', 'separator of cells; "tab" for a tab', parseDelimiter)
    .option('--rows-per-job <number>', 'maximum rows of a job', integerUpTo(MAX_INPUTS), MAX_INPUTS)
    .option('--parallel <number>', 'maximum concurrent jobs', integerUpTo(MAX_PARALLEL_JOBS), 4)
    .option('--restart', 'discard an unfinished run and replace the output')
    .option('-y, --yes', 'confirm the maximum price')
    .option('-q, --quiet', 'print only errors')
    .addHelpText('after', HELP)
    .action(async (file: string, _: unknown, command: Command) => {
      await submit(file, command.optsWithGlobals<SubmitFlags>(), context)
    })
}

async function submit (file: string, flags: SubmitFlags, context: CliContext): Promise<void> {
  const screen = createConsole(context, { quiet: flags.quiet === true || flags.json === true })
  const connection = openConnection(flags, context, screen.say)
  const service = flags.service ?? await detectService(file, flags)
  if (flags.service === undefined) screen.say(`Service: ${service} (change it with --service).`)
  const output = flags.output ?? file.replace(/(\.csv)?$/i, '.verified.csv')
  const settings = toSettings(file, { ...flags, service, output }, connection.account)
  let interrupt = () => interruptRun(settings)
  const interrupted = new Promise<never>((_resolve, reject) => {
    context.onInterrupt(() => {
      screen.end()
      reject(new InterruptedError(interrupt()))
    })
  })
  const client = createClient({ ...connection, ...context.clientOptions })
  const summary = await Promise.race([interrupted, submitFile(settings, {
    client,
    say: screen.say,
    progress: screen.progress,
    confirm: flags.json === true ? undefined : screen.confirm,
    pollEveryMs: context.pollEveryMs,
    onRun: store => { interrupt = () => interruptRun(settings, store) },
  })]).finally(screen.end)
  if (flags.json === true) screen.print(JSON.stringify(summary))
  else if (flags.quiet !== true) screen.print(summaryText(summary))
  if (!summary.completed) throw new CommandError(unfinishedText(summary))
}

const DEFAULT_SERVICES: Readonly<Record<ContactKind, string>> = {
  phone: 'phone-validation', email: 'email-validation',
}

/**
 * Selects the service for a file whose contacts are clearly of one kind. Deterministic for the same
 * file. Throws UsageError for an ambiguous file and CommandError for one that cannot be read.
 */
export async function detectService (
  file: string,
  { column, delimiter, folder }: Pick<SubmitSettings, 'column' | 'delimiter' | 'folder'>
): Promise<string> {
  const input = openInput(file, folder)
  const [kind, ...others] = await readFacts(input, delimiter)
    .then(async facts => contactKinds(await readHead(input, facts), column))
    .finally(() => { input.close() })
  if (kind !== undefined && others.length === 0) return DEFAULT_SERVICES[kind]
  throw new UsageError(kind === undefined
    ? 'No column of the file looks like phone numbers or e-mail addresses. Name the service with ' +
      '--service, for example --service phone-validation.'
    : 'The file has columns of phone numbers and of e-mail addresses. Name the column with ' +
      '--column, or the service with --service.')
}

type ResolvedFlags = SubmitFlags & { readonly service: string, readonly output: string }

function toSettings (
  input: string, flags: ResolvedFlags, account: SubmitSettings['account']
): SubmitSettings {
  const { output, service, column, delimiter, country, metadata, only } = flags
  return {
    input,
    output,
    service,
    column,
    delimiter,
    country,
    metadata,
    only,
    status: flags.status,
    dropDuplicates: flags.dropDuplicates === true,
    forceFresh: flags.forceFresh === true,
    guarded: flags.safe === 'spreadsheet',
    rowsPerJob: flags.rowsPerJob,
    parallel: flags.parallel,
    restart: flags.restart === true,
    yes: flags.yes === true,
    account,
  }
}

function parseCountry (code: string): string {
  if (COUNTRY_CODES.includes(code.toUpperCase())) return code.toUpperCase()
  throw new UsageError(`--country ${code} is not an ISO 3166 code. Use a two-letter code like DE.`)
}

function addLabel (
  text: string, labels: Readonly<Record<string, string>>
): Readonly<Record<string, string>> {
  const at = text.indexOf('=')
  if (at < 1) throw new UsageError(`--metadata ${text} has no key. Use key=value.`)
  return { ...labels, [text.slice(0, at)]: text.slice(at + 1) }
}

function parseDelimiter (text: string): string {
  const delimiter = text === 'tab' ? '\t' : text
  if (/^[\x20\x21\x23-\x7e\t]$/.test(delimiter)) return delimiter
  throw new UsageError(`--delimiter ${text} is invalid. Use one ASCII character other than a ` +
    'quote, or "tab".')
}

const integerUpTo = (max: number) => (text: string): number => {
  const number = Number(text)
  if (/^\d+$/.test(text) && number >= 1 && number <= max) return number
  throw new UsageError(`${text} is not an integer from 1 to ${max}.`)
}

/** Formats the summary: rows by status, money and the output file. */
export function summaryText (summary: SubmitSummary): string {
  const { rows, byStatus, chargedMicros, releasedMicros, output } = summary
  const statuses = Object.entries(byStatus).map(([status, number]) => `${count(number)} ${status}`)
  return `${counted(rows, 'row')}: ${statuses.join(', ')}\n` +
    `paid ${money(chargedMicros)}, released ${money(releasedMicros)}\n` +
    `written to ${output}`
}

function unfinishedText ({ jobs }: SubmitSummary): string {
  const others = jobs.filter(({ status }) => status !== 'completed')
  return `${others.map(({ id, status }) => `${id} is ${status}`).join('; ')}. Rows that were not ` +
    'checked are unknown in the output, and free.'
}
