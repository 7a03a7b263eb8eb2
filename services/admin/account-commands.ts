import type { Command } from 'commander'
import { DEFAULT_SCOPES, SCOPES } from '../accounts/key-store.ts'
import { newOrganizationId } from '../accounts/organizations.ts'
import { ROLES } from '../accounts/people.ts'
import type { Options, Task } from './options.ts'
import * as people from './person-tasks.ts'
import * as tasks from './tasks.ts'

/** Runs a task and prints its result. */
export type Run = (task: Task) => (options: Options, command: Command) => Promise<void>
/** `change` runs a task that changes accounts. */
export type Runs = { readonly run: Run, readonly change: Run }

/** Adds the commands for organizations, their people and API keys. */
export function addAccountCommands (program: Command, runs: Runs): void {
  addOrganizationCommands(program, runs)
  addPersonCommands(program, runs)
  addKeyCommands(program, runs)
}

function addOrganizationCommands (program: Command, { run, change }: Runs): void {
  const org = program.command('org').description('organizations')
  const create = org.command('create').description('create an organization')
    .requiredOption('--name <name>', 'its name')
    .action(change(tasks.createOrganization))
  // It runs before the hook that records commands: the entries are in the log of the organization.
  program.hook('preAction', (_program, command) => {
    if (command === create) create.setOptionValue('org', newOrganizationId())
  })
  org.command('list').description('list organizations with their live balance; erased ones too')
    .action(run(tasks.listOrganizations))
}

function addPersonCommands (program: Command, { run, change }: Runs): void {
  const person = program.command('person')
    .description('people who sign in to the workspace page through the OpenID provider')
  const add = (name: string, description: string) =>
    person.command(name).description(description).requiredOption('--org <id>', 'organization')
  const addFor = (name: string, description: string) =>
    add(name, description).requiredOption('--email <address>', 'e-mail address of the person')
  const role = ['--role <role>', ROLES.join(', ')] as const
  addFor('add', 'let a person sign in').requiredOption(...role).action(change(people.addPerson))
  add('list', 'list people and their roles').action(run(people.listPeople))
  addFor('change', 'change the role').requiredOption(...role).action(change(people.changePerson))
  addFor('sign-out', 'end all sessions of a person').action(change(people.signOutPerson))
  addFor('remove', 'remove a person and end all their sessions')
    .action(change(people.removePerson))
}

function addKeyCommands (program: Command, { run, change }: Runs): void {
  const key = program.command('key').description('API keys')
  const add = (name: string, description: string) =>
    key.command(name).description(description).requiredOption('--org <id>', 'organization')
  add('create', 'create a key; its secret is shown once')
    .option('--mode <mode>', 'live or test', 'live')
    .option('--name <name>', 'what it is for')
    .option('--scopes <list>', `of ${SCOPES.join(', ')}; jobs:read includes results:read and ` +
      'usage:read, jobs:write includes webhooks:write', DEFAULT_SCOPES.join(','))
    .option('--networks <list>', 'IP addresses and networks that may use it, such as ' +
      '192.0.2.0/24,2001:db8::/32; a network begins with its first address; all by default')
    .option('--expires <time>', 'expiry as an ISO 8601 time')
    .action(change(tasks.createKey))
  add('list', 'list keys without their secrets').action(run(tasks.listApiKeys))
  add('revoke', 'revoke a key at once')
    .requiredOption('--key <id>', 'id of the key')
    .action(change(tasks.revokeKey))
  add('roll', 'replace a key')
    .requiredOption('--key <id>', 'id of the key')
    .option('--grace-hours <hours>', 'how long the old key remains valid', '24')
    .action(change(tasks.rollKey))
}
