import { Command, CommanderError } from 'commander'
import { failureMessage, InterruptedError, UsageError } from './terminal.ts'
import type { CliContext } from './connection.ts'
import { addJobCommands, addVerify } from './job-commands.ts'
import { addMcp } from './mcp-command.ts'
import { addSubmit } from './submit-command.ts'
import { ApiError } from './transport.ts'

const EXIT_CODES = { ok: 0, failure: 1, usage: 2, interrupted: 130 } as const

const HELP = `
Environment: VERIFICATION_JOBS_URL (ends in /api/v1), VERIFICATION_JOBS_KEY. Without both, the
command uses the local stack of "npm run up" with its own key. There is no option for the key,
because other users can read command lines.

Exit codes: 0 success, 1 failure, 2 invalid arguments, 130 interrupted.

Example:
  verification-jobs submit contacts.csv --service phone-validation --column phone -o verified.csv`

/** Creates the command line for users with a file of contacts. */
export function createClientProgram (context: CliContext): Command {
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
  addMcp(program, context)
  return program
}

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
