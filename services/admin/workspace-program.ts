import { Command } from 'commander'
import { commandEnvironment } from '../platform/command-environment.ts'
import { addAccountCommands, type Run, type Runs } from './account-commands.ts'
import { addAccessLogCommand, addAuditCommand } from './audit-commands.ts'
import { withWorkspace } from './deps.ts'
import { addEncryptionKeyCommands } from './encryption-key-commands.ts'
import { addJobErasure, addOrganizationErasure } from './erasure-commands.ts'
import {
  describeResult, printResult, withShippingWarning, type Options, type Print,
} from './options.ts'
import * as partners from './partner-tasks.ts'
import * as tasks from './tasks.ts'
import * as webhooks from './webhook-tasks.ts'

type GlobalOptions = { readonly json?: true, readonly data: string }

/** The command line of the workspace. `print` receives the output, `open` runs a task. */
export function createWorkspaceProgram (print: Print = console.log, open = withWorkspace): Command {
  const program = new Command('workspace').exitOverride()
    .description('Manages organizations, people, API keys, balances, policies, webhook secrets, ' +
      'partners and jobs of customers, and the keys that encrypt their data.')
    .configureHelp({ showGlobalOptions: true })
    .option('--json', 'print the result as JSON')
    .option('--data <folder>', 'folder that was passed to "up"', '.local')
  const run: Run = task => async (_options, command) => {
    const { json, data, ...options } = command.optsWithGlobals<GlobalOptions>()
    const env = commandEnvironment(process.env, data)
    const result = await open(env, deps => task(deps, options))
    describeResult(command, result)
    printResult(print, result, json === true)
  }
  const change: Run = task => run(withShippingWarning(task))
  addAccountCommands(program, { run, change })
  addOrganizationErasure(program, print)
  addMoneyCommands(program, run)
  addSettingsCommands(program, change)
  addEndpointCommands(program, { run, change })
  addPartnerCommands(program, { run, change })
  addAuditCommand(program, print)
  addAccessLogCommand(program, print)
  addJobErasure(program, print)
  addEncryptionKeyCommands(program, { print, change })
  addSignInCommand(program, print)
  return program
}

function addMoneyCommands (program: Command, run: Run): void {
  program.command('topup').description('add money to a balance')
    .requiredOption('--org <id>', 'organization')
    .option('--mode <mode>', 'live or test', 'live')
    .option('--usd <amount>', 'amount in USD, for example 12.50')
    .option('--micros <amount>', 'amount in USD micros')
    .option('--id <id>', 'id of the payment; a repeated id adds nothing')
    .option('--reason <text>', 'reason, for the journal')
    .action(run(tasks.topUp))
  program.command('adjust').description('correct a balance with a journal entry')
    .requiredOption('--org <id>', 'organization')
    .option('--mode <mode>', 'live or test', 'live')
    .requiredOption('--micros <amount>', 'amount in USD micros; negative to subtract')
    .requiredOption('--reason <text>', 'reason, for the journal')
    .option('--id <id>', 'id of the adjustment; a repeated id changes nothing')
    .action(run(tasks.adjust))
  program.command('thaw').description('compare a frozen balance with the journal again')
    .requiredOption('--org <id>', 'organization')
    .option('--mode <mode>', 'live or test', 'live')
    .option('--trust <what>', '"journal": set the balance to what the journal adds up to')
    .action(run(tasks.thaw))
  program.command('balance').description('show a balance')
    .requiredOption('--org <id>', 'organization')
    .option('--mode <mode>', 'live or test', 'live')
    .action(run(tasks.showBalance))
}

