import { Option, type Command } from 'commander'
import { COUNTRY_CODES } from '../../schemas/api/country.ts'
import { MAX_INPUTS } from '../../schemas/api/create-job.ts'
import { API_SERVICES } from '../../schemas/api/service.ts'
import { count, counted, money } from './amounts.ts'
import { serviceFor } from './chosen-service.ts'
import { createClient } from './client.ts'
import { CommandError, InterruptedError, UsageError } from './command-error.ts'
import { createConsole } from './console.ts'
import { openConnection, type CommonFlags, type Surroundings } from './surroundings.ts'
import { interruptRun, submitFile, type SubmitSummary } from './submit.ts'
import type { SubmitSettings } from './submit-settings.ts'

type SubmitFlags = CommonFlags & {
  readonly service?: string
  readonly output?: string
  readonly column?: string
  readonly delimiter?: string
  readonly country?: string
  readonly forceFresh?: true
  readonly metadata: Readonly<Record<string, string>>
  readonly only?: string
  readonly safe?: 'spreadsheet'
  readonly rowsPerJob: number
  readonly parallel: number
  readonly restart?: true
  readonly yes?: true
  readonly quiet?: true
}

const HELP = `
The file is any CSV with a line of column names: comma, semicolon, tab or bar between the cells,
UTF-8 or Windows-1252. Its columns come out as they are, in their order, line by line, with the
verification columns behind them; of those that have the name of a column of the file, the names
begin with verified_.

The maximum price is shown and asked for before anything is paid. Ended early by Ctrl-C or a crash,
the same command goes on where it was; until then OUTPUT.progress.json and OUTPUT.part belong to it.

Examples:
  verification-jobs submit contacts.csv
  verification-jobs submit contacts.csv --service phone-validation --column phone -o verified.csv
  verification-jobs submit list.csv --service email-validation --only status,reason -o out.csv
  verification-jobs submit contacts.csv --service carrier-lookup --country DE --yes --quiet \\
    --safe spreadsheet -o for-excel.csv`

/** Adds `submit` to the program. */
export function addSubmit (program: Command, surroundings: Surroundings): Command {
  return program.command('submit <file>')
    .description('verify the contacts of a CSV file and write it anew with the results')
    .addOption(new Option('--service <slug>', 'what is verified; told by the contacts where ' +
      'they can only be phone numbers or only be e-mail addresses').choices(API_SERVICES))
    .option('-o, --output <file>', 'the CSV file to write; FILE.verified.csv beside the file ' +
      'when left out')
    .option('--column <name>', 'column that holds the contacts, by name or as #3; found by ' +
      'itself where only one can be meant')
    .option('--country <code>', 'ISO 3166 country of numbers in national form', countryOf)
    .option('--force-fresh', 'check everything live, known or not')
    .option('--metadata <key=value>', 'label of the jobs; may be repeated', addLabel, {})
    .option('--only <columns>', 'verification columns to write, apart by commas')
    .addOption(new Option('--safe <for>', 'guard cells that would run as formulas, those of the ' +
      'file included').choices(['spreadsheet']))
    .option('--delimiter <character>', 'what stands between cells; "tab" for a tab', delimiterOf)
    .option('--rows-per-job <number>', 'most rows of one job', numberUpTo(MAX_INPUTS), MAX_INPUTS)
    .option('--parallel <number>', 'most jobs under way at a time', numberUpTo(10), 4)
    .option('--restart', 'forget an unfinished run, replace the output, begin anew')
    .option('-y, --yes', 'agree to the maximum price')
    .option('-q, --quiet', 'say nothing but failures')
    .addHelpText('after', HELP)
    .action(async (file: string, _: unknown, command: Command) => {
      await submit(file, command.optsWithGlobals<SubmitFlags>(), surroundings)
    })
}

async function submit (
  file: string, flags: SubmitFlags, surroundings: Surroundings
): Promise<void> {
  const screen = createConsole(surroundings, { quiet: flags.quiet === true || flags.json === true })
  const connection = openConnection(flags, surroundings, screen.say)
  const service = flags.service ?? await serviceFor(file, flags)
  if (flags.service === undefined) screen.say(`Verified by ${service}; --service takes another.`)
  const output = flags.output ?? file.replace(/(\.csv)?$/i, '.verified.csv')
  const settings = settingsOf(file, { ...flags, service, output }, connection.account)
  let interrupt = () => interruptRun(settings)
  const interrupted = new Promise<never>((_resolve, reject) => {
    surroundings.onInterrupt(() => {
      screen.end()
      reject(new InterruptedError(interrupt()))
    })
  })
  const client = createClient({ ...connection, ...surroundings.clientOptions })
  const summary = await Promise.race([interrupted, submitFile(settings, {
    client,
    say: screen.say,
    progress: screen.progress,
    ask: flags.json === true ? undefined : screen.ask,
    pollEveryMs: surroundings.pollEveryMs,
    onRun: store => { interrupt = () => interruptRun(settings, store) },
  })]).finally(screen.end)
  if (flags.json === true) screen.print(JSON.stringify(summary))
  else if (flags.quiet !== true) screen.print(summaryText(summary))
  if (!summary.completed) throw new CommandError(unfinishedText(summary))
}

type Chosen = SubmitFlags & { readonly service: string, readonly output: string }

function settingsOf (
  input: string, flags: Chosen, account: SubmitSettings['account']
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
    forceFresh: flags.forceFresh === true,
    guarded: flags.safe === 'spreadsheet',
    rowsPerJob: flags.rowsPerJob,
    parallel: flags.parallel,
    restart: flags.restart === true,
    yes: flags.yes === true,
    account,
  }
}

function countryOf (code: string): string {
  if (COUNTRY_CODES.includes(code.toUpperCase())) return code.toUpperCase()
  throw new UsageError(`--country ${code}: give a two-letter code like US or DE.`)
}

function addLabel (
  text: string, labels: Readonly<Record<string, string>>
): Readonly<Record<string, string>> {
  const at = text.indexOf('=')
  if (at < 1) throw new UsageError(`--metadata ${text}: write it as key=value.`)
  return { ...labels, [text.slice(0, at)]: text.slice(at + 1) }
}

function delimiterOf (text: string): string {
  const delimiter = text === 'tab' ? '\t' : text
  if (/^[\x20\x21\x23-\x7e\t]$/.test(delimiter)) return delimiter
  throw new UsageError(`--delimiter ${text}: give one ASCII character other than a quote, or tab.`)
}

const numberUpTo = (most: number) => (text: string): number => {
  const number = Number(text)
  if (/^\d+$/.test(text) && number >= 1 && number <= most) return number
  throw new UsageError(`${text} is no whole number from 1 to ${most}.`)
}

/** What is shown at the end: rows by status, money and where the file is. */
export function summaryText (summary: SubmitSummary): string {
  const { rows, byStatus, chargedMicros, releasedMicros, output } = summary
  const statuses = Object.entries(byStatus).map(([status, number]) => `${count(number)} ${status}`)
  return `${counted(rows, 'row')}: ${statuses.join(', ')}\n` +
    `paid ${money(chargedMicros)}, released ${money(releasedMicros)}\n` +
    `written to ${output}`
}

function unfinishedText ({ jobs }: SubmitSummary): string {
  const others = jobs.filter(({ status }) => status !== 'completed')
  return `${others.map(({ id, status }) => `${id} is ${status}`).join('; ')}: rows that were not ` +
    'checked are unknown in the output, and free.'
}
