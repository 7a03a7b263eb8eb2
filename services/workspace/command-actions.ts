import type { CommandActions } from '../access-log/commands.ts'

/** Options that do not change a policy. */
const NOT_POLICY: readonly string[] = ['org', 'json', 'data']

/** What the commands of the workspace are recorded as in the access log. */
export const WORKSPACE_ACTIONS: CommandActions = {
  'org create': 'organization.created',
  'org list': null,
  'org erase': 'organization.erased',
  'person add': 'person.added',
  'person list': null,
  'person change': 'person.changed',
  'person sign-out': 'person.signed_out',
  'person remove': 'person.removed',
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
    : 'policy.changed',
  'webhook-secret show': 'webhook_secret.shown',
  'webhook-secret rotate': 'webhook_secret.rotated',
  // Public keys; the first call creates the pair.
  'webhook-key show': null,
  'webhook-key rotate': 'webhook_key.rotated',
  'webhook-endpoint create': 'webhook_endpoint.created',
  'webhook-endpoint list': null,
  'webhook-endpoint disable': 'webhook_endpoint.changed',
  'webhook-endpoint enable': 'webhook_endpoint.changed',
  'webhook-endpoint rotate': 'webhook_endpoint.secret_rotated',
  'webhook-endpoint delete': 'webhook_endpoint.deleted',
  'partner create': 'partner.created',
  'partner list': null,
  'partner rotate': 'partner.rotated',
  'partner revoke': 'partner.revoked',
  audit: null,
  'access-log': 'access_log.exported',
  'job erase': 'job.erased',
  'keys list': null,
  'keys rewrap': 'keys.rewrapped',
  'keys rotate': 'keys.rotated',
  'sign-in': 'sign_in_link.created',
}
