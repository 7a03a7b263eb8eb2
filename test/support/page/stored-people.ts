import { createPeople } from '../../../services/accounts/people.ts'
import type { RedisClient } from '../../../services/runtime/platform/redis.ts'
import { organizationKeysOf, webhookKeysIn } from '../keys/organization-keys.ts'
import { messageKeysOf } from '../keys/signed.ts'

/** People in a Redis whose organizations all have the same key, made of this byte. */
export const peopleOn = (
  redis: RedisClient,
  { now, byte = 1 }: { readonly now?: () => number, readonly byte?: number } = {}
) => createPeople({
  redis,
  keys: organizationKeysOf(byte),
  messageKeys: messageKeysOf().MESSAGE_KEYS,
  ...now && { now },
})

/** People as the services of a stack have them. */
export const peopleIn = (env: Record<string, string>, redis: RedisClient) =>
  createPeople({
    redis, keys: webhookKeysIn(env, redis), messageKeys: messageKeysOf(env).MESSAGE_KEYS,
  })
