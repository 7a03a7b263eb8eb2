import { Option, type Command } from 'commander'
import { API_SERVICES } from '../../schemas/api/service.ts'
import { createClient, type JobRequest, type Verified } from './client.ts'
import { openConnection, type CliContext, type CommonFlags } from './connection.ts'
import { createConsole, money } from './terminal.ts'

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
      const verified = await client.verify(requestOf(contacts, flags))
      screen.print(flags.json === true ? JSON.stringify(verified) : verifiedText(verified))
    })
}

function requestOf (
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
