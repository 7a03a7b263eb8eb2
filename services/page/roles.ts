import { type Role, ROLES } from '../accounts/people.ts'

/** What the roles may do on the page. */
const PERMISSIONS = {
  'overview.view': ['owner', 'developer', 'finance', 'read-only'],
  'usage.view': ['owner', 'developer', 'finance', 'read-only'],
  'jobs.view': ['owner', 'developer', 'read-only'],
  'jobs.change': ['owner', 'developer'],
  'results.view': ['owner', 'developer'],
  'balance.view': ['owner', 'finance'],
  'keys.view': ['owner', 'developer'],
  'keys.change': ['owner', 'developer'],
  'webhooks.view': ['owner', 'developer'],
  'webhooks.change': ['owner', 'developer'],
  'secrets.change': ['owner', 'developer'],
  'settings.view': ['owner', 'developer'],
  'settings.change': ['owner'],
  'access_log.view': ['owner'],
  'people.view': ['owner'],
  'people.change': ['owner'],
} as const satisfies Readonly<Record<string, readonly Role[]>>

export type Permission = keyof typeof PERMISSIONS

/** Permissions that also need a recent authentication. */
const RECENT: ReadonlySet<string> =
  new Set<Permission>(['keys.change', 'secrets.change', 'people.change'])

/**
 * Who may send a request: those with a permission, every signed-in browser, people who signed in
 * through the provider, operators of the pipeline, or everybody.
 */
export type Access = Permission | 'signed-in' | 'person' | 'operator' | 'everybody'

/** The access of every route but static files. The page does not start with a route it lacks. */
export const ROUTES: Readonly<Record<string, Access>> = {
  'GET /': 'everybody',
  'GET /sign-in': 'everybody',
  'POST /sign-in': 'everybody',
  'GET /sign-in/link': 'everybody',
  'GET /sign-in/start': 'everybody',
  'GET /sign-in/callback': 'everybody',
  'GET /sign-in/complete': 'everybody',
  'POST /sign-out': 'signed-in',
  'GET /:mode/account': 'person',
  'POST /:mode/account/organization': 'person',
  'POST /:mode/account/sign-out-everywhere': 'person',
  'GET /:mode/overview': 'overview.view',
  'GET /:mode/balance': 'balance.view',
  'GET /:mode/usage': 'usage.view',
  'GET /:mode/usage.csv': 'usage.view',
  'GET /:mode/jobs': 'jobs.view',
  'GET /:mode/jobs/:id': 'jobs.view',
  'GET /:mode/live': 'jobs.view',
  'GET /:mode/jobs/:id/results.csv': 'results.view',
  'GET /:mode/jobs/:id/valid.csv': 'results.view',
  'POST /:mode/jobs/:id/cancel': 'jobs.change',
  'GET /:mode/jobs/:id/erase': 'jobs.change',
  'POST /:mode/jobs/:id/erase': 'jobs.change',
  'POST /:mode/jobs/:id/deliveries/:delivery/resend': 'webhooks.change',
  'GET /:mode/upload': 'jobs.change',
  'POST /:mode/upload/quote': 'jobs.change',
  'POST /:mode/upload/job': 'jobs.change',
  'GET /:mode/keys': 'keys.view',
  'POST /:mode/keys': 'keys.change',
  'GET /:mode/keys/:key/roll': 'keys.change',
  'POST /:mode/keys/:key/roll': 'keys.change',
  'GET /:mode/keys/:key/revoke': 'keys.change',
  'POST /:mode/keys/:key/revoke': 'keys.change',
  'GET /:mode/webhooks': 'webhooks.view',
  'POST /:mode/webhooks': 'secrets.change',
  'GET /:mode/webhooks/:endpoint': 'webhooks.view',
  'POST /:mode/webhooks/:endpoint/enabled': 'webhooks.change',
  'POST /:mode/webhooks/:endpoint/delete': 'webhooks.change',
  'POST /:mode/webhooks/:endpoint/secret': 'secrets.change',
  'POST /:mode/webhooks/low-balance': 'webhooks.change',
  'GET /:mode/settings': 'settings.view',
  'POST /:mode/settings/freshness': 'settings.change',
  'POST /:mode/settings/webhook-secret': 'secrets.change',
  'GET /:mode/access-log': 'access_log.view',
  'GET /:mode/access-log.csv': 'access_log.view',
  'GET /:mode/people': 'people.view',
  'POST /:mode/people': 'people.change',
  'GET /:mode/people/:person': 'people.view',
  'POST /:mode/people/:person/role': 'people.change',
  'POST /:mode/people/:person/sign-out': 'people.change',
  'POST /:mode/people/:person/remove': 'people.change',
  'GET /pipeline': 'operator',
  'GET /pipeline/figures': 'operator',
}

/**
 * The access of a route by its method and path.
 * @throws Error for a route that is not listed.
 */
export function accessOf (method: string, path: string): Access {
  if (path.startsWith('/static/')) return 'everybody'
  const access = ROUTES[`${method === 'HEAD' ? 'GET' : method} ${path}`]
  if (access === undefined) {
    throw new Error(`route ${method} ${path} has no access: add it to ROUTES in roles.ts`)
  }
  return access
}

/** Whether a role has a permission. */
export function mayDo (role: Role, permission: Permission): boolean {
  return (PERMISSIONS[permission] as readonly Role[]).includes(role)
}

/** Whether an access is a permission of roles; others are no matter of roles. */
export function isPermission (access: Access): access is Permission {
  return Object.hasOwn(PERMISSIONS, access)
}

/** Whether an access needs a recent authentication. */
export function needsRecent (access: Access): boolean {
  return RECENT.has(access)
}

/** The roles with a permission, for a sentence: `owner or developer`. */
export function rolesWith (permission: Permission): string {
  return PERMISSIONS[permission].join(' or ')
}

/** What each role may do, as a table with a heading, for the documentation. */
export function roleTable (): readonly (readonly string[])[] {
  const permissions = Object.keys(PERMISSIONS) as Permission[]
  return [['permission', ...ROLES], ...permissions.map(name => [
    `\`${name}\`${needsRecent(name) ? ' *' : ''}`,
    ...ROLES.map(role => mayDo(role, name) ? 'yes' : '-'),
  ])]
}
