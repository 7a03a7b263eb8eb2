import { Command } from 'commander'
import { invariantsText } from './audit-invariants.ts'
import { addKeyRing, addSignIn } from './access-program.ts'
import { commandEnvironment } from './environment.ts'
import { withWorkspace } from './parts.ts'
import * as partners from './partner-tasks.ts'
import * as money from './money-tasks.ts'
import { shipping } from './shipping.ts'
import { show, type Print } from './show.ts'
import * as tasks from './tasks.ts'
import type { Options, Task } from './tasks.ts'

type Global = { readonly json?: true, readonly data: string }

/** The command line of the workspace; `print` takes what it shows. */
export function createProgram (print: Print = console.log, open = withWorkspace): Command {
  const program = new Command('workspace')
    .description('Organizations, API keys, balance, policy, webhook secrets, partners and jobs ' +
      'of customers, and the keys that all of it is sealed with.')
    .option('--json', 'show the answer as JSON')
    .option('--data <folder>', 'folder that was given to "up"', '.local')
  const perform = (task: Task) => async (_options: Options, command: Command) => {
    const { json, data, ...options } = command.optsWithGlobals<Global>()
    const env = commandEnvironment(process.env, data)
    show(print, await open(env, parts => task(parts, options)), json === true)
  }
  const change = (task: Task) => perform(shipping(task))
  addOrganizations(program, change)
  addKeys(program, { perform, change })
  addMoney(program, perform)
  addSettings(program, change)
  addPartners(program, { perform, change })
  addAudit(program, print)
  addErasing(program, print)
  addKeyRing(program, print)
  addSignIn(program, print)
  return program
}

type Perform = (task: Task) => (options: Options, command: Command) => Promise<void>
/** `change`: for a task that changes accounts. */
type Performs = { readonly perform: Perform, readonly change: Perform }

function addOrganizations (program: Command, change: Perform): void {
  program.command('org').description('organizations')
    .command('create').description('make an organization')
    .requiredOption('--name <name>', 'its name')
    .action(change(tasks.createOrganization))
}

function addKeys (program: Command, { perform, change }: Performs): void {
  const key = program.command('key').description('API keys')
  const add = (name: string, description: string) =>
    key.command(name).description(description).requiredOption('--org <id>', 'organization')
  add('create', 'make a key; its secret is shown once')
    .option('--mode <mode>', 'live or test', 'live')
    .option('--scopes <list>', 'jobs:write, jobs:read or both', 'jobs:write,jobs:read')
    .option('--expires <time>', 'ISO 8601 time of its end')
    .action(change(tasks.createKey))
  add('list', 'show keys without their secrets').action(perform(tasks.listKeys))
  add('revoke', 'end a key at once')
    .requiredOption('--key <id>', 'id of the key')
    .action(change(tasks.revokeKey))
  add('roll', 'replace a key')
    .requiredOption('--key <id>', 'id of the key')
    .option('--grace-hours <hours>', 'how long the old key works on', '24')
    .action(change(tasks.rollKey))
}

function addMoney (program: Command, perform: Perform): void {
  program.command('topup').description('add money to a balance')
    .requiredOption('--org <id>', 'organization')
    .option('--mode <mode>', 'live or test', 'live')
    .option('--usd <amount>', 'amount in USD, for example 12.50')
    .option('--micros <amount>', 'amount in USD micros')
    .option('--id <id>', 'id of the payment; the same id is added once')
    .option('--reason <text>', 'why, for the journal')
    .action(perform(tasks.topUp))
  program.command('adjust').description('correct a balance by an entry of its own')
    .requiredOption('--org <id>', 'organization')
    .option('--mode <mode>', 'live or test', 'live')
    .requiredOption('--micros <amount>', 'amount in USD micros, with a minus to take away')
    .requiredOption('--reason <text>', 'why, for the journal')
    .option('--id <id>', 'id of the adjustment; the same id is made once')
    .action(perform(money.adjust))
  program.command('thaw').description('have a frozen balance compared with the journal again')
    .requiredOption('--org <id>', 'organization')
    .option('--mode <mode>', 'live or test', 'live')
    .option('--trust <what>', '"journal": bring the balance to what the journal says')
    .action(perform(money.thaw))
  program.command('balance').description('show a balance')
    .requiredOption('--org <id>', 'organization')
    .option('--mode <mode>', 'live or test', 'live')
    .action(perform(tasks.showBalance))
}

