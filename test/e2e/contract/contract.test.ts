import { afterAll, beforeAll, expect, it } from 'vitest'
import { MODES, tenantOf } from '../../../services/accounts/tenant.ts'
import { runAudit } from '../../support/audit.ts'
import './requests.ts'
import './idempotency.ts'
import './money.ts'
import './jobs.ts'
import './results.ts'
import './errors.ts'
import './keys.ts'
import './freshness.ts'
import './webhooks.ts'
import './vendor.ts'
import './neutrality.ts'
import './customer-claims.ts'
import { proves } from './rows.ts'
import { customers, shared, start, stop, workspace } from './support.ts'

beforeAll(start)
afterAll(stop)

it('all of it ' + proves('leaves rows and money that add up'), async () => {
  const tenants = customers.flatMap(org => MODES.map(mode => tenantOf(org, mode)))
  // Nothing but the first money ever moved in the wallets of some.
  const seqs = await workspace(({ wallet }) => Promise.all(tenants.map(async tenant =>
    (await wallet.balance(tenant)).seq)))
  const only = tenants.filter((_, index) => (seqs[index] ?? 0) > 1)
  expect(only.length).toBeGreaterThan(50)
  expect((await runAudit(shared().environment.env, { only })).breaches).toEqual([])
})
