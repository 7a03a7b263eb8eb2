import { SCOPES } from '../accounts/api-keys.ts'
import { MODES, tenantOf, type Mode } from '../accounts/tenant.ts'
import type { Environment } from './environment.ts'
import { withWorkspace, type WorkspaceParts } from './parts.ts'

export type Demo = {
  readonly orgId: string
  readonly keys: Readonly<Record<Mode, string>>
  readonly webhookSecret: string
}

/** 1,000 USD. */
const CREDIT_MICROS = 1_000_000_000

/**
 * Makes an organization to try the product with: a live and a test key, a webhook secret, and
 * 1,000 USD of live credit. With DEMO_ORG in `env` only the keys are new and no money is added.
 */
export async function createDemo (env: Environment): Promise<Demo> {
  return withWorkspace(env, async parts => {
    const orgId = env.DEMO_ORG || await newOrganization(parts)
    const [live = '', test = ''] = await Promise.all(MODES.map(async mode =>
      (await parts.apiKeys.create({ orgId, mode, scopes: SCOPES })).secret))
    return { orgId, keys: { live, test }, webhookSecret: await parts.webhookSecrets.show(orgId) }
  })
}

async function newOrganization ({ organizations, wallet }: WorkspaceParts): Promise<string> {
  const { id } = await organizations.create('Demonstration')
  await Promise.all(MODES.map(mode => wallet.admit(tenantOf(id, mode))))
  await wallet.topUp(tenantOf(id, 'live'), {
    id: `demo:${id}`, amountMicros: CREDIT_MICROS, reason: 'demonstration credit',
  })
  return id
}
