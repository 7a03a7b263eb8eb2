import { createApiKeys } from '../../accounts/api-keys.ts'
import {
  connectOrganizationKeys, type RootKeySettings,
} from '../../accounts/connect-organization-keys.ts'
import { createOrganizations } from '../../accounts/organizations.ts'
import { createPeople } from '../../accounts/people.ts'
import { createWebhookSecrets } from '../../accounts/webhook-secrets.ts'
import type { RedisClient } from '../../platform/redis.ts'

/** The accounts that the page reads and changes, in the state Redis. */
export function accountsOf (state: RedisClient, settings: RootKeySettings<'webhooks'>) {
  const keys = connectOrganizationKeys('webhooks', settings, { state })
  return {
    organizations: createOrganizations(state),
    people: createPeople(state),
    apiKeys: createApiKeys(state),
    webhookSecrets: createWebhookSecrets({ redis: state, keys }),
  }
}
