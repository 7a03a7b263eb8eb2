import Type from 'typebox'
import { connectOrganizationKeys } from '../accounts/connect-organization-keys.ts'
import {
  createOrganizations, newOrganizationId, type Organization,
} from '../accounts/organizations.ts'
import { createPartners } from '../accounts/partners.ts'
import { createAccountRecords } from '../accounts/records.ts'
import { MODES, tenantOf } from '../accounts/tenant.ts'
import { openPrompt, type Streams } from '../client/terminal.ts'
import { usdOf } from '../money/usd.ts'
import type { Environment } from '../runtime/platform/command-environment.ts'
import { commonConfig, loadConfig, pick, rootKeys } from '../runtime/platform/config.ts'
import { connectCommandRedis } from '../runtime/platform/redis.ts'
import { CommandFailure, UsageError } from '../runtime/platform/run-command.ts'
import { KEY_CLASSES } from '../topology.ts'
import type { AdminCommand } from './admin-command.ts'
import {
  type Context, MINUTE_MS, type Options, organizationToRead, parseFromZero, runAndPrint, runChange,
  runTask, type Screen, shippingWarning, type Task, toIsoTime,
} from './command-line.ts'
import { withStores } from './connections.ts'
import type { WorkspaceDeps } from './deps.ts'
import { eraseOrganization, type OrganizationErasure } from './erase-organization.ts'

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
  await Promise.all(MODES.map(mode => wallet.unlockNew(tenantOf(id, mode))))
  return organization
}

/** All organizations with their available live balance, the oldest first. */
const listOrganizations: Task = async ({ organizations, wallet }) => ({
  organizations: await Promise.all((await organizations.list()).map(async (
    { id, name, createdAtMs, erasedAtMs = 0 }
  ) => ({
    id,
    createdAt: toIsoTime(createdAtMs),
    availableUsd: usdOf((await wallet.balance(tenantOf(id, 'live'))).availableMicros),
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
  program: AdminCommand, org: AdminCommand, screen: Screen
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
    .action(runAndPrint<Options>(screen, async ({ env, options }) => {
      const data = await runEraseOrganization(env, options, line => console.error(line))
      return { data, isUndone: !data.done }
    }))
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

const config = Type.Object(pick(commonConfig, ['REDIS_CACHE_URL', ...rootKeys.partners]))

/**
 * `org erase` on the stack in `env`; `onProgress` gets each step in words.
 * @throws UsageError for invalid options, an unknown organization, or jobs that do not end in time.
 */
async function runEraseOrganization (
  env: Environment, { org = '', waitMinutes }: Options, onProgress: (line: string) => void
): Promise<OrganizationErasure> {
  const minutes = parseFromZero('--wait-minutes', waitMinutes)
  const settings = loadConfig(config, env)
  const cache = await connectCommandRedis('REDIS_CACHE_URL', settings)
  try {
    return await withStores(env, async stores => {
      const state = stores.redis
      const keys = connectOrganizationKeys('partners', settings, { state })
      const partners = createPartners({ redis: state, keys })
      const organizations = createOrganizations(state)
      const orgId = await organizationToRead({ organizations }, { org })
      const erasure = await eraseOrganization({ ...stores, cache, partners }, orgId, {
        deadlineMs: Date.now() + minutes * MINUTE_MS, onProgress,
      })
      return { ...erasure, ...await shippingWarning(createAccountRecords(state)) }
    })
  } finally {
    cache.disconnect()
  }
}
