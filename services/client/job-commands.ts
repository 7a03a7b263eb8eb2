import { createWriteStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { Option, type Command } from 'commander'
import { count, money } from './amounts.ts'
import { createClient, type Client, type JobStatusResource } from './client.ts'
import { createConsole, type Console } from './console.ts'
import { renameDurably } from './private-file.ts'
import { openConnection, type CommonFlags, type Surroundings } from './surroundings.ts'

type Tools = { readonly client: Client, readonly screen: Console, readonly flags: CommonFlags }
type ResultFlags = CommonFlags & { readonly output?: string, readonly safe?: 'spreadsheet' }

/** Adds the commands that are one call of the client each. */
export function addJobCommands (program: Command, surroundings: Surroundings): void {
  const withTools = <T extends CommonFlags>(action: (tools: Tools & { flags: T }, id: string) =>
  Promise<void>) => async (...words: readonly unknown[]) => {
      const flags = (words.at(-1) as Command).optsWithGlobals<T>()
      const screen = createConsole(surroundings, { quiet: flags.json === true })
      const connection = openConnection(flags, surroundings, screen.say)
      const client = createClient({ ...connection, ...surroundings.clientOptions })
      await action({ client, screen, flags }, String(words[0]))
    }
  program.command('status <job>').description('how far a job is')
    .addHelpText('after', exampleOf('status job_01jd3v8zj7m5n2k4q6r8s0t1w3'))
    .action(withTools(async (tools, id) => show(tools, await tools.client.job(id), jobText)))
  program.command('cancel <job>').description('end a job early; what was not checked is free')
    .addHelpText('after', exampleOf('cancel job_01jd3v8zj7m5n2k4q6r8s0t1w3'))
    .action(withTools(async (tools, id) => show(tools, await tools.client.cancel(id), jobText)))
  program.command('results <job>').description('the result file of a job as CSV')
    .option('-o, --output <file>', 'where to write it; to the terminal without')
    .addOption(new Option('--safe <for>', 'guard cells that would run as formulas')
      .choices(['spreadsheet']))
    .addHelpText('after', exampleOf('results job_01jd3v8zj7m5n2k4q6r8s0t1w3 -o results.csv'))
    .action(withTools<ResultFlags>(async ({ client, screen, flags }, id) => {
      const { output, safe } = flags
      const pieces = await client.resultsFile(id, safe === undefined ? {} : { safe })
      await writeResults(pieces, output, surroundings)
      if (flags.json === true && output !== undefined) screen.print(JSON.stringify({ id, output }))
    }))
  program.command('balance').description('what can be spent')
    .addHelpText('after', exampleOf('balance --json'))
    .action(withTools(async tools => show(tools, await tools.client.balance(), balanceText)))
  program.command('services').description('what can be verified, and the price of a row')
    .addHelpText('after', exampleOf('services'))
    .action(withTools(async tools => show(tools, await tools.client.services(), servicesText)))
}

const exampleOf = (words: string) => `\nExample:\n  verification-jobs ${words}`

function show<T> (
  { screen, flags }: Pick<Tools, 'screen' | 'flags'>, value: T, textOf: (value: T) => string
): void {
  screen.print(flags.json === true ? JSON.stringify(value) : textOf(value))
}

/** A file stands under its name only when it is whole. */
async function writeResults (
  pieces: AsyncIterable<Uint8Array>, output: string | undefined, { output: terminal }: Surroundings
): Promise<void> {
  if (output === undefined) return await pipeline(pieces, terminal, { end: false })
  await pipeline(pieces, createWriteStream(`${output}.part`))
  renameDurably(`${output}.part`, output)
}

/** A job in a few lines. */
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
    `together  ${money(balance.balanceMicros)}`
}

function servicesText (services: Awaited<ReturnType<Client['services']>>): string {
  return services.map(({ slug, inputKind, priceMicros, configured }) =>
    `${slug.padEnd(18)} ${inputKind.padEnd(6)} ${money(priceMicros).padStart(10)} a row` +
    (configured ? '' : '  (not for this key)')).join('\n')
}
