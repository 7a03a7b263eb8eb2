import Type, { type Static } from 'typebox'
import {
  commonConfig, defineConfig, messageKeys, pick, registryKeys, rootKeys, stateKeys,
} from '../runtime/platform/config.ts'
import { providersConfig } from '../jobs/checks.ts'

const duration = (ms: number, description: string) =>
  Type.Integer({ default: ms, minimum: 1, description })

/** Configuration of `feed`; the defaults are the values of the public interface. */
export const feedConfig = defineConfig({
  ...pick(commonConfig, [
    ...messageKeys, ...registryKeys, ...stateKeys, ...rootKeys.partners,
    'CACHE_SECRET_ACTIVE',
  ]),
  ...providersConfig,
  FEED_BATCH_CONTACTS: Type.Integer({
    default: 100_000,
    minimum: 1,
    maximum: 100_000,
    description: 'Maximum number of contacts in a batch of a feed.',
  }),
  FEED_BATCH_AGE_MS: duration(5_000, 'Maximum age of a batch of a feed.'),
  FEED_ACCEPT_WITHIN_MS: duration(60_000, 'Timeout for the preflight of a feed job.'),
  PARTNERS_POLL_MS: duration(1_000, 'Poll interval for new and revoked partners.'),
  FEED_PAUSE_AFTER_MS: duration(
    10_000, 'A partner without balance or a free slot for this time is paused; its contacts ' +
      'leave the memory.'),
  FEED_PAUSE_MS: duration(60_000, 'Maximum pause of a partner without balance or slot.'),
  FEED_PAUSE_POLL_MS: duration(500, 'Poll interval for the balance and slots of a paused partner.'),
  MAX_BUFFERED_CONTACTS: Type.Integer({
    default: 500_000,
    minimum: 1,
    description: 'Maximum number of contacts of all feeds in memory.',
  }),
})

export type FeedConfig = Static<typeof feedConfig>
