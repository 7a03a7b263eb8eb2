import { createApiKeys } from '../../services/accounts/api-keys.ts'
import { createClient, type Client } from '../../services/client/client.ts'
import type { RedisClient } from '../../services/runtime/platform/redis.ts'
import { createTestKey } from './organizations.ts'
import { createTestPartner } from './feeds/partner.ts'
import { peopleIn } from './page/stored-people.ts'

/** The address of the person that a busy customer has. */
export const PERSON = 'erased.person@example.org'

/** The check of this number is unavailable for a quarter of an hour in test mode. */
const UNAVAILABLE = '+12127370005'

type Place = {
  readonly env: Record<string, string>
  readonly state: RedisClient
  readonly baseUrl: string
  readonly webhookUrl: string
}

/** A customer with a person, a partner, and a job of test mode that does not end by itself. */
export async function createBusyCustomer ({ env, state, baseUrl, webhookUrl }: Place) {
  const partner = await createTestPartner(env, { usd: '1' })
  const { org: orgId } = partner
  const person = await peopleIn(env, state)
    .add(orgId, { email: PERSON, role: 'owner', createdBy: PERSON })
  const { secret } = await createApiKeys(state).create({
    orgId, mode: 'live', scopes: ['jobs:write', 'jobs:read'], createdBy: person?.id ?? '',
  })
  const clientOf = (apiKey: string): Client => createClient({ baseUrl, apiKey })
  const running = await clientOf(await createTestKey(state, orgId)).createJob({
    service: 'phone-validation', inputs: [UNAVAILABLE], webhook_url: webhookUrl,
  })
  return { partner, orgId, live: clientOf(secret), running }
}
