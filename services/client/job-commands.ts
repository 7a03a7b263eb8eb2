import { createWriteStream } from 'node:fs'
import { basename, dirname } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { type Command, Option } from 'commander'
import {
  type Client, createClient, type JobRequest, type JobStatusResource, type RowSelection,
  type Verified,
} from './client.ts'
import { type CliContext, type CommonFlags, openConnection } from './connection.ts'
import { OutputFolder } from './files.ts'
import { type Console, count, createConsole, money, UsageError } from './terminal.ts'
import { API_SERVICES } from '../../schemas/api/service.ts'
import { COUNTRY_CODES } from '../../schemas/api/country.ts'
import { ROW_FIELDS } from '../../schemas/api/columns.ts'
import { LINE_TYPES, REASONS, ROW_SOURCES, ROW_STATUSES } from '../../schemas/api/verdicts.ts'

type Deps = { readonly client: Client, readonly screen: Console, readonly flags: CommonFlags }
type ResultFlags = CommonFlags & SelectionFlags &
  { readonly output?: string, readonly safe?: 'spreadsheet' }

type EraseFlags = CommonFlags & { readonly cache?: true }
type UsageFlags = CommonFlags &
  { readonly from?: string, readonly to?: string, readonly groupBy: string }
type LimitFlags = CommonFlags & { readonly limit: number }

const TRANSACTIONS = 20
const EXAMPLE_JOB = 'job_01jd3v8zj7m5n2k4q6r8s0t1w3'

type Action<T> = (deps: Deps & { flags: T }, id: string) => Promise<void>

/** Adds the commands that make one API request each. */
export function addJobCommands (program: Command, context: CliContext): void {
  const withDeps = <T extends CommonFlags>(action: Action<T>) =>
    async (...words: readonly unknown[]) => {
      const flags = (words.at(-1) as Command).optsWithGlobals<T>()
      const screen = createConsole(context, { quiet: flags.json === true })
      const connection = openConnection(flags, context, screen.say)
      const client = createClient({ ...connection, ...context.clientOptions })
      await action({ client, screen, flags }, String(words[0]))
    }
  program.command('status <job>').description('show the progress of a job')
    .addHelpText('after', exampleText(`status ${EXAMPLE_JOB}`))
    .action(withDeps(async (deps, id) => print(deps, await deps.client.job(id), jobText)))
  program.command('cancel <job>').description('cancel a job; unchecked rows are free')
    .addHelpText('after', exampleText(`cancel ${EXAMPLE_JOB}`))
    .action(withDeps(async (deps, id) => print(deps, await deps.client.cancel(id), jobText)))
  program.command('erase <job>').description('erase a job that has ended, for ever')
    .option('--cache', 'also delete the cached verdicts of its contacts')
    .addHelpText('after', exampleText(`erase ${EXAMPLE_JOB} --cache`))
    .action(withDeps<EraseFlags>(async (deps, id) => {
      const job = await deps.client.eraseJob(id, { cache: deps.flags.cache === true })
      print(deps, job, ({ erasedAt }) => `${id}  erased at ${erasedAt}`)
    }))
  addSelectionOptions(program.command('results <job>'))
    .description('download the results of a job as CSV, or some of their rows and columns')
    .option('-o, --output <file>', 'output file; the terminal by default')
    .addOption(new Option('--safe <for>', 'escape cells that a spreadsheet would run as formulas')
      .choices(['spreadsheet']))
    .addHelpText('after', exampleText(`results ${EXAMPLE_JOB} -o results.csv`) +
      `\n  verification-jobs results ${EXAMPLE_JOB} --status valid --drop-duplicates -o clean.csv`)
    .action(withDeps<ResultFlags>(async ({ client, screen, flags }, id) => {
      const { output, safe } = flags
      const options = { ...toSelection(flags), ...safe !== undefined && { safe } }
      const bytes = await client.resultsFile(id, options)
      await writeResults(bytes, output, context)
      if (flags.json === true && output !== undefined) screen.print(JSON.stringify({ id, output }))
    }))
  program.command('balance').description('show the available balance')
    .addHelpText('after', exampleText('balance --json'))
    .action(withDeps(async deps => print(deps, await deps.client.balance(), balanceText)))
  program.command('usage').description('show jobs, rows and money by day, service or key')
    .option('--from <time>', 'first day or time; 30 days ago by default')
    .option('--to <time>', 'last day, or time; now by default')
    .option('--group-by <names>', 'day, service, key or several of them', 'day')
    .addHelpText('after', exampleText('usage --from 2026-08-01 --group-by day,service'))
    .action(withDeps<UsageFlags>(async ({ client, screen, flags }) => {
      const query = { from: flags.from, to: flags.to, group_by: flags.groupBy }
      screen.print(flags.json === true
        ? JSON.stringify(await client.usage(query))
        : (await client.usageFile(query)).trimEnd())
    }))
  program.command('transactions').description('show the last movements of the balance')
    .option('--limit <number>', 'number of movements, at most 100', Number, TRANSACTIONS)
    .addHelpText('after', exampleText('transactions --limit 5'))
    .action(withDeps<LimitFlags>(async deps =>
      print(deps, await deps.client.transactionsPage({ limit: deps.flags.limit }), movementsText)))
  program.command('services').description('list the services and the price of a row')
    .addHelpText('after', exampleText('services'))
    .action(withDeps(async deps => print(deps, await deps.client.services(), servicesText)))
}

const exampleText = (words: string) => `\nExample:\n  verification-jobs ${words}`