function addSettings (program: Command, change: Perform): void {
  program.command('policy').description('show or set what an organization may; "default" takes a ' +
    'value back to what the service is configured with')
    .requiredOption('--org <id>', 'organization')
    .option('--freshness-days <days>', 'how long verified records count as fresh: 0 to 90 days')
    .option('--weight <number>', 'its part of busy stages, as a multiple of what others get: ' +
      '1 to 100')
    .option('--active-jobs <number>', 'jobs with fresh rows at a time, of each mode')
    .option('--post-burst <number>', 'POST requests at once, as LIMIT_POST_BURST')
    .option('--post-sustained <number>', 'POST requests over a longer time, as ' +
      'LIMIT_POST_SUSTAINED')
    .option('--gets <number>', 'GET requests at once, as LIMIT_GET')
    .action(change(tasks.policy))
  const secret = program.command('webhook-secret')
    .description('the secret webhooks are signed with')
  secret.command('show').description('show it')
    .requiredOption('--org <id>', 'organization')
    .action(change(tasks.showWebhookSecret))
  secret.command('rotate').description('make a new one')
    .requiredOption('--org <id>', 'organization')
    .action(change(tasks.rotateWebhookSecret))
}

function addPartners (program: Command, { perform, change }: Performs): void {
  const partner = program.command('partner').description('partners of bulk feeds')
  partner.command('create').description('make a partner and its topics; its key is shown once')
    .requiredOption('--org <id>', 'organization that pays')
    .requiredOption('--name <name>', 'small letters, digits and dashes; never used twice')
    .option('--mode <mode>', 'live or test', 'live')
    .option('--prices <json>', 'unit prices in micros that differ, for example {"whatsapp":3500}')
    .option('--partitions <number>', 'partitions of each of its topics', '4')
    .option('--principal <name>', 'as whom it connects to the brokers; User:<name> when left out')
    .option('--trial', 'accept brokers without an authorizer: every Kafka client can read and ' +
      'write this feed')
    .action(change(partners.createPartner))
  partner.command('list').description('show partners without their keys')
    .option('--org <id>', 'only of this organization')
    .action(perform(partners.listPartners))
  partner.command('rotate').description('make a new key; it is shown once')
    .requiredOption('--name <name>', 'its name')
    .option('--grace-hours <hours>', 'how long the old key works on', '24')
    .action(change(partners.rotatePartner))
  partner.command('revoke').description('take no more contacts of a partner')
    .requiredOption('--name <name>', 'its name')
    .action(change(partners.revokePartner))
}

function addAudit (program: Command, print: Print): void {
  program.command('audit').description('check balances, journal and results against each other')
    .option('--full', 'read all, not only what is new since the last audit')
    .option('--explain', 'tell every movement in words as well; reads all')
    .option('--journal-head <file>', 'check also that nothing is missing of what ' +
      'JOURNAL_HEAD_TARGET was given; reads all')
    .addHelpText('after', invariantsText())
    .action(async (_options: object, command: Command) => {
      const { json, data, full, explain, journalHead } = command.optsWithGlobals<
        Global & { readonly full?: true, readonly explain?: true, readonly journalHead?: string }>()
      // Only this command needs the stores of results, so only it loads them.
      const { auditTable, runAudit } = await import('./audit-command.ts')
      const report = await runAudit(commandEnvironment(process.env, data), {
        explain: explain === true,
        journalHead,
        incremental: full !== true,
        say: line => console.error(line),
      })
      print(json === true ? JSON.stringify(report) : auditTable(report))
      if (!report.ok) process.exitCode = 1
    })
}

function addErasing (program: Command, print: Print): void {
  program.command('job').description('jobs')
    .command('erase').description('make all that was sealed for jobs unreadable for good')
    .requiredOption('--org <id>', 'organization')
    .requiredOption('--job <ids>', 'jobs, with commas between; those that run are cancelled first')
    .option('--mode <mode>', 'live or test', 'live')
    .option('--wait-minutes <minutes>', 'how long to wait for their end and for copies', '30')
    .action(async (_options: object, command: Command) => {
      const { json, data, ...options } = command.optsWithGlobals<Global & Options>()
      const { runErase } = await import('./erase-command.ts')
      const erasure = await runErase(commandEnvironment(process.env, data), options)
      show(print, erasure, json === true)
      if (!erasure.done) process.exitCode = 1
    })
}
