import { Command, Option } from 'commander'
import { API_SERVICES } from '../../schemas/api/service.ts'
import { FeedSealError, partnerKeyOf } from '../../schemas/feeds/seal.ts'
import { CommandError, count, createProgressLine } from './terminal.ts'
import { checkLocal, readLocalStack } from './connection.ts'
import { type FeedOptions, kafkaSecurity, openFeed } from './feed-connection.ts'
import { openContactFile, openResultFile } from './feed-files.ts'
import { type Progress, sendContacts, type Summary } from './feed-send.ts'

type Env = Readonly<Record<string, string | undefined>>
type SendFlags = {
  readonly service: string
  readonly partner?: string
  readonly key?: string
  readonly column?: string
  readonly reference?: string
  readonly country: string
  readonly forceFresh?: true
  readonly output?: string
  readonly silence: string
  readonly data: string
}

const HELP = `
The first line of a CSV file contains column names. The default field of the contacts is input,
phone, email or contact. The fields reference (or id) and countryCode are used if they exist;
without references the command numbers the rows. Each result is written once, as it arrives.

After "partner rotate" set both keys, FEED_KEY="new,old", until the old one has expired: the first
key seals contacts, and every key opens results.

Environment: FEED_PARTNER, FEED_KEY, KAFKA_BROKERS, KAFKA_TLS, KAFKA_SASL_MECHANISM,
KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD, SCHEMA_REGISTRY_URL. Without any address, key and
password the command uses <data>/stack.json of "npm run up" with its demonstration partner.`

/** Creates the command line for bulk feeds. */
export function createFeedProgram (env: Env = process.env): Command {
  const program = new Command('feed').description('Sends contacts through a bulk feed.')
  program.command('send <file>').description('seal and send a file, and collect the results')
    .addOption(new Option('--service <slug>', 'the service')
      .choices(API_SERVICES).makeOptionMandatory())
    .option('--partner <name>', 'name of the partner')
    .option('--key <keys>', 'key of the partner, or "new,old"; prefer FEED_KEY')
    .option('--column <name>', 'field of the contacts')
    .option('--reference <name>', 'field of the references')
    .option('--country <code>', 'ISO 3166 country of numbers in national form', '')
    .option('--force-fresh', 'bypass the cache')
    .option('-o, --output <file>', 'result file, .csv or .ndjson')
    .option('--silence <seconds>', 'fail after this time without any result', '120')
    .option('--data <folder>', 'folder of the local stack', '.local')
    .addHelpText('after', HELP)
    .action(async (file: string, flags: SendFlags) => {
      printSummary(await sendFile(file, flags, env), flags.output)
    })
  return program
}

async function sendFile (file: string, flags: SendFlags, env: Env): Promise<Summary> {
  const silenceMs = Number(flags.silence) * 1_000
  if (!(silenceMs > 0)) {
    throw new CommandError(`--silence ${flags.silence} is not a number of seconds above 0.`)
  }
  const source = openContactFile({
    file, column: flags.column, referenceColumn: flags.reference,
  })
  const output = openResultFile(flags.output)
  const feed = await openFeed(feedOptions(flags, env))
  const line = createProgressLine(process.stderr, { textOf: progressText })
  try {
    return await sendContacts({ feed, source, output }, {
      service: flags.service,
      countryCode: flags.country,
      forceFresh: flags.forceFresh === true,
      silenceMs,
      onProgress: line.show,
    })
  } finally {
    line.end()
    await feed.close()
  }
}

/**
 * Resolves the connection of a feed: options first, then the environment. Without an address, a key
 * and a password, all come from the local stack, whose file may be anybody's.
 * Throws CommandError with the missing setting.
 */