function print<T> (
  { screen, flags }: Pick<Deps, 'screen' | 'flags'>, value: T, textOf: (value: T) => string
): void {
  screen.print(flags.json === true ? JSON.stringify(value) : textOf(value))
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

/** Formats a job in three lines: status, rows, price. */
export function jobText (job: JobStatusResource): string {
  const { id, status, service, totalRows, successRecords, failedRecords } = job
  const price = job.completedAt === null
    ? `at most ${money(job.maxQuoteMicros)}`
    : `paid ${money(job.chargedMicros)}, released ${money(job.releasedMicros)}`
  return `${id}  ${status}, ${job.progressPercent} %\n` +
    `${service}, ${count(totalRows)} rows: ${count(successRecords)} with a verdict, ` +
    `${count(failedRecords)} without\n${price}`
}

function balanceText (balance: Awaited<ReturnType<Client['balance']>>): string {
  return `available ${money(balance.availableMicros)}\n` +
    `reserved  ${money(balance.reservedMicros)}\n` +
    `total     ${money(balance.balanceMicros)}`
}

function movementsText ({ data }: Awaited<ReturnType<Client['transactionsPage']>>): string {
  return data.map(({ createdAt, type, amountMicros, availableMicros, jobId }) =>
    `${createdAt} ${type.padEnd(8)} ${money(amountMicros).padStart(14)}  available ` +
    `${money(availableMicros).padStart(14)}  ${jobId ?? ''}`.trimEnd()).join('\n')
}

function servicesText (services: Awaited<ReturnType<Client['services']>>): string {
  return services.map(({ slug, inputKind, priceMicros, configured }) =>
    `${slug.padEnd(18)} ${inputKind.padEnd(6)} ${money(priceMicros).padStart(10)} a row` +
    (configured ? '' : '  (not for this key)')).join('\n')
}

type VerifyFlags = CommonFlags & {
  readonly service?: string
  readonly country?: string
  readonly forceFresh?: true
}

const HELP = `
At most 100 contacts; "submit" verifies files of any length. The price is at most that of a row
times the number of contacts ("services" lists prices), and the command prints what was paid.

Examples:
  verification-jobs verify +12127365000
  verification-jobs verify jane@example.com info@example.com --json
  verification-jobs verify "(212) 736-5000" --country US --service carrier-lookup`

/** Adds `verify` to the program. */
export function addVerify (program: Command, context: CliContext): void {
  program.command('verify <contacts...>')
    .description('verify a few contacts and show the results')
    .addOption(new Option('--service <slug>', 'the service; by default email-validation for ' +
      'contacts with an @, and phone-validation for others').choices(API_SERVICES))
    .option('--country <code>', 'ISO 3166 country of numbers in national form')
    .option('--force-fresh', 'bypass the cache')
    .addHelpText('after', HELP)
    .action(async (contacts: readonly string[], _: unknown, command: Command) => {
      const flags = command.optsWithGlobals<VerifyFlags>()
      const screen = createConsole(context, { quiet: flags.json === true })
      const connection = openConnection(flags, context, screen.say)
      const client = createClient({ ...connection, ...context.clientOptions })
      const verified = await client.verify(toRequest(contacts, flags))
      screen.print(flags.json === true ? JSON.stringify(verified) : verifiedText(verified))
    })
}

function toRequest (
  contacts: readonly string[], { service, country, forceFresh }: VerifyFlags
): JobRequest {
  const isEmail = contacts.every(contact => contact.includes('@'))
  return {
    service: service ?? (isEmail ? 'email-validation' : 'phone-validation'),
    inputs: contacts,
    forceFresh: forceFresh === true,
    ...country !== undefined && { countryCode: country },
  }
}

/** Formats one line for each contact, then the price. */
export function verifiedText ({ results, chargedMicros, id }: Verified): string {
  const width = Math.max(...results.map(({ input }) => String(input).length))
  const lines = results.map(({ input, status, reason }) =>
    `${String(input).padEnd(width)}  ${status}${reason === null ? '' : `  ${reason}`}`)
  return [...lines, `${id}: paid ${money(chargedMicros)}`].join('\n')
}

/** The flags that select rows; the lists are parsed. */
type SelectionFlags = {
  readonly status?: RowSelection['status']
  readonly reason?: RowSelection['reason']
  readonly source?: RowSelection['source']
  readonly lineType?: RowSelection['line_type']
  readonly country?: RowSelection['country']
  readonly columns?: RowSelection['columns']
  readonly dropDuplicates?: true
}

/** The options for rows that every list of contacts can be cleaned by. */
export function addCleaningOptions (command: Command): Command {
  return command
    .addOption(listOption('--status <list>', 'only rows with these verdicts, separated by commas',
      ROW_STATUSES))
    .option('--drop-duplicates', 'leave out rows that repeat another row of their job')
}

/** The options for every parameter of the results that selects rows or columns. */
export function addSelectionOptions (command: Command): Command {
  return addCleaningOptions(command)
    .addOption(listOption('--reason <list>', 'only rows with these reasons', REASONS))
    .addOption(listOption('--source <list>', 'only rows from these sources', ROW_SOURCES))
    .addOption(listOption('--line-type <list>', 'only rows of these line types', LINE_TYPES))
    .addOption(listOption('--country <list>', 'only rows of these ISO 3166 countries',
      COUNTRY_CODES))
    .addOption(listOption('--columns <list>', 'only these columns, in this order', ROW_FIELDS))
}

/** The selection of a request, without what was not given. */
export function toSelection (flags: SelectionFlags): RowSelection {
  const { status, reason, source, lineType, country, columns, dropDuplicates } = flags
  return {
    ...status !== undefined && { status },
    ...reason !== undefined && { reason },
    ...source !== undefined && { source },
    ...lineType !== undefined && { line_type: lineType },
    ...country !== undefined && { country },
    ...columns !== undefined && { columns },
    ...dropDuplicates === true && { duplicates: 'drop' },
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
