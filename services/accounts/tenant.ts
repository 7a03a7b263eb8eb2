/** The mode of a key; test traffic has its own data and balance. */
export const MODES = ['live', 'test'] as const

export type Mode = typeof MODES[number]

/** A tenant, the unit of isolation: an organization in one mode. */
export type TenantParts = { readonly orgId: string, readonly mode: Mode }

/** The tenant's name, `<organization id>.<mode>`, used in keys, topics and tables. */
export function tenantOf (orgId: string, mode: Mode): string {
  return `${orgId}.${mode}`
}

/** Follows the organization in the name of a tenant of samples. */
const SAMPLE = '-sample'

/**
 * The tenant in which samples of another one are verified, free: no API key has it, so their rows
 * can be read by nobody, and its cache answers no job of the customer.
 */
export function sampleTenantOf (tenant: string): string {
  const dot = tenant.lastIndexOf('.')
  return `${tenant.slice(0, dot)}${SAMPLE}${tenant.slice(dot)}`
}

/** Whether a tenant is one of samples. */
export function isSampleTenant (tenant: string): boolean {
  return nameIn(tenant).endsWith(SAMPLE)
}

/** All tenants of an organization, those of samples included. */
export function tenantsOf (orgId: string): readonly string[] {
  return MODES.map(mode => tenantOf(orgId, mode))
    .flatMap(tenant => [tenant, sampleTenantOf(tenant)])
}

/** The organization and mode of a tenant's name; throws if the text names no tenant. */
export function parseTenant (tenant: string): TenantParts {
  if (!isTenant(tenant)) {
    throw new Error(`"${tenant}" names no tenant; use <organization id>.<mode>`)
  }
  const name = nameIn(tenant)
  const orgId = isSampleTenant(tenant) ? name.slice(0, -SAMPLE.length) : name
  return { orgId, mode: modeIn(tenant) as Mode }
}

/**
 * The tenant that shares its slots for jobs with this one: of the same organization, in the other
 * mode. Samples have slots of their own.
 */
export function siblingOf (tenant: string): string {
  const { orgId, mode } = parseTenant(tenant)
  const sibling = tenantOf(orgId, mode === 'live' ? 'test' : 'live')
  return isSampleTenant(tenant) ? sampleTenantOf(sibling) : sibling
}

/** Whether a text names a tenant. */
export function isTenant (text: string): boolean {
  return text.lastIndexOf('.') > 0 && isMode(modeIn(text))
}

const nameIn = (tenant: string) => tenant.slice(0, tenant.lastIndexOf('.'))
const modeIn = (tenant: string) => tenant.slice(tenant.lastIndexOf('.') + 1)

/** Whether a text is one of the modes. */
export function isMode (text: string): text is Mode {
  return (MODES as readonly string[]).includes(text)
}
