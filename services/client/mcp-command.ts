import { readFileSync } from 'node:fs'
import type { Readable, Writable } from 'node:stream'
import { type Command, Option } from 'commander'
import { createClient } from './client.ts'
import { openConnection, type CliContext, type CommonFlags } from './connection.ts'
import { createSpending, parseDollars } from './mcp-spending.ts'
import { createConsole, money } from './terminal.ts'

type McpFlags = CommonFlags & { readonly maxSpend: number, readonly folder: string }

const DEFAULT_LIMIT_MICROS = 1_000_000

const HELP = `
Hosts start this command and talk to it on its standard input and output. The session ends with
the host. Each job is quoted first, and its maximum price counts until it ends; then its charge
does. A job that could exceed the limit is refused with an error that the agent can read.

Example of a host's configuration:
  "command": "verification-jobs", "args": ["mcp", "--max-spend", "5.00"],
  "env": { "VERIFICATION_JOBS_URL": "https://...", "VERIFICATION_JOBS_KEY": "vj_live_..." }`

/** Adds `mcp` to the program. Loads the protocol only when the command runs. */
export function addMcp (program: Command, context: CliContext): void {
  program.command('mcp')
    .description('serve the tools of an AI agent (Model Context Protocol)')
    .addOption(new Option('--max-spend <dollars>', 'spending limit of the session in USD')
      .argParser(parseDollars).default(DEFAULT_LIMIT_MICROS, money(DEFAULT_LIMIT_MICROS)))
    .option('--folder <folder>', 'verify only files below this folder', '.')
    .addHelpText('after', HELP)
    .action(async (_: unknown, command: Command) => {
      await serve(command.optsWithGlobals<McpFlags>(), context)
    })
}

async function serve (flags: McpFlags, context: CliContext): Promise<void> {
  const { say } = createConsole(context, { quiet: false })
  const connection = openConnection(flags, context, say)
  const stop = new Promise<void>(resolve => { context.onInterrupt(resolve) })
  const { serveMcp } = await import('./mcp-server.ts')
  say(`Serving MCP; this session may spend ${money(flags.maxSpend)}.`)
  await serveMcp({
    client: createClient({ ...connection, ...context.clientOptions }),
    spending: createSpending(flags.maxSpend),
    account: connection.account,
    folder: flags.folder,
    say,
    pollEveryMs: context.pollEveryMs,
    version: packageVersion(),
  }, { input: context.input as Readable, output: context.output as Writable }, stop)
}

/** The version of the package, in a clone and where it is installed. */
function packageVersion (): string {
  const manifest = new URL('../../package.json', import.meta.url)
  return (JSON.parse(readFileSync(manifest, 'utf8')) as { readonly version: string }).version
}
