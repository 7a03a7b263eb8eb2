import { tenantOf } from '../../../services/accounts/tenant.ts'
import { isInfrastructure } from '../../../services/runtime/platform/errors.ts'
import { retryForever } from '../../../services/runtime/platform/retry.ts'
import { createDemo, type Demo } from '../../../services/admin/demo.ts'
import { withWorkspace } from '../../../services/admin/deps.ts'

type Env = Readonly<Record<string, string>>

/** 10,000 USD. */
const PLENTY = { id: 'plenty', amountMicros: 10_000_000_000, reason: 'test' }

/** An organization with keys and plenty of money, once its money may be written to. */
export async function createRichDemo (env: Env): Promise<Demo> {
  return await retryForever(async () => {
    const demo = await createDemo(env)
    await withWorkspace(env, ({ wallet }) => wallet.topUp(tenantOf(demo.orgId, 'live'), PLENTY))
    return demo
  }, { when: isInfrastructure, maxMs: 500 })
}
