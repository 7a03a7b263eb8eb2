/** A key's mode; test traffic has data and a balance of its own. */
export const MODES = ['live', 'test'] as const

export type Mode = typeof MODES[number]

/** What belongs together and apart from everything else: an organization in one mode. */
export type TenantParts = { readonly orgId: string, readonly mode: Mode }

/** The tenant's name, `<organization id>.<mode>`, as keys, topics and tables carry it. */
export function tenantOf (orgId: string, mode: Mode): string {
  return `${orgId}.${mode}`
}

/** The organization and mode of a tenant's name; throws on a text that names none. */
export function partsOf (tenant: string): TenantParts {
  if (!isTenant(tenant)) throw new Error('A tenant is named <organization id>.<mode>.')
  const dot = tenant.lastIndexOf('.')
  return { orgId: tenant.slice(0, dot), mode: tenant.slice(dot + 1) as Mode }
}

/** The tenant of the same organization in the other mode. */
export function siblingOf (tenant: string): string {
  const { orgId, mode } = partsOf(tenant)
  return tenantOf(orgId, mode === 'live' ? 'test' : 'live')
}

/** Whether a text is the name of a tenant, as the headers of a message may hold anything. */
export function isTenant (text: string): boolean {
  const dot = text.lastIndexOf('.')
  return dot > 0 && isMode(text.slice(dot + 1))
}

/** Whether a text is one of the modes. */
export function isMode (text: string): text is Mode {
  return (MODES as readonly string[]).includes(text)
}
