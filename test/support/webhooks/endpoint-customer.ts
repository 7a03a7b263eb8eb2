import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import type { AttemptBody } from '../../../schemas/api/deliveries.ts'
import type { EventType } from '../../../schemas/api/event.ts'
import { createOrganizations } from '../../../services/accounts/organizations.ts'
import { tenantOf } from '../../../services/accounts/tenant.ts'
import { createClient } from '../../../services/client/client.ts'
import { runAudit } from '../audit.ts'
import { createOrganizationWith } from '../organizations.ts'

type Options = {
  readonly env: Readonly<Record<string, string>>
  readonly state: Redis
  readonly baseUrl: string
  /** Of a receiver on this machine. */
  readonly port: number
}

/** A live customer with credit for 20 rows, whom `balance.low` warns below that. */
export async function startEndpointCustomer ({ env, state, baseUrl, port }: Options) {
  const { orgId, keys } = await createOrganizationWith(env, { availableMicros: 40_000 })
  await createOrganizations(state).setPolicy(orgId, { lowBalanceMicros: 40_000 })
  const customer = createClient({ baseUrl, apiKey: keys.live })
  /** Creates an endpoint with a path of its own, where the receiver answers 200. */
  const create = async (more: { events?: EventType[], enabled?: boolean } = {}) => {
    const path = `/200/${randomUUID()}`
    const url = `http://127.0.0.1:${port}${path}`
    return { path, ...await customer.createWebhookEndpoint({ url, ...more }) }
  }
  const attemptsOf = async (id: string) => {
    const found: AttemptBody[] = []
    for await (const one of customer.endpointDeliveries(id)) found.push(one)
    return found
  }
  const audit = () => runAudit(env, { only: [tenantOf(orgId, 'live')] })
  return { customer, create, attemptsOf, audit }
}
