import { addAccessLog } from './access-log.ts'
import { addApiKeys } from './api-keys.ts'
import { addAudit } from './audit/command.ts'
import { addBackup } from './backup.ts'
import { addBalances } from './balances.ts'
import { addCells } from './cells.ts'
import { AdminCommand, type Context } from './command-line.ts'
import { addDead } from './dead/command.ts'
import { withDeadLetters } from './dead/letters.ts'
import { withBrokers, withWorkspace } from './deps.ts'
import { addEgress } from './egress.ts'
import { addEncryptionKeys } from './encryption-keys.ts'
import { addDrain, addJobErasure, addJobs } from './jobs.ts'
import { addJournal } from './journal.ts'
import { addLag } from './lag.ts'
import { addOrganizations, addPolicy } from './organizations.ts'
import { addPartners } from './partners.ts'
import { addPause, addResume } from './pause.ts'
import { addPeople, addSignIn } from './people.ts'
import { addReplay } from './replay.ts'
import { addWebhooks } from './webhooks.ts'

const HELP = `
Addresses come from the environment (KAFKA_BROKERS, REDIS_STATE_URL and so on; METRICS_TARGETS for
the metrics of the services), else from the local stack of "npm run up". Output is colored on
terminals only, unless NO_COLOR is set.`

/** Creates the command line of operators, in a process and on a stack unless a test says so. */
export function createAdminProgram (replaced: Partial<Context> = {}): AdminCommand {
  const context: Context = {
    print: console.log,
    terminal: process.stdout,
    errors: process.stderr,
    input: process.stdin,
    open: withWorkspace,
    brokers: withBrokers,
    letters: withDeadLetters,
    ...replaced,
  }
  const program = new AdminCommand('admin').exitOverride()
    .description('Commands for operators: the customers of the system, and the system itself.')
    .configureHelp({ showGlobalOptions: true })
    .option('--json', 'print the result as JSON')
    .option('--data <folder>', 'folder that was passed to "up"', '.local')
    .addHelpText('after', HELP)
  program.commandsGroup('Customers:')
  addOrganizations(program, context)
  addPeople(program, context)
  addApiKeys(program, context)
  addBalances(program, context)
  addPolicy(program, context)
  addWebhooks(program, context)
  addPartners(program, context)
  addJobErasure(program, context)
  addSignIn(program, context)
  program.commandsGroup('Records and keys:')
  addAudit(program, context)
  addAccessLog(program, context)
  addEncryptionKeys(program, context)
  program.commandsGroup('Operation:')
  addLag(program, context)
  addJobs(program, context)
  addPause(program, context)
  addResume(program, context)
  addCells(program, context)
  addEgress(program, context)
  addReplay(program, context)
  addDrain(program, context)
  addDead(program, context)
  addBackup(program, context)
  addJournal(program, context)
  return program
}