function addSettingsCommands (program: Command, change: Run): void {
  program.command('policy').description('show or set the policy of an organization; "default" ' +
    'resets a value to the configuration of the service')
    .requiredOption('--org <id>', 'organization')
    .option('--freshness-days <days>', 'how long verified records count as fresh: 0 to 90 days')
    .option('--weight <number>', 'its share of busy stages, as a multiple of the usual share: ' +
      '1 to 100')
    .option('--active-jobs <number>', 'concurrent jobs with fresh rows, per mode')
    .option('--post-burst <number>', 'burst of POST requests, as LIMIT_POST_BURST')
    .option('--post-sustained <number>', 'sustained rate of POST requests, as ' +
      'LIMIT_POST_SUSTAINED')
    .option('--gets <number>', 'burst of GET requests, as LIMIT_GET')
    .option('--low-balance-micros <micros>', 'the event balance.low is sent when a job takes the ' +
      'available balance below it')
    .option('--key-days <days>', 'the longest lifetime of API keys made from now on')
    .action(change(tasks.policy))
  const secret = program.command('webhook-secret').description('the secret that signs webhooks')
  secret.command('show').description('show the secret')
    .requiredOption('--org <id>', 'organization')
    .action(change(tasks.showWebhookSecret))
  secret.command('rotate').description('replace the secret')
    .requiredOption('--org <id>', 'organization')
    .action(change(tasks.rotateWebhookSecret))
  const key = program.command('webhook-key').description('the key pair that signs webhooks ' +
    '(Ed25519); its private key never leaves the service')
  key.command('show').description('show the public keys')
    .requiredOption('--org <id>', 'organization')
    .action(change(tasks.showWebhookKeys))
  key.command('rotate').description('replace the key pair')
    .requiredOption('--org <id>', 'organization')
    .action(change(tasks.rotateWebhookKey))
}

function addEndpointCommands (program: Command, { run, change }: Runs): void {
  const endpoint = program.command('webhook-endpoint')
    .description('addresses that receive the events of all jobs')
  const add = (name: string, description: string) =>
    endpoint.command(name).description(description)
      .requiredOption('--org <id>', 'organization')
      .option('--mode <mode>', 'live or test', 'live')
  const addFor = (name: string, description: string) =>
    add(name, description).requiredOption('--endpoint <id>', 'id of the endpoint')
  add('create', 'create an endpoint; its secret is shown once')
    .requiredOption('--url <url>', 'public https:// address')
    .option('--events <list>', 'comma-separated event types, or * for all', '*')
    .option('--description <text>', 'a note')
    .action(change(webhooks.createWebhookEndpoint))
  add('list', 'list endpoints without their secrets').action(run(webhooks.listWebhookEndpoints))
  addFor('disable', 'stop sending events').action(change(webhooks.switchWebhookEndpoint(false)))
  addFor('enable', 'send events again').action(change(webhooks.switchWebhookEndpoint(true)))
  addFor('rotate', 'replace the secret').action(change(webhooks.rotateWebhookEndpoint))
  addFor('delete', 'delete an endpoint').action(change(webhooks.deleteWebhookEndpoint))
}

function addPartnerCommands (program: Command, { run, change }: Runs): void {
  const partner = program.command('partner').description('partners of bulk feeds')
  partner.command('create').description('create a partner and its topics; its key is shown once')
    .requiredOption('--org <id>', 'organization that pays')
    .requiredOption('--name <name>', 'lowercase letters, digits and dashes; a name is never reused')
    .option('--mode <mode>', 'live or test', 'live')
    .option('--prices <json>', 'unit prices in micros that differ, for example {"whatsapp":3500}')
    .option('--partitions <number>', 'partitions of each of its topics', '1')
    .option('--principal <name>', 'its Kafka principal; User:<name> by default')
    .option('--trial', 'accept brokers without an authorizer: every Kafka client can read and ' +
      'write this feed')
    .action(change(partners.createPartner))
  partner.command('list').description('list partners without their keys')
    .option('--org <id>', 'only partners of this organization')
    .action(run(partners.listPartners))
  partner.command('rotate').description('create a new key; it is shown once')
    .requiredOption('--name <name>', 'name of the partner')
    .option('--grace-hours <hours>', 'how long the old key remains valid', '24')
    .action(change(partners.rotatePartner))
  partner.command('revoke').description('stop accepting contacts of a partner')
    .requiredOption('--name <name>', 'name of the partner')
    .action(change(partners.revokePartner))
}

function addSignInCommand (program: Command, print: Print): void {
  program.command('sign-in').description('create a link to sign in to the workspace page')
    .option('--org <id>', 'sign in as this organization')
    .option('--operator', 'sign in as an operator of the pipeline')
    .action(async (_options: object, command: Command) => {
      const { json, data, ...options } = command.optsWithGlobals<GlobalOptions & Options>()
      const { makeSignInLink } = await import('./sign-in-link.ts')
      const link = await makeSignInLink(commandEnvironment(process.env, data), options)
      printResult(print, link, json === true)
    })
}
