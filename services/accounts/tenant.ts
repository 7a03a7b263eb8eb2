/** The mode of a key; test traffic has its own data and balance. */
export const MODES = ['live', 'test'] as const

export type Mode = typeof MODES[number]

/** A tenant, the unit of isolation: an organization in one mode. */
export type TenantParts = { readonly orgId: string, readonly mode: Mode }

/** The tenant's name, `<organization id>.<mode>`, used in keys, topics and tables. */
export function tenantOf (orgId: string, mode: Mode): string {
  return `${orgId}.${mode}`
}

/** Ends the name of a tenant of samples. */
const SAMPLE = '-sample'

/**
 * The tenant in which samples of another one are verified, free: no API key has it, so their rows
 * can be read by nobody, and its cache answers no job of the customer.
 */
export function sampleTenantOf (tenant: string): string {
  return `${tenant}${SAMPLE}`
}

/** Whether a tenant is one of samples. */
export function isSampleTenant (tenant: string): boolean {
  return tenant.endsWith(SAMPLE)
}

/** All tenants of an organization, those of samples included. */
export function tenantsOf (orgId: string): readonly string[] {
  return MODES.map(mode => tenantOf(orgId, mode))
    .flatMap(tenant => [tenant, sampleTenantOf(tenant)])
}

/** The organization and mode of a tenant's name; throws if the text names no tenant. */
export function partsOf (tenant: string): TenantParts {
  if (!isTenant(tenant)) {
    throw new Error(`"${tenant}" names no tenant; use <organization id>.<mode>`)
  }
  const dot = tenant.lastIndexOf('.')
  return { orgId: tenant.slice(0, dot), mode: modeIn(tenant) as Mode }
}

/**
 * The tenant that shares its slots for jobs with this one: of the same organization, in the other
 * mode. Samples share those of their own mode.
 */
export function siblingOf (tenant: string): string {
  const { orgId, mode } = partsOf(tenant)
  if (isSampleTenant(tenant)) return tenantOf(orgId, mode)
  return tenantOf(orgId, mode === 'live' ? 'test' : 'live')
}

/** Whether a text names a tenant. */
export function isTenant (text: string): boolean {
  return text.lastIndexOf('.') > 0 && isMode(modeIn(text))
}

function modeIn (tenant: string): string {
  const end = isSampleTenant(tenant) ? -SAMPLE.length : undefined
  return tenant.slice(tenant.lastIndexOf('.') + 1, end)
}

/** Whether a text is one of the modes. */
export function isMode (text: string): text is Mode {
  return (MODES as readonly string[]).includes(text)
}
