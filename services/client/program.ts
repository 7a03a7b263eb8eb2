import { createWriteStream, readFileSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { Command, CommanderError, Option } from 'commander'
import { ROW_FIELDS } from '../../schemas/api/columns.ts'
import { COUNTRY_CODES } from '../../schemas/api/country.ts'
import { DEADLINE_SECONDS, MAX_INPUTS } from '../../schemas/api/create-job.ts'
import { SERVICE_SLUGS } from '../../schemas/api/parts.ts'
import { type ResultsQuery, RESULT_DELIMITERS, RESULT_FORMATS } from '../../schemas/api/results.ts'
import { LINE_TYPES, REASONS, ROW_SOURCES, ROW_STATUSES } from '../../schemas/api/verdicts.ts'
import { type Client, createClient, type JobStatusResource, type RowSelection } from './client.ts'
import { type Account, type CliContext, type CommonFlags, openConnection } from './connection.ts'
import { OutputFolder } from './files.ts'
import { detectService } from './plan.ts'
import type { SubmitSettings } from './run.ts'
import { interruptRun, submitFile } from './submit.ts'
import {
  CommandError, type Console, count, counted, createConsole, failureMessage, InterruptedError,
  minuteText, money, UsageError,
} from './terminal.ts'
import { ApiError } from './transport.ts'

const EXIT_CODES = { ok: 0, failure: 1, usage: 2, interrupted: 130 } as const

const HELP = `
Environment: VERIFICATION_JOBS_URL (ends in /api/v1), VERIFICATION_JOBS_KEY. Without both, the
command uses the local stack of "npm run up" with its own key. There is no option for the key,
because other users can read command lines.

Exit codes: 0 success, 1 failure, 2 invalid arguments, 130 interrupted.

Example:
  verification-jobs submit contacts.csv --service phone-validation --column phone -o verified.csv`

/**
 * Runs one command and resolves with its exit code: 0 success, 1 failure, 2 invalid arguments, 130
 * interrupted. Rejects only with a bug of the program.
 */
export async function runProgram (words: readonly string[], context: CliContext): Promise<number> {
  try {
    await createClientProgram(context).parseAsync([...words], { from: 'user' })
    return EXIT_CODES.ok
  } catch (error) {
    if (error instanceof CommanderError) {
      return error.exitCode === 0 ? EXIT_CODES.ok : EXIT_CODES.usage
    }
    // The reader of a pipe, such as `head`, has closed it.
    if ((error as NodeJS.ErrnoException).code === 'EPIPE') return EXIT_CODES.ok
    const message = failureMessage(error)
    if (message === undefined) throw error
    if (words.includes('--json')) {
      const code = error instanceof ApiError ? { code: error.code } : {}
      context.output.write(`${JSON.stringify({ error: { ...code, message } })}\n`)
    }
    context.errors.write(`verification-jobs: ${message}\n`)
    if (error instanceof UsageError) return EXIT_CODES.usage
    return error instanceof InterruptedError ? EXIT_CODES.interrupted : EXIT_CODES.failure
  }
}

function createClientProgram (context: CliContext): Command {
  const program = new Command('verification-jobs')
    .description('Verifies phone numbers and e-mail addresses.')
    .option('--base-url <url>', 'address of the service')
    .option('--key-file <file>', 'file with the API key')
    .option('--data <folder>', 'folder of a local stack', '.local')
    .option('--json', 'print the result as JSON and nothing else')
    .addHelpText('after', HELP)
    .exitOverride()
    .configureOutput({
      writeOut: text => { context.output.write(text) },
      writeErr: text => { context.errors.write(text) },
    })
  addSubmit(program, context)
  addVerify(program, context)
  addJobCommands(program, context)
  addAccountCommands(program, context)
  addMcp(program, context)
  return program
}

type Deps<T = CommonFlags> = {
  readonly client: Client
  readonly account: Account
  readonly screen: Console
  readonly flags: T
}

/** An action of a command that makes requests; it gets the first argument of the command. */
function withClient<T extends CommonFlags, A = string> (
  context: CliContext, action: (deps: Deps<T>, argument: A) => Promise<void>
) {
  return async (...words: readonly unknown[]) => {
    const flags = (words.at(-1) as Command).optsWithGlobals<T & { readonly quiet?: true }>()
    const screen = createConsole(context, { quiet: flags.quiet === true || flags.json === true })
    const { account, ...connection } = openConnection(flags, context, screen.say)
    const client = createClient({ ...connection, ...context.clientOptions })
    await action({ client, account, screen, flags }, words[0] as A)
  }
}

function print<T> ({ screen, flags }: Deps, value: T, textOf: (value: T) => string): void {
  screen.print(flags.json === true ? JSON.stringify(value) : textOf(value))
}

const exampleText = (words: string) => `\nExample:\n  verification-jobs ${words}`

type SubmitFlags = CommonFlags &
  Omit<SubmitSettings, 'input' | 'output' | 'folder' | 'service' | 'account'> & {
    readonly output?: string
    readonly service?: string
    readonly quiet?: true
  }

const MAX_PARALLEL_JOBS = 10

const SUBMIT_HELP = `
The file is any CSV file whose first line contains column names: cells separated by comma,
semicolon, tab or bar, in UTF-8 or Windows-1252; or an Excel workbook (.xlsx), of which the first
visible sheet or that of --sheet is read, and the output is CSV. The output has the same lines in
the same order, or those that --status, --drop-duplicates and --one-per-mailbox select, with the
result columns appended. A result column whose name the file already uses is called
verified_<name>.

To find the column of the contacts, the service reads the first 1,000 lines and keeps nothing of
them; with --column it gets that column only.

The command shows the maximum price and asks for confirmation before anything is paid. After Ctrl-C
or a crash, run the same command again to resume. Until it is done, OUTPUT.progress.json and
OUTPUT.part belong to it.

Examples:
  verification-jobs submit contacts.csv
  verification-jobs submit contacts.csv --service phone-validation --column phone -o verified.csv
  verification-jobs submit list.csv --service email-validation --only status,reason -o out.csv
  verification-jobs submit list.csv --status valid --drop-duplicates -o clean.csv
  verification-jobs submit list.csv --estimate
  verification-jobs submit contacts.csv --service carrier-lookup --country DE --yes --quiet \\
    --safe spreadsheet -o for-excel.csv`

function addSubmit (program: Command, context: CliContext): void {
  addCleaningOptions(program.command('submit <file>'))
    .description('verify the contacts of a CSV file or a workbook, and write a copy with the ' +
      'results')
    .addOption(new Option('--service <slug>', 'the service; by default phone-validation or ' +
      'email-validation, if the contacts are clearly of one kind').choices(SERVICE_SLUGS))
    .option('-o, --output <file>', 'the CSV file to write; FILE.verified.csv by default')
    .option('--column <name>', 'the column of the contacts, by name or position (#3); by ' +
      'default the only plausible one')
    .option('--id-column <name>', 'a column with your own ids, which come back with the rows of ' +
      'the jobs')
    .option('--country <code>', 'ISO 3166 country of numbers in national form', parseCountry)
    .option('--force-fresh', 'bypass the cache')
    .option('--deadline <time>', 'how long rows may wait for slow servers, from 1m to 48h, such ' +
      'as 90s, 30m or 6h; then they end as unknown, free', parseDeadline)
    .option('--options <list>', 'what else to find out about each number at a price of its own, ' +
      'separated by commas; "services --json" has the options', (text: string) => text.split(','))
    .option('--metadata <key=value>', 'label of the jobs; repeatable', addLabel, {})
    .option('--only <columns>', 'result columns to write, separated by commas')
    .addOption(new Option('--safe <for>', 'escape cells that a spreadsheet would run as ' +
      'formulas, including those of the file').choices(['spreadsheet']))
    .option('--sheet <name>', 'sheet of a workbook (.xlsx): its name, or its number from 1')
    .option('--delimiter <character>', 'separator of cells; "tab" for a tab', parseDelimiter)
    .option('--rows-per-job <number>', 'maximum rows of a job', integerUpTo(MAX_INPUTS), MAX_INPUTS)
    .option('--parallel <number>', 'maximum concurrent jobs', integerUpTo(MAX_PARALLEL_JOBS), 4)
    .option('--restart', 'discard an unfinished run and replace the output')
    .option('--estimate', 'show the expected verdicts before the price is confirmed, by a free ' +
      'sample')
    .option('-y, --yes', 'confirm the maximum price')
    .option('-q, --quiet', 'print only errors')
    .addHelpText('after', SUBMIT_HELP)
    .action(withClient<SubmitFlags>(context, (deps, file) => submit(file, deps, context)))
}

async function submit (
  file: string, { client, account, screen, flags }: Deps<SubmitFlags>, context: CliContext
): Promise<void> {
  const service = flags.service ?? await detectService(client, file, flags)
  if (flags.service === undefined) screen.say(`Service: ${service} (change it with --service).`)
  const settings: SubmitSettings = {
    ...flags,
    input: file,
    output: flags.output ?? file.replace(/(\.csv|\.xlsx)?$/i, '.verified.csv'),
    service,
    account,
  }
  let interrupt = () => interruptRun(settings)
  const interrupted = new Promise<never>((_resolve, reject) => {
    context.onInterrupt(() => {
      screen.end()
      reject(new InterruptedError(interrupt()))
    })
  })
  const summary = await Promise.race([interrupted, submitFile(settings, {
    client,
    say: screen.say,
    progress: screen.progress,
    confirm: flags.json === true ? undefined : screen.confirm,
    pollEveryMs: context.pollEveryMs,
    onRun: store => { interrupt = () => interruptRun(settings, store) },
  })]).finally(screen.end)
  const { rows, byStatus, chargedMicros, releasedMicros, output, jobs } = summary
  const statuses = Object.entries(byStatus).map(([name, rows]) => `${count(rows)} ${name}`)
  if (flags.json === true) screen.print(JSON.stringify(summary))
  else if (flags.quiet !== true) {
    screen.print(`${counted(rows, 'row')}: ${statuses.join(', ')}\n` +
      `paid ${money(chargedMicros)}, released ${money(releasedMicros)}\nwritten to ${output}`)
  }
  if (summary.completed) return
  const unfinished = jobs.filter(({ status }) => status !== 'completed')
    .map(({ id, status }) => `${id} is ${status}`)
  throw new CommandError(`${unfinished.join('; ')}. Rows that were not checked are unknown in ` +
    'the output, and free.')
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

const UNIT_SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600 }

/** Seconds of a text such as `90s`, `30m` or `6h`. */
function parseDeadline (text: string): number {
  const [, number = '', unit = ''] = /^(\d{1,6})([smh])$/.exec(text) ?? []
  const seconds = Number(number) * (UNIT_SECONDS[unit] ?? 0)
  if (seconds >= DEADLINE_SECONDS.min && seconds <= DEADLINE_SECONDS.max) return seconds
  throw new UsageError(`--deadline ${text} is not a time from 1m to 48h. Use a number and s, m ` +
    'or h, such as 90s, 30m or 6h.')
}

const integerUpTo = (max: number) => (text: string): number => {
  const number = Number(text)
  if (/^\d+$/.test(text) && number >= 1 && number <= max) return number
  throw new UsageError(`${text} is not an integer from 1 to ${max}.`)
}

const VERIFY_HELP = `
At most 100 contacts; "submit" verifies files of any length. The price is at most that of a row
times the number of contacts ("services" lists prices), and the command prints what was paid.

Examples:
  verification-jobs verify +12127365000
  verification-jobs verify jane@example.com info@example.com --json
  verification-jobs verify "(212) 736-5000" --country US --service carrier-lookup`

type VerifyFlags = CommonFlags & {
  readonly service?: string
  readonly country?: string
  readonly forceFresh?: true
}

function addVerify (program: Command, context: CliContext): void {
  program.command('verify <contacts...>')
    .description('verify a few contacts and show the results')
    .addOption(new Option('--service <slug>', 'the service; by default email-validation for ' +
      'contacts with an @, and phone-validation for others').choices(SERVICE_SLUGS))
    .option('--country <code>', 'ISO 3166 country of numbers in national form')
    .option('--force-fresh', 'bypass the cache')
    .addHelpText('after', VERIFY_HELP)
    .action(withClient<VerifyFlags, readonly string[]>(context, async (deps, contacts) => {
      const { service, country, forceFresh } = deps.flags
      const isEmail = contacts.every(contact => contact.includes('@'))
      const verified = await deps.client.verify({
        service: service ?? (isEmail ? 'email-validation' : 'phone-validation'),
        inputs: contacts,
        forceFresh: forceFresh === true,
        countryCode: country,
      })
      print(deps, verified, ({ results, chargedMicros, id }) => {
        const width = Math.max(...results.map(({ input }) => String(input).length))
        const lines = results.map(({ input, status, reason }) =>
          `${String(input).padEnd(width)}  ${status}${reason === null ? '' : `  ${reason}`}`)
        return [...lines, `${id}: paid ${money(chargedMicros)}`].join('\n')
      })
    }))
}

const EXAMPLE_JOB = 'job_01jd3v8zj7m5n2k4q6r8s0t1w3'

type ResultFlags = CommonFlags & SelectionFlags & Pick<ResultsQuery, 'safe' | 'delimiter'> &
  { readonly output?: string, readonly format: NonNullable<ResultsQuery['format']> }

const RESULTS_HELP = `
Examples:
  verification-jobs results ${EXAMPLE_JOB} -o results.csv
  verification-jobs results ${EXAMPLE_JOB} --status valid --drop-duplicates -o clean.csv
  verification-jobs results ${EXAMPLE_JOB} --format xlsx -o results.xlsx
  verification-jobs results ${EXAMPLE_JOB} --format jsonl --columns input,status | head`

/** Adds the commands that make one request about a job. */
function addJobCommands (program: Command, context: CliContext): void {
  program.command('status <job>').description('show the progress of a job')
    .addHelpText('after', exampleText(`status ${EXAMPLE_JOB}`))
    .action(withClient(context, async (deps, id) =>
      print(deps, await deps.client.job(id), jobText)))
  program.command('cancel <job>').description('cancel a job; unchecked rows are free')
    .addHelpText('after', exampleText(`cancel ${EXAMPLE_JOB}`))
    .action(withClient(context, async (deps, id) =>
      print(deps, await deps.client.cancel(id), jobText)))
  program.command('erase <job>').description('erase a job that has ended, for ever')
    .option('--cache', 'also delete the cached verdicts of its contacts')
    .addHelpText('after', exampleText(`erase ${EXAMPLE_JOB} --cache`))
    .action(withClient<CommonFlags & { readonly cache?: true }>(context, async (deps, id) => {
      const job = await deps.client.eraseJob(id, { cache: deps.flags.cache === true })
      print(deps, job, ({ erasedAt }) => `${id}  erased at ${erasedAt}`)
    }))
  addSelectionOptions(program.command('results <job>'))
    .description('download the results of a job, or some of their rows and columns')
    .option('-o, --output <file>', 'output file; the terminal by default, but not for xlsx and ' +
      'parquet')
    .addOption(new Option('--format <format>', 'of the file; json is one array of all rows, ' +
      'jsonl has a row in each line').choices(RESULT_FORMATS).default('csv'))
    .addOption(new Option('--delimiter <name>', 'what separates the cells of CSV, a comma by ' +
      'default; original is that of the file of the job').choices(RESULT_DELIMITERS))
    .addOption(new Option('--safe <for>', 'escape cells of CSV that a spreadsheet would run as ' +
      'formulas').choices(['spreadsheet']))
    .addHelpText('after', RESULTS_HELP)
    .action(withClient<ResultFlags>(context, async ({ client, screen, flags }, id) => {
      checkResultFlags(flags)
      const { output, format, safe, delimiter } = flags
      const selection = toSelection(flags)
      const bytes = format === 'json'
        ? arrayOfRows(client.resultLines(id, selection))
        : await client.resultsFile(id, { format, ...selection, safe, delimiter })
      await writeResults(bytes, output, context)
      if (flags.json === true && output !== undefined) screen.print(JSON.stringify({ id, output }))
    }))
}

function checkResultFlags ({ format, output, safe, delimiter }: ResultFlags): void {
  const onlyCsv = delimiter === undefined ? safe && `--safe ${safe}` : `--delimiter ${delimiter}`
  if (format !== 'csv' && onlyCsv !== undefined) {
    throw new UsageError(`${onlyCsv} is for CSV, and --format is ${format}. Leave one of them out.`)
  }
  if (['xlsx', 'parquet'].includes(format) && output === undefined) {
    throw new UsageError(`--format ${format} is not text, so it needs a file: -o FILE.`)
  }
}

/** The rows as one JSON array, a row in each line. */
async function * arrayOfRows (rows: AsyncIterable<object>): AsyncIterable<Uint8Array> {
  let before = '['
  for await (const row of rows) {
    yield Buffer.from(`${before}\n${JSON.stringify(row)}`)
    before = ','
  }
  yield Buffer.from(before === '[' ? '[]\n' : '\n]\n')
}

/** Formats a job: status, rows, verdicts, those that wait, price. */
function jobText (job: JobStatusResource): string {
  const { id, status, service, totalRows, successRecords, failedRecords } = job
  const price = job.completedAt === null
    ? `at most ${money(job.maxQuoteMicros)}`
    : `paid ${money(job.chargedMicros)}, released ${money(job.releasedMicros)}`
  return `${id}  ${status}, ${job.progressPercent} %\n` +
    `${service}, ${count(totalRows)} rows: ${count(successRecords)} with a verdict, ` +
    `${count(failedRecords)} without\n${verdictsText(job)}${waitingText(job)}${price}`
}

/** Lines with the verdicts so far and their reasons, the commonest first; none if not known. */
function verdictsText ({ verdicts, reasons }: JobStatusResource): string {
  if (!verdicts || !reasons) return ''
  const formatCounts = (counts: Readonly<Record<string, number>>) => Object.entries(counts)
    .filter(([, rows]) => rows > 0).sort(([, a], [, b]) => b - a)
    .map(([name, rows]) => `${count(rows)} ${name}`).join(', ')
  const text = formatCounts(verdicts)
  return text === '' ? '' : `${text}\nReasons: ${formatCounts(reasons)}\n`
}

/** A line with the rows that wait, why and until when; none from an older service. */
function waitingText ({ waiting }: JobStatusResource): string {
  if (!waiting) return ''
  const reasons = Object.entries(waiting.reasons)
    .map(([reason, rows]) => `${count(rows)} ${reason}`)
  return `${counted(waiting.rows, 'row')} waiting until about ` +
    `${minuteText(Date.parse(waiting.estimatedEndAt))}: ${reasons.join(', ')}\n`
}

/** A file gets its name when it is complete. */
async function writeResults (
  bytes: AsyncIterable<Uint8Array>, output: string | undefined, { output: terminal }: CliContext
): Promise<void> {
  if (output === undefined) return await pipeline(bytes, terminal, { end: false })
  const [folder, name] = [new OutputFolder(dirname(output)), basename(output)]
  try {
    folder.checkReplaceable(name)
    const part = `${name}.part`
    await pipeline(bytes, createWriteStream('', { fd: folder.create(part) }))
    folder.rename(part, name)
  } finally {
    folder.close()
  }
}

type UsageFlags = CommonFlags &
  { readonly from?: string, readonly to?: string, readonly groupBy: string }

const TRANSACTIONS = 20

/** Adds the commands that make one request about the organization of the key. */
function addAccountCommands (program: Command, context: CliContext): void {
  program.command('balance').description('show the available balance')
    .addHelpText('after', exampleText('balance --json'))
    .action(withClient(context, async deps => print(deps, await deps.client.balance(), balance =>
      `available ${money(balance.availableMicros)}\n` +
      `reserved  ${money(balance.reservedMicros)}\n` +
      `total     ${money(balance.balanceMicros)}`)))
  program.command('usage').description('show jobs, rows and money by day, service or key')
    .option('--from <time>', 'first day or time; 30 days ago by default')
    .option('--to <time>', 'last day, or time; now by default')
    .option('--group-by <names>', 'day, service, key or several of them', 'day')
    .addHelpText('after', exampleText('usage --from 2026-08-01 --group-by day,service'))
    .action(withClient<UsageFlags>(context, async ({ client, screen, flags }) => {
      const query = { from: flags.from, to: flags.to, group_by: flags.groupBy }
      screen.print(flags.json === true
        ? JSON.stringify(await client.usage(query))
        : (await client.usageFile(query)).trimEnd())
    }))
  program.command('transactions').description('show the last movements of the balance')
    .option('--limit <number>', 'number of movements, at most 100', Number, TRANSACTIONS)
    .addHelpText('after', exampleText('transactions --limit 5'))
    .action(withClient<CommonFlags & { readonly limit: number }>(context, async deps => {
      const page = await deps.client.transactionsPage({ limit: deps.flags.limit })
      print(deps, page, ({ data }) => data.map(movement =>
        `${movement.createdAt} ${movement.type.padEnd(8)} ` +
        `${money(movement.amountMicros).padStart(14)}  available ` +
        `${money(movement.availableMicros).padStart(14)}  ${movement.jobId ?? ''}`.trimEnd())
        .join('\n'))
    }))
  program.command('services').description('list the services and the price of a row')
    .addHelpText('after', exampleText('services'))
    .action(withClient(context, async deps => print(deps, await deps.client.services(), services =>
      services.map(({ slug, inputKind, priceMicros, configured }) =>
        `${slug.padEnd(18)} ${inputKind.padEnd(6)} ${money(priceMicros).padStart(10)} a row` +
        (configured ? '' : '  (not for this key)')).join('\n'))))
}

/** The flags that select rows; the lists are parsed. */
type SelectionFlags =
  Pick<RowSelection, 'status' | 'reason' | 'source' | 'country' | 'columns'> & {
    readonly lineType?: RowSelection['line_type']
    readonly dropDuplicates?: true
    readonly onePerMailbox?: true
  }

/** The options for rows that every list of contacts can be cleaned by. */
function addCleaningOptions (command: Command): Command {
  return command
    .addOption(listOption('--status <list>', 'only rows with these verdicts, separated by commas',
      ROW_STATUSES))
    .option('--drop-duplicates', 'leave out rows that repeat another row of their job')
    .option('--one-per-mailbox', 'of e-mail addresses that reach one mailbox, only the first row ' +
      'of their job')
}

/** The options for every parameter of the results that selects rows or columns. */
function addSelectionOptions (command: Command): Command {
  return addCleaningOptions(command)
    .addOption(listOption('--reason <list>', 'only rows with these reasons', REASONS))
    .addOption(listOption('--source <list>', 'only rows from these sources', ROW_SOURCES))
    .addOption(listOption('--line-type <list>', 'only rows of these line types', LINE_TYPES))
    .addOption(listOption('--country <list>', 'only rows of these ISO 3166 countries',
      COUNTRY_CODES))
    .addOption(listOption('--columns <list>', 'only these columns, in this order', ROW_FIELDS))
}

function toSelection (flags: SelectionFlags): RowSelection {
  const { status, reason, source, lineType, country, columns, dropDuplicates } = flags
  return {
    status,
    reason,
    source,
    line_type: lineType,
    country,
    columns,
    duplicates: flags.onePerMailbox === true
      ? 'mailbox'
      : dropDuplicates === true ? 'drop' : undefined,
  }
}

/** An option of values of a list, in any case, separated by commas. */
function listOption (flags: string, description: string, allowed: readonly string[]): Option {
  const [name = ''] = flags.split(' ')
  const byLowerCase = new Map(allowed.map(value => [value.toLowerCase(), value]))
  return new Option(flags, description).argParser((text: string) =>
    text.split(',').map((part) => {
      const value = byLowerCase.get(part.trim().toLowerCase())
      if (value !== undefined) return value
      throw new UsageError(`${name}: there is no ${JSON.stringify(part)}. The values are: ` +
        `${allowed.join(', ')}.`)
    }))
}
type McpFlags = CommonFlags & { readonly maxSpend: number, readonly folder: string }

const DEFAULT_LIMIT_MICROS = 1_000_000

const MCP_HELP = `
Hosts start this command and talk to it on its standard input and output. The session ends with
the host. Each job is quoted first, and its maximum price counts until it ends; then its charge
does. A job that could exceed the limit is refused with an error that the agent can read.

Example of a host's configuration:
  "command": "verification-jobs", "args": ["mcp", "--max-spend", "5.00"],
  "env": { "VERIFICATION_JOBS_URL": "https://...", "VERIFICATION_JOBS_KEY": "vj_live_..." }`

/** Adds `mcp`. Loads the protocol only when the command runs. */
function addMcp (program: Command, context: CliContext): void {
  program.command('mcp')
    .description('serve the tools of an AI agent (Model Context Protocol)')
    .addOption(new Option('--max-spend <dollars>', 'spending limit of the session in USD')
      .argParser(parseDollars).default(DEFAULT_LIMIT_MICROS, money(DEFAULT_LIMIT_MICROS)))
    .option('--folder <folder>', 'verify only files below this folder', '.')
    .addHelpText('after', MCP_HELP)
    .action(async (_: unknown, command: Command) => {
      const flags = command.optsWithGlobals<McpFlags>()
      const { say } = createConsole(context, { quiet: false })
      const connection = openConnection(flags, context, say)
      const stop = new Promise<void>(resolve => { context.onInterrupt(resolve) })
      const { createSpending, serveMcp } = await import('./mcp.ts')
      // In a clone and where the package is installed.
      const manifest = new URL('../../package.json', import.meta.url)
      const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { readonly version: string }
      say(`Serving MCP; this session may spend ${money(flags.maxSpend)}.`)
      await serveMcp({
        client: createClient({ ...connection, ...context.clientOptions }),
        spending: createSpending(flags.maxSpend),
        account: connection.account,
        folder: flags.folder,
        say,
        pollEveryMs: context.pollEveryMs,
        version,
      }, { input: context.input as Readable, output: context.output as Writable }, stop)
    })
}

const MAX_DOLLARS = 1_000_000

/** Parses dollars such as `5` or `2.50` to micros. Throws UsageError with the valid form. */
function parseDollars (text: string): number {
  const [, dollars = '', fraction = ''] = /^(\d{1,7})(?:\.(\d{1,6}))?$/.exec(text) ?? []
  if (dollars === '' || Number(dollars) > MAX_DOLLARS) {
    throw new UsageError(`--max-spend ${text} is no amount of USD. Use a number like 5 or 2.50, ` +
      `at most ${MAX_DOLLARS}.`)
  }
  return Number(dollars) * 1_000_000 + Number(fraction.padEnd(6, '0'))
}
