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
