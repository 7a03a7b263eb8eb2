import type { Redis } from 'ioredis'
import type { Static } from 'typebox'
import { createPartners, type Partners } from '../accounts/partners.ts'
import { hasTopic } from '../lib/kafka/admin.ts'
import { kafkaConnectionOf } from '../lib/kafka/connection.ts'
import { createKeyRing } from '../lib/key-ring.ts'
import { topicName } from '../lib/topics.ts'
import type { handbackConfig } from './config.ts'
import type { HandbackParts } from './stage.ts'

/** The registered partners, and which of them are gone for good. */
export function connectPartners (
  config: Static<typeof handbackConfig>, redis: Redis
): Pick<HandbackParts, 'partners' | 'isGone'> {
  const partners = createPartners({ redis, ring: createKeyRing(config) })
  const connection = kafkaConnectionOf(config)
  const isThere = (topic: string) => hasTopic(connection, topic)
  return { partners, isGone: createGone(partners, isThere) }
}

/**
 * Tells whether a partner is revoked and its topic of results deleted. A topic that is missing
 * although its partner is registered may be a slip of an operator: that is waited for.
 */
export function createGone (
  partners: Pick<Partners, 'find'>, isThere: (topic: string) => Promise<boolean>
): HandbackParts['isGone'] {
  return async partner => {
    const registered = await partners.find(partner)
    if (registered === undefined || registered.revokedAtMs === 0) return false
    return !await isThere(topicName('feeds.finished', { partner }))
  }
}
