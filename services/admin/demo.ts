import { randomBytes } from 'node:crypto'
import { DEFAULT_SCOPES } from '../accounts/api-keys.ts'
import { type Mode, MODES, tenantOf } from '../accounts/tenant.ts'
import type { Environment } from '../runtime/platform/command-environment.ts'
import { withWorkspace } from './deps.ts'
import { createPartner } from './partners.ts'
import { addOrganization } from './organizations.ts'

/** A demonstration organization and how to use it. */
export type DemoOrganization = {
  readonly orgId: string
  readonly keys: Readonly<Record<Mode, string>>
  readonly webhookSecret: string
}

/** The live credit of a demonstration organization: 1,000 USD. */
const DEMO_CREDIT_MICROS = 1_000_000_000

/**
 * Creates a demonstration organization with a live key, a test key, a webhook secret and 1,000 USD
 * of live credit. With DEMO_ORG in `env` it only creates keys for that organization.
 */
export async function createDemo (env: Environment): Promise<DemoOrganization> {
  return withWorkspace(env, async deps => {
    const orgId = env.DEMO_ORG || (await addOrganization(deps, 'Demonstration')).id
    if (!env.DEMO_ORG) {
      await deps.wallet.topUp(tenantOf(orgId, 'live'), {
        id: `demo:${orgId}`,
        amountMicros: DEMO_CREDIT_MICROS,
        reason: 'demonstration',
        note: 'demonstration credit',
      })
    }
    const key = { orgId, scopes: DEFAULT_SCOPES, createdBy: 'demo' }
    const [live = '', test = ''] = await Promise.all(MODES.map(async mode =>
      (await deps.apiKeys.create({ ...key, mode })).secret))
    return { orgId, keys: { live, test }, webhookSecret: await deps.webhookSecrets.show(orgId) }
  })
}

/** Whether an organization was erased, so that its keys no longer work. */
export const isErased = (env: Environment, orgId: string): Promise<boolean> =>
  withWorkspace(env, async ({ organizations }) =>
    (await organizations.find(orgId))?.erasedAtMs !== undefined)

/** The name and the key of a demonstration partner. */
export type DemoPartner = { readonly partner: string, readonly key: string }

/** Creates a partner of an organization to try bulk feeds with; its contacts are checked live. */
export async function createDemoPartner (env: Environment, orgId: string): Promise<DemoPartner> {
  // A random name, because the name of a partner can never be reused.
  const name = `demo-${randomBytes(4).toString('hex')}`
  const options = {
    org: orgId, name, mode: 'live', partitions: '4', trial: 'yes', random: 'yes',
  }
  const created = await withWorkspace(env, deps => createPartner(deps, options))
  return { partner: name, key: String(created['key']) }
}
