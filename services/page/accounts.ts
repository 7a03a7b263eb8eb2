import { createApiKeys } from '../accounts/api-keys.ts'
import {
  connectOrganizationKeys, type RootKeySettings,
} from '../accounts/connect-organization-keys.ts'
import { createOrganizations } from '../accounts/organizations.ts'
import { createPeople } from '../accounts/people.ts'
import { createWebhookSecrets } from '../webhooks/secrets.ts'
import type { MessageKeySettings } from '../runtime/crypto/mac.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'
import type { ServiceContext } from '../runtime/platform/run.ts'

/** The accounts that the page reads and changes, in the state Redis. */
export function accountsOf (
  state: RedisClient,
  settings: RootKeySettings<'webhooks'> & Pick<MessageKeySettings, 'MESSAGE_KEYS'>,
  { metrics }: Pick<ServiceContext, 'metrics'>
) {
  const keys = connectOrganizationKeys('webhooks', settings, { state, metrics })
  return {
    organizations: createOrganizations(state),
    people: createPeople({ redis: state, keys, messageKeys: settings.MESSAGE_KEYS }),
    apiKeys: createApiKeys(state),
    webhookSecrets: createWebhookSecrets({ redis: state, keys }),
  }
}
