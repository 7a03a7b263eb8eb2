import { Command, Option } from 'commander'
import { SERVICE_SLUGS } from '../../../schemas/api/parts.ts'
import { FeedSealError, parsePartnerKey } from '../../../schemas/feeds/seal.ts'
import { createClient } from '../../client/client.ts'
import { checkLocal, resolveConnection, readLocalStack } from '../../client/connection.ts'
import {
  CommandError, type Confirm, count, createConfirm, createProgressLine, money,
} from '../../client/terminal.ts'
import { kafkaKeys, registryKeys } from '../../runtime/platform/config.ts'
import { type FeedOptions, openFeed, readFeedSettings } from './connection.ts'
import {
  type ContactFileFacts, inspectContactFile, openContactFile, openResultFile, type SendProgress,
  sendContacts, type SendSummary,
} from './send.ts'

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
  readonly yes?: true
  readonly data: string
}

const HELP = `
The first line of a CSV file contains column names. The default field of the contacts is input,
phone, email or contact. The fields reference (or id) and countryCode are used if they exist;
without references the command numbers the rows. Each result is written once, as it arrives. With
--output the topics have numbers of the command in place of the references, which the file gets.

The command shows the number of contacts and their price, and asks for confirmation before it sends
anything; --yes confirms it, and is required without a terminal. The price of a contact comes from
the REST API (VERIFICATION_JOBS_URL and VERIFICATION_JOBS_KEY, or the local stack). A partner may
have agreed on prices of its own: "npm run admin -- partner list".

After "partner rotate" set both keys, FEED_KEY="new,old", until the old one has expired: the first
key seals contacts, and every key opens results.

Environment: FEED_PARTNER, FEED_KEY, KAFKA_BROKERS, SCHEMA_REGISTRY_URL, TOPIC_PREFIX (what the
topics begin with, if they do not begin with "feeds."), and the settings KAFKA_* of the services for
TLS and signing in. Without any address, key and password the command uses <data>/stack.json of
"npm run up" with its demonstration partner.`

/** Creates the command line for bulk feeds. */
export function createFeedProgram (
  env: Env = process.env, terminal: Terminal = openTerminal()
): Command {
  const program = new Command('feed').description('Sends contacts through a bulk feed.')
  program.command('send <file>').description('seal and send a file, and collect the results')
    .addOption(new Option('--service <slug>', 'the service')
      .choices(SERVICE_SLUGS).makeOptionMandatory())
    .option('--partner <name>', 'name of the partner')
    .option('--key <keys>', 'key of the partner, or "new,old"; prefer FEED_KEY')
    .option('--column <name>', 'field of the contacts')
    .option('--reference <name>', 'field of the references')
    .option('--country <code>', 'ISO 3166 country of numbers in national form', '')
    .option('--force-fresh', 'bypass the cache')
    .option('-o, --output <file>', 'result file, .csv or .ndjson')
    .option('--silence <seconds>', 'fail after this time without any result', '120')
    .option('-y, --yes', 'confirm the price')
    .option('--data <folder>', 'folder of the local stack', '.local')
    .addHelpText('after', HELP)
    .action(async (file: string, flags: SendFlags) => {
      const { sent, results, byStatus } = await sendFile(file, flags, { env, ...terminal })
      const counts = Object.entries(byStatus).map(([status, number]) => `${number} ${status}`)
      console.log(`${sent} contacts sent, ${results} results: ${counts.join(', ') || 'none'}`)
      if (flags.output !== undefined) console.log(`results: ${flags.output}`)
    })
  return program
}

/** How the command talks to its user, and asks for a price; tests replace it. */
export type Terminal = {
  readonly say: (line: string) => void
  readonly confirm: Confirm
  /** The price of a contact by the price list, in micros; undefined if it is not available. */
  readonly readPrice: (
    service: string, flags: Pick<SendFlags, 'data'>, env: Env,
  ) => Promise<number | undefined>
}

function openTerminal (): Terminal {
  return {
    say: line => process.stderr.write(`${line}\n`),
    confirm: createConfirm({ input: process.stdin, output: process.stderr }),
    readPrice: async (service, flags, env) => {
      try {
        const services = await createClient(resolveConnection(flags, env)).services()
        return services.find(({ slug }) => slug === service)?.priceMicros
      } catch {
        // The feed itself needs no REST API.
        return undefined
      }
    },
  }
}

/** A timer of Node is over at once if it is longer. */
const MAX_SILENCE_SECONDS = 2_147_483

