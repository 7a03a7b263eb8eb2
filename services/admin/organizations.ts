import Type from 'typebox'
import { connectOrganizationKeys } from '../accounts/connect-organization-keys.ts'
import {
  createOrganizations, newOrganizationId, type Organization, type Policy, POLICY_RANGES,
} from '../accounts/organizations.ts'
import { createPartners } from '../accounts/partners.ts'
import { createAccountRecords } from '../accounts/records.ts'
import { tenantOf, tenantsOf } from '../accounts/tenant.ts'
import { ask } from '../client/terminal.ts'
import { formatUsd } from '../money/prices.ts'
import type { Environment } from '../runtime/platform/command-environment.ts'
import { commonConfig, loadConfig, pick, rootKeys } from '../runtime/platform/config.ts'
import { CommandFailure, UsageError } from '../runtime/platform/run-command.ts'
import { KEY_CLASSES } from '../topology.ts'
import {
  type AdminCommand, type Context, MINUTE_MS, type Options, organizationToChange,
  organizationToRead, parseFromZero, runAndPrint, runChange, runTask, shippingWarning, type Task,
  toIsoTime,
} from './command-line.ts'
import { withConnections, withStores, type WorkspaceDeps } from './deps.ts'
import { eraseOrganization } from './erasure.ts'

/** Adds `org` and its commands. */
export function addOrganizations (program: AdminCommand, context: Context): void {
  const org = program.command('org').description('organizations')
  const create = org.command('create').description('create an organization')
    .records('organization.created')
    .requiredOption('--name <name>', 'its name')
    .example('--name "Acme Inc."')
    .action(runChange(context, createOrganization))
  // It runs before the hook that records commands: the entries are in the log of the organization.
  program.hook('preAction', (_program, command) => {
    if (command === create) create.setOptionValue('org', newOrganizationId())
  })
  org.command('list').description('list organizations with their live balance; erased ones too')
    .reads()
    .example('--json')
    .action(runTask(context, listOrganizations))
  addOrganizationErasure(program, org, context)
}

const createOrganization: Task = async (deps, { name = '', org }) => {
  if (name.trim() === '') throw new UsageError('--name is empty. Pass a name: --name <name>.')
  const organization = await addOrganization(deps, name.trim(), org)
  return { id: organization.id, name: organization.name, createdAtMs: organization.createdAtMs }
}

/**
 * Creates an organization with its keys. They come first: services never create keys, so a crash in
 * between must leave no organization without them. Keys without an organization are never used.
 */
export async function addOrganization (
  { organizations, organizationKeys, wallet }: WorkspaceDeps, name: string,
  id = newOrganizationId()
): Promise<Organization> {
  await organizationKeys.create(id)
  const organization = await organizations.create(name, id)
  if ((await organizationKeys.store.read(id)).length < KEY_CLASSES.length) {
    throw new CommandFailure(`Redis lost the keys of organization ${id} meanwhile, so it ` +
      'cannot be used. Create another one.')
  }
  await Promise.all(tenantsOf(id).map(wallet.unlockNew))
  return organization
}

/** All organizations with their available live balance, the oldest first. */
const listOrganizations: Task = async ({ organizations, wallet }) => ({
  organizations: await Promise.all((await organizations.list()).map(async (
    { id, name, createdAtMs, erasedAtMs = 0 }
  ) => ({
    id,
    createdAt: toIsoTime(createdAtMs),
    availableUsd: formatUsd((await wallet.balance(tenantOf(id, 'live'))).availableMicros),
    erasedAt: toIsoTime(erasedAtMs),
    name,
  }))),
})

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
function addOrganizationErasure (
  program: AdminCommand, org: AdminCommand, context: Context
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
    .action(runAndPrint<Options>(context, async ({ env, options }) => {
      const data = await runErasure(env, options)
      return { data, isUndone: !data.done }
    }))
  // It runs before the hook that records commands: what is not confirmed is not recorded.
  program.hook('preAction', async (_program, command) => {
    if (command !== erase) return
    const { org: id, yes } = command.opts<{ readonly org: string, readonly yes?: true }>()
    if (yes !== true) await confirmErasure(id, context)
  })
}

/**
 * Asks for the id of the organization that is erased, on `errors`, so that a result stays alone.
 * @throws UsageError for any other answer, and without a terminal.
 */
async function confirmErasure (orgId: string, { input, errors }: Context): Promise<void> {
  if (input.isTTY !== true || errors.isTTY !== true) {
    throw new UsageError('an erased organization cannot be brought back, and there is no ' +
      'terminal to confirm at: pass --yes to erase it.')
  }
  const question = `This makes all data of ${orgId} unreadable for ever. Type its id to confirm: `
  if (await ask({ input, output: errors }, question) !== orgId) {
    throw new UsageError(`the answer is not ${orgId}: nothing was erased.`)
  }
}

const config = Type.Object(pick(commonConfig, rootKeys.partners))

/** `org erase` on the stack in `env`. */
async function runErasure (env: Environment, { org = '', waitMinutes }: Options) {
  const minutes = parseFromZero('--wait-minutes', waitMinutes)
  const settings = loadConfig(config, env)
  return await withConnections(env, ['cache'], ({ cache }) => withStores(env, async stores => {
    const state = stores.redis
    const keys = connectOrganizationKeys('partners', settings, { state })
    const partners = createPartners({ redis: state, keys })
    const organizations = createOrganizations(state)
    const orgId = await organizationToRead({ organizations }, { org })
    const erasure = await eraseOrganization({ ...stores, cache, partners }, orgId, {
      deadlineMs: Date.now() + minutes * MINUTE_MS, onProgress: line => console.error(line),
    })
    return { ...erasure, ...await shippingWarning(createAccountRecords(state)) }
  }))
}

/** Adds `policy`. */
export function addPolicy (program: AdminCommand, context: Context): void {
  program.command('policy').description('show or set the policy of an organization; "default" ' +
    'resets a value to the configuration of the service')
    .records(options => POLICIES.some(name => options[name] !== undefined)
      ? { action: 'policy.changed' }
      : null)
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
    .example('--org org_1 --freshness-days 30 --key-days default')
    .action(runChange(context, policy))
}

const POLICIES = Object.keys(POLICY_RANGES) as readonly (keyof Policy)[]

/** Sets the values that are passed, then returns the policy of the organization. */
const policy: Task = async (deps, options) => {
  const change = POLICIES.flatMap(name => {
    const { [name]: text } = options
    if (text === undefined) return []
    // The range check rejects NaN.
    const number = /^\d+$/.test(text) ? Number(text) : NaN
    return [[name, text === 'default' ? text : number] as const]
  })
  const isRead = change.length === 0
  const orgId = await (isRead ? organizationToRead : organizationToChange)(deps, options)
  if (!isRead) await deps.organizations.setPolicy(orgId, Object.fromEntries(change))
  const current = (await deps.organizations.find(orgId))?.policy
  const values = POLICIES.map(name => [name, current?.[name] ?? 'default'] as const)
  return { orgId, ...Object.fromEntries(values) }
}
