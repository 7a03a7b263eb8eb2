import Type from 'typebox'
import type { AccessAction } from '../accounts/access-log/access-log.ts'
import { createOrganizations } from '../accounts/organizations.ts'
import {
  isPersonRole, type People, PeopleError, type Person, type Role, ROLES,
} from '../accounts/people.ts'
import { createSignInCodes, SIGN_IN_LINK_MS, type SignedIn } from '../accounts/sessions.ts'
import type { Environment } from '../runtime/platform/command-environment.ts'
import { loadConfig } from '../runtime/platform/config.ts'
import { UsageError } from '../runtime/platform/run-command.ts'
import {
  type AdminCommand, type Context, type Options, organizationToChange, organizationToRead,
  type Recording, runAndPrint, runChange, runTask, type TaskResult, toIsoTime,
} from './command-line.ts'
import { withState, type WorkspaceDeps } from './deps.ts'

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
      findPerson(people, String(org), String(email)))
    return { action, ...person && { target: person.id, details: { previousRole: person.role } } }
  }
  addFor('add', 'let a person sign in').requiredOption(...role)
    .records('person.added')
    .example('--org org_1 --email ann@example.com --role owner')
    .action(runChange(context, async ({ people, ...deps }, options) => {
      const orgId = await organizationToChange(deps, options)
      const { email = '' } = options
      const made = await explainRefusal(people.add(orgId, {
        email, role: parseRole(options), createdBy: 'operator',
      }))
      return summarize(requirePerson(made, orgId, email))
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
      return await changePerson(deps, options, (orgId, id) =>
        deps.people.changeRole(orgId, id, role))
    }))
  addFor('sign-out', 'end all sessions of a person')
    .records(withId('person.signed_out'))
    .example('--org org_1 --email ann@example.com')
    .action(runChange(context, (deps, options) =>
      changePerson(deps, options, deps.people.endSessions)))
  addFor('remove', 'remove a person and end all their sessions')
    .records(withId('person.removed'))
    .example('--org org_1 --email ann@example.com')
    .action(runChange(context, async (deps, options) => {
      const { id, email } = await changePerson(deps, options, deps.people.remove)
      return { id, email, removed: true }
    }))
}

/** Applies a change to the person with the address in `--email`. */
async function changePerson (
  deps: WorkspaceDeps, options: Options,
  change: (orgId: string, id: string) => Promise<Person | undefined>
): Promise<TaskResult> {
  const orgId = await organizationToChange(deps, options)
  const { email = '' } = options
  const { id } = requirePerson(await findPerson(deps.people, orgId, email), orgId, email)
  return summarize(requirePerson(await explainRefusal(change(orgId, id)), orgId, email))
}

/** The person of an organization with an address, in any case of its letters. */
async function findPerson (
  people: People, orgId: string, email: string
): Promise<Person | undefined> {
  const address = email.trim().toLowerCase()
  return (await people.list(orgId)).find(person => person.email === address)
}

async function explainRefusal<T> (change: Promise<T>): Promise<T> {
  try {
    return await change
  } catch (error) {
    throw error instanceof PeopleError ? new UsageError(error.message, { cause: error }) : error
  }
}

function requirePerson (person: Person | undefined, orgId: string, email: string): Person {
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

/** Adds `sign-in`. */
export function addSignIn (program: AdminCommand, context: Context): void {
  program.command('sign-in').description('create a link to sign in to the workspace page')
    .records('sign_in_link.created')
    .option('--org <id>', 'sign in as this organization')
    .option('--operator', 'sign in as an operator of the pipeline')
    .example('--org org_1')
    .action(runAndPrint<SignInOptions>(context, async ({ env, options }) =>
      ({ data: await makeSignInLink(env, options) })))
}

const config = Type.Object({
  PAGE_URL: Type.String({
    default: 'http://127.0.0.1:8090',
    pattern: '^https?://[^/]+$',
    description: 'Public address of the workspace page.',
  }),
})

/** Who signs in with the link: the people of an organization, or an operator. */
type SignInOptions = { readonly org?: string, readonly operator?: string | true }

/**
 * Creates a link that signs in one browser, once, within ten minutes.
 * @throws UsageError unless exactly one of `org` and `operator` is set and the organization exists.
 */
async function makeSignInLink (env: Environment, options: SignInOptions) {
  if ((options.org === undefined) === (options.operator === undefined)) {
    throw new UsageError('Pass either --org <id> or --operator. The id of the demonstration ' +
      'organization is orgId in .local/stack.json.')
  }
  const { PAGE_URL } = loadConfig(config, env)
  return await withState(env, async redis => {
    const organizations = createOrganizations(redis)
    const subject: SignedIn = options.org === undefined
      ? { kind: 'operator' }
      : {
          kind: 'customer',
          orgId: await organizationToChange({ organizations }, { org: options.org }),
        }
    const code = await createSignInCodes(redis).create(subject)
    return {
      url: `${PAGE_URL}/sign-in/link#${code}`,
      expiresAt: new Date(Date.now() + SIGN_IN_LINK_MS).toISOString(),
      note: 'It signs in one browser, once. Share it as carefully as a password.',
    }
  })
}
