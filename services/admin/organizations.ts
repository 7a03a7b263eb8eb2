import { newOrganizationId, type Organization } from '../accounts/organizations.ts'
import { MODES, tenantOf } from '../accounts/tenant.ts'
import { usdOf } from '../money/usd.ts'
import { CommandFailure, UsageError } from '../runtime/platform/run-command.ts'
import { KEY_CLASSES } from '../topology.ts'
import type { AdminCommand } from './admin-command.ts'
import { runChange, runTask, type Context } from './command-line.ts'
import type { WorkspaceDeps } from './deps.ts'
import { addOrganizationErasure } from './erasure-commands.ts'
import { timeOf, type Task } from './options.ts'

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
  const { id, name: given, createdAtMs } = await addOrganization(deps, name.trim(), org)
  return { id, name: given, createdAtMs }
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
    createdAt: timeOf(createdAtMs),
    availableUsd: usdOf((await wallet.balance(tenantOf(id, 'live'))).availableMicros),
    erasedAt: timeOf(erasedAtMs),
    name,
  }))),
})
