import { Command } from 'commander'
import { addJobCommands } from './job-commands.ts'
import { addSubmit } from './submit-command.ts'
import type { Surroundings } from './surroundings.ts'

const HELP = `
Environment: VERIFICATION_JOBS_URL (ends in /api/v1), VERIFICATION_JOBS_KEY. Without either, the
local stack of "npm run up" is used. A key is never an option, as command lines are seen by others.

Exit codes: 0 done, 1 failed, 2 wrongly called, 130 interrupted.

Example:
  verification-jobs submit contacts.csv --service phone-validation --column phone -o verified.csv`

/** The command line for people with a file of contacts. */
export function createClientProgram (surroundings: Surroundings): Command {
  const program = new Command('verification-jobs')
    .description('Verifies phone numbers and e-mail addresses.')
    .option('--base-url <url>', 'address of the service')
    .option('--key-file <file>', 'file with the API key')
    .option('--data <folder>', 'folder of a local stack', '.local')
    .option('--json', 'the answer as JSON, and nothing beside it')
    .addHelpText('after', HELP)
    .exitOverride()
    .configureOutput({
      writeOut: text => { surroundings.output.write(text) },
      writeErr: text => { surroundings.errors.write(text) },
    })
  addSubmit(program, surroundings)
  addJobCommands(program, surroundings)
  return program
}
