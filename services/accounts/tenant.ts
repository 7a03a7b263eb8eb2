/** The mode of a key; test traffic has its own data and balance. */
export const MODES = ['live', 'test'] as const

export type Mode = typeof MODES[number]

/** A tenant, the unit of isolation: an organization in one mode. */
export type TenantParts = { readonly orgId: string, readonly mode: Mode }

/** The tenant's name, `<organization id>.<mode>`, used in keys, topics and tables. */
export function tenantOf (orgId: string, mode: Mode): string {
  return `${orgId}.${mode}`
}

/** The organization and mode of a tenant's name; throws if the text names no tenant. */
export function partsOf (tenant: string): TenantParts {
  if (!isTenant(tenant)) {
    throw new Error(`"${tenant}" names no tenant; use <organization id>.<mode>`)
  }
  const dot = tenant.lastIndexOf('.')
  return { orgId: tenant.slice(0, dot), mode: tenant.slice(dot + 1) as Mode }
}

/** The tenant of the same organization in the other mode. */
export function siblingOf (tenant: string): string {
  const { orgId, mode } = partsOf(tenant)
  return tenantOf(orgId, mode === 'live' ? 'test' : 'live')
}

/** Whether a text names a tenant. */
export function isTenant (text: string): boolean {
  const dot = text.lastIndexOf('.')
  return dot > 0 && isMode(text.slice(dot + 1))
}

/** Whether a text is one of the modes. */
export function isMode (text: string): text is Mode {
  return (MODES as readonly string[]).includes(text)
}
