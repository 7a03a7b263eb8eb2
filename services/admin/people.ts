import type { AccessAction } from '../accounts/access-log/access-log.ts'
import {
  isPersonRole, type People, PeopleError, type Person, type Role, ROLES,
} from '../accounts/people.ts'
import { UsageError } from '../runtime/platform/run-command.ts'
import {
  type AdminCommand, type Context, type Options, organizationToChange, organizationToRead,
  type Recording, runChange, runTask, type TaskResult, toIsoTime,
} from './command-line.ts'
import type { WorkspaceDeps } from './deps.ts'

/** Adds `person` and its commands. */
export function addPeople (program: AdminCommand, context: Context): void {
  const person = program.command('person')
    .description('people who sign in to the workspace page through the OpenID provider')
  const add = (name: string, description: string) =>
    person.command(name).description(description).requiredOption('--org <id>', 'organization')
  const addFor = (name: string, description: string) =>
    add(name, description).requiredOption('--email <address>', 'e-mail address of the person')
  const role = ['--role <role>', ROLES.join(', ')] as const
  /** The log has ids of people, and no addresses. */
  const withId = (action: AccessAction): Recording => async ({ org = '', email = '' }, env) => {
    const person = await context.open(env, ({ people }) =>
      personWith(people, String(org), String(email)))
    return { action, ...person && { target: person.id, details: { previousRole: person.role } } }
  }
  addFor('add', 'let a person sign in').requiredOption(...role)
    .records('person.added')
    .example('--org org_1 --email ann@example.com --role owner')
    .action(runChange(context, async ({ people, ...deps }, options) => {
      const orgId = await organizationToChange(deps, options)
      const { email = '' } = options
      const made = await allowed(people.add(orgId, {
        email, role: parseRole(options), createdBy: 'operator',
      }))
      return summarize(existing(made, orgId, email))
    }))
  add('list', 'list people and their roles')
    .reads()
    .example('--org org_1')
    .action(runTask(context, async ({ people, ...deps }, options) =>
      ({ people: (await people.list(await organizationToRead(deps, options))).map(summarize) })))
  addFor('change', 'change the role').requiredOption(...role)
    .records(withId('person.changed'))
    .example('--org org_1 --email ann@example.com --role finance')
    .action(runChange(context, async (deps, options) => {
      const role = parseRole(options)
      return await changed(deps, options, (orgId, id) => deps.people.changeRole(orgId, id, role))
    }))
  addFor('sign-out', 'end all sessions of a person')
    .records(withId('person.signed_out'))
    .example('--org org_1 --email ann@example.com')
    .action(runChange(context, (deps, options) =>
      changed(deps, options, deps.people.endSessions)))
  addFor('remove', 'remove a person and end all their sessions')
    .records(withId('person.removed'))
    .example('--org org_1 --email ann@example.com')
    .action(runChange(context, async (deps, options) => {
      const { id, email } = await changed(deps, options, deps.people.remove)
      return { id, email, removed: true }
    }))
}

/** Applies a change to the person with the address in `--email`. */
async function changed (
  deps: WorkspaceDeps, options: Options,
  change: (orgId: string, id: string) => Promise<Person | undefined>
): Promise<TaskResult> {
  const orgId = await organizationToChange(deps, options)
  const { email = '' } = options
  const { id } = existing(await personWith(deps.people, orgId, email), orgId, email)
  return summarize(existing(await allowed(change(orgId, id)), orgId, email))
}

/** The person of an organization with an address, in any case of its letters. */
async function personWith (
  people: Pick<People, 'list'>, orgId: string, email: string
): Promise<Person | undefined> {
  const address = email.trim().toLowerCase()
  return (await people.list(orgId)).find(person => person.email === address)
}

async function allowed<T> (change: Promise<T>): Promise<T> {
  try {
    return await change
  } catch (error) {
    throw error instanceof PeopleError ? new UsageError(error.message, { cause: error }) : error
  }
}

function existing (person: Person | undefined, orgId: string, email: string): Person {
  if (person !== undefined) return person
  throw new UsageError(`${orgId} has no person "${email}". List its people with "person list".`)
}

function parseRole ({ role = '' }: Options): Role {
  if (isPersonRole(role)) return role
  throw new UsageError(`--role must be one of ${ROLES.join(', ')}, not "${role}".`)
}

function summarize ({ id, email, role, createdAtMs, createdBy, issuer }: Person): TaskResult {
  return {
    id, email, role, createdAt: toIsoTime(createdAtMs), createdBy, hasSignedIn: issuer !== '',
  }
}