export function feedOptions (
  flags: Pick<SendFlags, 'partner' | 'key' | 'data'>, env: Env
): FeedOptions {
  const secrets = ['FEED_KEY', 'KAFKA_SASL_USERNAME', 'KAFKA_SASL_PASSWORD']
    .filter(name => (env[name] ?? '') !== '')
  if (flags.key !== undefined) secrets.push('--key')
  const isLocal = secrets.length === 0 && !env['KAFKA_BROKERS'] && !env['SCHEMA_REGISTRY_URL']
  const { feed, brokers, registryUrl } = isLocal
    ? readLocalFeed(flags.data)
    : { feed: {}, brokers: env['KAFKA_BROKERS'], registryUrl: env['SCHEMA_REGISTRY_URL'] }
  const partner = flags.partner ?? (env['FEED_PARTNER'] || feed.partner)
  const keyText = flags.key ?? (env['FEED_KEY'] ||
    (feed.partner === partner ? feed.key : undefined))
  if (!brokers || !registryUrl) {
    const reason = secrets.length === 0
      ? ''
      : `, which the use of ${secrets.join(' and ')} needs: ${flags.data}/stack.json is used ` +
        'only with its own partner'
    throw new CommandError(`KAFKA_BROKERS or SCHEMA_REGISTRY_URL is missing${reason}. Set both, ` +
      'or start a local stack: "npm run up".')
  }
  if (partner === undefined || keyText === undefined) {
    throw new CommandError('The partner or its key is missing. Set --partner <name> and ' +
      'FEED_KEY=<key>. To create a partner: npm run workspace -- partner create --org <id> ' +
      '--name <name>')
  }
  const keys = parseKeys(keyText)
  return { brokers: brokers.split(','), ...kafkaSecurity(env), registryUrl, partner, keys }
}

type LocalFeed = {
  /** The demonstration partner. */
  readonly feed: { readonly partner?: string, readonly key?: string }
  readonly brokers?: string | undefined
  readonly registryUrl?: string | undefined
}

/** The feed of a local stack; without addresses if none runs. */
function readLocalFeed (folder: string): LocalFeed {
  const { feed = {}, kafkaBrokers, schemaRegistryUrl } = readLocalStack(folder)
  if (typeof kafkaBrokers !== 'string' || typeof schemaRegistryUrl !== 'string') return { feed: {} }
  for (const broker of kafkaBrokers.split(',')) checkLocal(folder, parseUrl(`kafka://${broker}`))
  checkLocal(folder, parseUrl(schemaRegistryUrl))
  return { feed: feed as LocalFeed['feed'], brokers: kafkaBrokers, registryUrl: schemaRegistryUrl }
}

function parseUrl (text: string): URL {
  if (URL.canParse(text)) return new URL(text)
  throw new CommandError('The stack file has an address that is not valid. Run "npm run up" to ' +
    'write it again.')
}

function parseKeys (text: string): FeedOptions['keys'] {
  const [sealing = '', ...others] = text.split(',').map(key => key.trim())
  try {
    return [partnerKeyOf(sealing), ...others.map(partnerKeyOf)]
  } catch (error) {
    if (!(error instanceof FeedSealError)) throw error
    throw new CommandError(
      `FEED_KEY is invalid: ${error.message} Use one key, or several as "new,old".`,
      { cause: error })
  }
}

/** With fewer results an estimate of the remaining time is meaningless. */
const MIN_RESULTS_FOR_ESTIMATE = 100

/** Formats counts, rates a second and the estimated remaining time. */
export function progressText ({ sent, results, fileRead }: Progress, seconds: number): string {
  const rate = (number: number) => count(number / Math.max(seconds, 0.001))
  const text = `sent ${count(sent)} (${rate(sent)}/s), ` +
    `results ${count(results)} (${rate(results)}/s)`
  if (results < MIN_RESULTS_FOR_ESTIMATE || fileRead === 0) return text
  const remaining = (sent / fileRead - results) / (results / Math.max(seconds, 0.001))
  return `${text}, about ${count(Math.max(0, remaining))} s left`
}

function printSummary ({ sent, results, byStatus }: Summary, output: string | undefined): void {
  const counts = Object.entries(byStatus).map(([status, number]) => `${number} ${status}`)
  console.log(`${sent} contacts sent, ${results} results: ${counts.join(', ') || 'none'}`)
  if (output !== undefined) console.log(`results: ${output}`)
}
