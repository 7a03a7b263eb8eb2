import type { RouteOptions } from 'fastify'
import { tenantOf } from '../../../accounts/tenant.ts'
import { forCustomer, type PageParts } from '../context.ts'
import { balanceView, overviewView } from '../views/balance.ts'
import { sendPage } from './sign-in.ts'

const LATEST_JOBS = 5
const MOVEMENTS = 50

/** The overview, and the balance with its movements. */
export function balanceRoutes (parts: PageParts): readonly RouteOptions[] {
  return [
    {
      method: 'GET',
      url: '/:mode/overview',
      config: { access: 'customer' },
      handler: forCustomer(parts, async ({ visit, reply }) => {
        const [balance, { data }] = await Promise.all([
          visit.client.balance(), visit.client.jobsPage({ limit: LATEST_JOBS }),
        ])
        return sendPage(reply, overviewView(visit, { balance, jobs: data }))
      }),
    },
    {
      method: 'GET',
      url: '/:mode/balance',
      config: { access: 'customer' },
      handler: forCustomer(parts, async ({ visit, request, reply }) => {
        const { orgId, mode } = visit.tenant
        const before = numberIn(request.query)
        const [balance, page] = await Promise.all([
          visit.client.balance(),
          parts.movements(tenantOf(orgId, mode), { limit: MOVEMENTS, before }),
        ])
        return sendPage(reply, balanceView(visit, { balance, page }))
      }),
    },
  ]
}

function numberIn (query: unknown): number | undefined {
  const { before } = query as { readonly before?: unknown }
  return /^\d{1,15}$/.test(String(before)) ? Number(before) : undefined
}
