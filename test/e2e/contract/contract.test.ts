import { afterAll, beforeAll, expect, it } from 'vitest'
import { MODES, tenantOf } from '../../../services/accounts/tenant.ts'
import { runAudit } from '../../support/audit.ts'
import { IS_FAST } from '../../support/tier.ts'
import './requests.ts'
import './idempotency.ts'
import './money.ts'
import './jobs.ts'
import './results.ts'
import './errors.ts'
import './limits.ts'
import './keys.ts'
import './freshness.ts'
import './webhooks.ts'
import './vendor.ts'
import './neutrality.ts'
import { customers, shared, start, stop, workspace } from './support.ts'

/** The audit of one waits for a dozen queries. */
const AUDITED_EVERY = IS_FAST ? 10 : 1
const AT_ONCE = 4

beforeAll(start)
afterAll(stop)

it('all of it leaves rows and money that add up', async () => {
  const tenants = customers.flatMap(org => MODES.map(mode => tenantOf(org, mode)))
  // Nothing but the first money ever moved in the wallets of some.
  const seqs = await workspace(({ wallet }) => Promise.all(tenants.map(async tenant =>
    (await wallet.balance(tenant)).seq)))
  const moved = tenants.filter((_, index) => (seqs[index] ?? 0) > 1)
  expect(moved.length).toBeGreaterThan(50)
  const audited = moved.filter((_, index) => index % AUDITED_EVERY === 0)
  const { env } = shared().environment
  const audits = await Promise.all(Array.from({ length: AT_ONCE }, (_, part) =>
    runAudit(env, { only: audited.filter((_tenant, index) => index % AT_ONCE === part) })))
  expect(audits.flatMap(({ tenants }) => tenants)).toHaveLength(audited.length)
  expect(audits.flatMap(({ breaches }) => breaches)).toEqual([])
})
