import Type from 'typebox'
import { commonConfig, defineConfig, messageKeys, pick } from '../lib/config.ts'
import { providersConfig } from '../records/provider-names.ts'

const duration = (ms: number, description: string) =>
  Type.Integer({ default: ms, minimum: 1, description })

/** Configuration of `feed`; defaults are the values of the public interface. */
export const feedConfig = defineConfig({
  ...pick(commonConfig, [
    ...messageKeys, 'SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL', 'KEY_RING', 'KEY_ACTIVE',
    'CACHE_SECRET_ACTIVE',
  ]),
  ...providersConfig,
  BATCH_CONTACTS: Type.Integer({
    default: 100_000,
    minimum: 1,
    maximum: 100_000,
    description: 'A batch of a feed closes with so many contacts.',
  }),
  BATCH_AGE_MS: duration(5_000, 'A batch of a feed closes at this age.'),
  FEED_ACCEPT_WITHIN_MS: duration(60_000, 'How long a job of a feed waits for its preflight.'),
  PARTNERS_EVERY_MS: duration(1_000, 'Pause between two looks for new and revoked partners.'),
  PAUSE_AFTER_MS: duration(
    10_000, 'A partner without balance or slot that long is paused and its contacts let go of.'),
  PAUSE_MS: duration(
    60_000, 'Longest pause of such a partner, unless there is room for it earlier.'),
  PAUSE_POLL_MS: duration(500, 'Pause between two looks for that room.'),
  HELD_CONTACTS: Type.Integer({
    default: 500_000,
    minimum: 1,
    description: 'Contacts of all feeds in memory; no more are read above it.',
  }),
})
