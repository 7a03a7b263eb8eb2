import {
  isPersonRole, type People, PeopleError, type Person, type Role, ROLES,
} from '../accounts/people.ts'
import { UsageError } from '../platform/run-command.ts'
import {
  organizationOf, organizationToRead, timeOf, type Options, type Task, type TaskResult,
} from './options.ts'
import type { WorkspaceDeps } from './deps.ts'

/** Adds a person, who can sign in at once. */
export const addPerson: Task = async ({ people, ...deps }, options) => {
  const orgId = await organizationOf(deps, options)
  const { email = '' } = options
  const made = await allowed(people.add(orgId, {
    email, role: roleOf(options), createdBy: 'operator',
  }))
  return summaryOf(existing(made, orgId, email))
}

export const listPeople: Task = async ({ people, ...deps }, options) =>
  ({ people: (await people.list(await organizationToRead(deps, options))).map(summaryOf) })

/** Changes the role, from the next request of the person on. */
export const changePerson: Task = async (deps, options) => {
  const role = roleOf(options)
  return await changed(deps, options, (orgId, id) => deps.people.changeRole(orgId, id, role))
}

/** Removes a person, whose sessions end at once. */
export const removePerson: Task = async (deps, options) => {
  const { id, email } = await changed(deps, options, deps.people.remove)
  return { id, email, removed: true }
}

/** Ends all sessions of a person in an organization. */
export const signOutPerson: Task = (deps, options) =>
  changed(deps, options, deps.people.endSessions)

type Change = (orgId: string, id: string) => Promise<Person | undefined>

/** Applies a change to the person with the address in `--email`. */
async function changed (
  deps: WorkspaceDeps, options: Options, change: Change
): Promise<TaskResult> {
  const orgId = await organizationOf(deps, options)
  const { email = '' } = options
  const { id } = existing(await personWith(deps.people, orgId, email), orgId, email)
  return summaryOf(existing(await allowed(change(orgId, id)), orgId, email))
}

/** The person of an organization with an address, in any case of its letters. */
export async function personWith (
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

function roleOf ({ role = '' }: Options): Role {
  if (isPersonRole(role)) return role
  throw new UsageError(`--role must be one of ${ROLES.join(', ')}, not "${role}".`)
}

function summaryOf ({ id, email, role, createdAtMs, createdBy, issuer }: Person): TaskResult {
  return {
    id, email, role, createdAt: timeOf(createdAtMs), createdBy, hasSignedIn: issuer !== '',
  }
}
