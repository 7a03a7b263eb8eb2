import { openPrompt, type Streams } from '../client/terminal.ts'
import { UsageError } from '../runtime/platform/run-command.ts'
import type { AdminCommand } from './admin-command.ts'
import { callOf, type Screen } from './command-line.ts'
import { printResult, type Options } from './options.ts'

const ERASURE_HELP = `
Deleted: the keys of the organization, so its jobs, results, labels, webhooks and keys of partners
are unreadable in every store and backup; its cached records; its people and their addresses.
Ended: its API keys, partners, sessions and running jobs; the rest of their reservations is
released. Nothing is refunded: correct the balance with "adjust" before, if it has to be.
Kept: its id, name, policy, balances, journal, the counts and prices of its jobs, its access log,
and earlier versions of its record in the topic accounts.
It usually takes 10 to 20 minutes, most of it until the brokers have compacted organization.keys.
It can be interrupted and repeated at any time.`

/** Adds `org erase`, which asks for a confirmation. */
export function addOrganizationErasure (
  program: AdminCommand, org: AdminCommand, { print }: Pick<Screen, 'print'>
): void {
  const erase = org.command('erase').description('make all encrypted data of an organization ' +
    'permanently unreadable: delete its keys')
    .records('organization.erased')
    .requiredOption('--org <id>', 'organization; its API keys are revoked, its jobs cancelled')
    .option('--wait-minutes <minutes>', 'how long to wait until jobs end and copies are deleted',
      '30')
    .option('--yes', 'do not ask for a confirmation')
    .addHelpText('after', ERASURE_HELP)
    .example('--org org_1')
    .action(async (_options: object, command: AdminCommand) => {
      const { env, json, options } = callOf<Options>(command)
      const { runEraseOrganization } = await import('./erase-organization-command.ts')
      const erasure = await runEraseOrganization(env, options, line => console.error(line))
      printResult(print, erasure, json)
      if (!erasure.done) process.exitCode = 1
    })
  // It runs before the hook that records commands: what is not confirmed is not recorded.
  program.hook('preAction', async (_program, command) => {
    if (command !== erase) return
    const { org: id, yes } = command.opts<{ readonly org: string, readonly yes?: true }>()
    if (yes !== true) await confirmErasure(id, { input: process.stdin, errors: process.stderr })
  })
}

/**
 * Asks for the id of the organization that is erased, on `errors`, so that a result stays alone.
 * @throws UsageError for any other answer, and without a terminal.
 */
export async function confirmErasure (
  orgId: string, { input, errors }: Omit<Streams, 'output'>
): Promise<void> {
  if (input.isTTY !== true || errors.isTTY !== true) {
    throw new UsageError('an erased organization cannot be brought back, and there is no ' +
      'terminal to confirm at: pass --yes to erase it.')
  }
  const closed = new AbortController()
  const prompt = openPrompt({ input, output: errors })
  prompt.on('close', () => closed.abort())
  const question = `This makes all data of ${orgId} unreadable for ever. Type its id to confirm: `
  // The end of the input is no answer.
  const answer = await prompt.question(question, { signal: closed.signal }).catch(() => '')
  prompt.close()
  if (answer.trim() !== orgId) {
    throw new UsageError(`the answer is not ${orgId}: nothing was erased.`)
  }
}

/** Adds `job erase`. */
export function addJobErasure (program: AdminCommand, { print }: Pick<Screen, 'print'>): void {
  program.command('job').description('jobs')
    .command('erase').description('make all encrypted data of jobs permanently unreadable')
    .records('job.erased')
    .requiredOption('--org <id>', 'organization')
    .requiredOption('--job <ids>', 'comma-separated jobs; running jobs are cancelled first')
    .option('--mode <mode>', 'live or test', 'live')
    .option('--wait-minutes <minutes>', 'how long to wait until jobs end and copies are deleted',
      '30')
    .example('--org org_1 --job job_1,job_2')
    .action(async (_options: object, command: AdminCommand) => {
      const { env, json, options } = callOf<Options>(command)
      const { runErase } = await import('./erase.ts')
      const erasure = await runErase(env, options)
      printResult(print, erasure, json)
      if (!erasure.done) process.exitCode = 1
    })
}