async function sendFile (
  file: string, flags: SendFlags, terminal: Terminal & { readonly env: Env }
): Promise<SendSummary> {
  const silenceMs = Number(flags.silence) * 1_000
  if (!(silenceMs > 0 && silenceMs <= 1_000 * MAX_SILENCE_SECONDS)) {
    throw new CommandError(`--silence ${flags.silence} is not a number of seconds above 0 and ` +
      `at most ${MAX_SILENCE_SECONDS}.`)
  }
  const options = { file, column: flags.column, referenceColumn: flags.reference }
  const feedConnection = feedOptions(flags, terminal.env)
  const facts = await inspectContactFile(options)
  await confirmPrice(facts, flags, terminal)
  const source = openContactFile(options)
  const output = openResultFile(flags.output)
  const feed = await openFeed(feedConnection)
  const line = createProgressLine(process.stderr, { textOf: progressText })
  try {
    return await sendContacts({ feed, source, output }, {
      service: flags.service,
      countryCode: flags.country,
      forceFresh: flags.forceFresh === true,
      silenceMs,
      confirmed: facts.contacts,
      sendsReferences: flags.output === undefined,
      onProgress: line.show,
    })
  } finally {
    line.end()
    await feed.close()
  }
}

/** Shows rows and price, and asks. Throws CommandError unless the user confirms. */
async function confirmPrice (
  facts: ContactFileFacts, { service, yes, ...flags }: SendFlags,
  { env, say, confirm, readPrice }: Terminal & { readonly env: Env }
): Promise<void> {
  const { contacts, input, reference } = facts
  const references = reference === undefined
    ? 'the rows are numbered'
    : `references from column ${reference}`
  say(`${count(contacts)} contacts from column ${input}, ${references}.`)
  const unit = await readPrice(service, flags, env)
  const price = unit === undefined
    ? 'the price of its contract'
    : `${money(unit * contacts)} by the price list`
  say(unit === undefined
    ? `Price of ${service}: as agreed with the partner; no price list is available here.`
    : `Price of ${service}: ${money(unit)} a contact by the price list, ` +
      `${money(unit * contacts)} for all. If the partner has agreed on another price, that one ` +
      'applies.')
  if (yes === true) return
  const what = `Sending ${count(contacts)} contacts for ${price}`
  if (confirm === undefined) {
    throw new CommandError(`${what} needs confirmation, and there is no terminal to ask at. Add ` +
      '--yes to confirm.')
  }
  if (!await confirm(`${what}? [y/N] `)) {
    throw new CommandError('You declined. Nothing was sent.')
  }
}

/** Settings by which a client signs in. */
const SECRETS = ['FEED_KEY', ...kafkaKeys, ...registryKeys]
  .filter(name => /^KAFKA_(SASL|OAUTH|AWS|TLS)_|_FILE$|^FEED_KEY$/.test(name))

/**
 * Resolves the connection of a feed: options first, then the environment. Without an address, a key
 * and a password, all come from the local stack, whose file may be anybody's.
 * Throws CommandError with the missing setting, and ConfigError as services do.
 */
function feedOptions (flags: SendFlags, env: Env): FeedOptions {
  const secrets = SECRETS.filter(name => (env[name] ?? '') !== '')
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
      'FEED_KEY=<key>. To create a partner: npm run admin -- partner create --org <id> ' +
      '--name <name>')
  }
  const keys = parseKeys(keyText)
  const settings = readFeedSettings({
    ...env, KAFKA_BROKERS: brokers, SCHEMA_REGISTRY_URL: registryUrl,
  })
  return { settings, partner, keys }
}

type LocalFeed = {
  /** The demonstration partner. */
  readonly feed: { readonly partner?: string, readonly key?: string }
  readonly brokers?: string
  readonly registryUrl?: string
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
    return [parsePartnerKey(sealing), ...others.map(parsePartnerKey)]
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
function progressText ({ sent, results, fileRead }: SendProgress, seconds: number): string {
  const rate = (number: number) => count(number / Math.max(seconds, 0.001))
  const text = `sent ${count(sent)} (${rate(sent)}/s), ` +
    `results ${count(results)} (${rate(results)}/s)`
  if (results < MIN_RESULTS_FOR_ESTIMATE || fileRead === 0) return text
  const remaining = (sent / fileRead - results) / (results / Math.max(seconds, 0.001))
  return `${text}, about ${count(Math.max(0, remaining))} s left`
}
