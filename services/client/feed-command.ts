import { Command, Option } from 'commander'
import { API_SERVICES } from '../../schemas/api/service.ts'
import { FeedSealError, partnerKeyOf } from '../../schemas/feeds/seal.ts'
import { openContactFile } from './feed-file.ts'
import { openResultFile } from './feed-output.ts'
import { progressText } from './feed-progress.ts'
import { feedSecurity } from './feed-security.ts'
import { sendContacts, type Summary } from './feed-send.ts'
import { FeedError, openFeed, type FeedOptions } from './feed-topics.ts'
import { readLocalStack } from './local-stack.ts'
import { createProgressLine } from './progress-line.ts'

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
A CSV file has a header line. Without --column the field input, phone, email or contact is taken.
Fields reference (or id) and countryCode are used when they are there; without references rows are
numbered. Results are written as they come, each once, in no order.

After "partner rotate" give both keys, FEED_KEY="new,old", until the old one has expired: contacts
are sealed by the first one, and results opened by the one that sealed them.

Environment: FEED_PARTNER, FEED_KEY, KAFKA_BROKERS, KAFKA_TLS, KAFKA_SASL_MECHANISM,
KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD, SCHEMA_REGISTRY_URL. What is not set comes from
<data>/stack.json of "npm run up", whose demonstration partner needs neither name nor key.`

/** The command line of bulk feeds. */
export function createFeedProgram (env: Env = process.env): Command {
  const program = new Command('feed').description('Bulk feeds: contacts in, results out.')
  program.command('send <file>').description('seal and stream a file in, and collect the results')
    .addOption(new Option('--service <slug>', 'which service')
      .choices(API_SERVICES).makeOptionMandatory())
    .option('--partner <name>', 'whose feed')
    .option('--key <keys>', 'the key of the partner, or "new,old"; better given as FEED_KEY')
    .option('--column <name>', 'field that holds the contacts')
    .option('--reference <name>', 'field that names each contact')
    .option('--country <code>', 'ISO 3166 country of numbers in national form', '')
    .option('--force-fresh', 'bypass the cache')
    .option('-o, --output <file>', 'results, .csv or .ndjson')
    .option('--silence <seconds>', 'give up after so long without any result', '120')
    .option('--data <folder>', 'folder that was given to "up"', '.local')
    .addHelpText('after', HELP)
    .action(async (file: string, flags: SendFlags) => {
      showSummary(await sendFile(file, flags, env), flags.output)
    })
  return program
}

async function sendFile (file: string, flags: SendFlags, env: Env): Promise<Summary> {
  const silenceMs = Number(flags.silence) * 1_000
  if (!(silenceMs > 0)) throw new FeedError('--silence is a number of seconds above 0.')
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

/** Options win over the environment, and that over the local stack. */
export function feedOptions (
  flags: Pick<SendFlags, 'partner' | 'key' | 'data'>, env: Env
): FeedOptions {
  const local = readLocalStack(flags.data)
  const demo = (local['feed'] ?? {}) as Env
  const partner = flags.partner ?? (env['FEED_PARTNER'] || demo['partner'])
  const keyText = flags.key ?? (env['FEED_KEY'] || keyOfDemo(demo, partner))
  const brokers = env['KAFKA_BROKERS'] || local['kafkaBrokers']
  const registryUrl = env['SCHEMA_REGISTRY_URL'] || local['schemaRegistryUrl']
  if (typeof brokers !== 'string' || typeof registryUrl !== 'string') {
    throw new FeedError('Set KAFKA_BROKERS and SCHEMA_REGISTRY_URL, or start a local stack, ' +
      'whose addresses are used then: "npm run up".')
  }
  if (partner === undefined || keyText === undefined) {
    throw new FeedError('Say whose feed it is: --partner <name> and FEED_KEY=<key>. ' +
      'A partner is made by: npm run workspace -- partner create --org <id> --name <name>')
  }
  const keys = keysOf(keyText)
  return { brokers: brokers.split(','), ...feedSecurity(env), registryUrl, partner, keys }
}

function keyOfDemo (demo: Env, partner: string | undefined): string | undefined {
  return demo['partner'] === partner ? demo['key'] : undefined
}

function keysOf (text: string): FeedOptions['keys'] {
  const [sealing = '', ...others] = text.split(',').map(part => part.trim())
  try {
    return [partnerKeyOf(sealing), ...others.map(partnerKeyOf)]
  } catch (error) {
    if (!(error instanceof FeedSealError)) throw error
    throw new FeedError(`FEED_KEY is one key, or several as "new,old". ${error.message}`,
      { cause: error })
  }
}

function showSummary ({ sent, results, byStatus }: Summary, output: string | undefined): void {
  const counts = Object.entries(byStatus).map(([status, count]) => `${count} ${status}`)
  console.log(`${sent} contacts sent, ${results} results: ${counts.join(', ') || 'none'}`)
  if (output !== undefined) console.log(`results: ${output}`)
}
