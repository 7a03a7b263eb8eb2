import type { CommandActions } from '../access-log/commands.ts'
import type { AccessAction } from '../access-log/entry.ts'
import type { Partner } from '../accounts/partners.ts'
import type { Person } from '../accounts/people.ts'
import type { Environment } from '../platform/command-environment.ts'
import { withWorkspace } from './deps.ts'
import { personWith } from './person-tasks.ts'

/** Options that do not change a policy. */
const NOT_POLICY: readonly string[] = ['org', 'json', 'data']

type FindPerson = (env: Environment, orgId: string, email: string) => Promise<Person | undefined>
type FindPartner =
  (env: Environment, name: string) => Promise<Pick<Partner, 'orgId'> | undefined>

/** What the commands of the workspace are recorded as in the access log. */
export function workspaceActions (
  findPerson: FindPerson = personOnStack, findPartner: FindPartner = partnerOnStack
): CommandActions {
  /** The log has ids of people, and no addresses. */
  const ofPerson = (action: AccessAction): CommandActions[string] => async (options, env) => {
    const { org = '', email = '' } = options
    const person = await findPerson(env, String(org), String(email))
    return {
      action, ...person && { target: person.id, details: { previousRole: person.role } },
    }
  }
  const ofPartner = partnerActions(findPartner)
  return {
    'org create': 'organization.created',
    'org list': null,
    'org erase': 'organization.erased',
    'person add': 'person.added',
    'person list': null,
    'person change': ofPerson('person.changed'),
    'person sign-out': ofPerson('person.signed_out'),
    'person remove': ofPerson('person.removed'),
    'key create': 'key.created',
    'key list': null,
    'key revoke': 'key.revoked',
    'key roll': 'key.rolled',
    topup: 'balance.topped_up',
    adjust: 'balance.adjusted',
    thaw: 'balance.thawed',
    balance: null,
    policy: options => Object.keys(options).every(name => NOT_POLICY.includes(name))
      ? null
      : { action: 'policy.changed' },
    'webhook-secret show': 'webhook_secret.shown',
    'webhook-secret rotate': 'webhook_secret.rotated',
    // Public keys; the first call creates the pair.
    'webhook-key show': null,
    'webhook-key rotate': 'webhook_key.rotated',
    'webhook-endpoint create': 'webhook_endpoint.created',
    'webhook-endpoint list': null,
    'webhook-endpoint disable': switched(false),
    'webhook-endpoint enable': switched(true),
    'webhook-endpoint rotate': 'webhook_endpoint.secret_rotated',
    'webhook-endpoint delete': 'webhook_endpoint.deleted',
    'partner create': ({ name }) =>
      ({ action: 'partner.created', target: String(name) }),
    'partner list': null,
    'partner rotate': ofPartner('partner.rotated'),
    'partner revoke': ofPartner('partner.revoked'),
    audit: null,
    'access-log': 'access_log.exported',
    'job erase': 'job.erased',
    'keys list': null,
    'keys rewrap': 'keys.rewrapped',
    'keys rotate': 'keys.rotated',
    'sign-in': 'sign_in_link.created',
  }
}

const switched = (enabled: boolean): CommandActions[string] => () =>
  ({ action: 'webhook_endpoint.changed', details: { enabled: String(enabled) } })

/** The name of a partner is its id. Its organization is not an option. */
const partnerActions = (findPartner: FindPartner) =>
  (action: AccessAction): CommandActions[string] => async ({ name }, env) => {
    const target = String(name)
    const partner = await findPartner(env, target)
    return { action, target, ...partner && { organization: partner.orgId } }
  }

const personOnStack: FindPerson = async (env, orgId, email) =>
  await withWorkspace(env, ({ people }) => personWith(people, orgId, email))

const partnerOnStack: FindPartner = async (env, name) =>
  await withWorkspace(env, ({ partners }) => partners.find(name))
