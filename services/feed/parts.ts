import type { Static } from 'typebox'
import { createPartners } from '../accounts/partners.ts'
import { createKeyRing } from '../lib/key-ring.ts'
import type { feedConfig } from './config.ts'
import type { FeedsParts } from './feeds.ts'
import { startPartnerFeed } from './partner-feed.ts'
import { partnerFeedParts, type Connected, type Given } from './partner-parts.ts'
import { createRoom, type Room } from './room.ts'

type Config = Static<typeof feedConfig>

/** What the feeds are made of, from configuration and open connections. */
export function feedsParts (
  config: Config, connected: Connected, given: Given
): FeedsParts & { readonly held: Room } {
  const { state, log, clock } = connected
  const held = createRoom(config.HELD_CONTACTS)
  const partners = createPartners({ redis: state, ring: createKeyRing(config), now: clock.now })
  const common = { ...partnerFeedParts(config, connected, { ...given, partners }), held }
  const configured = new Set(Object.entries(config.PROVIDERS)
    .filter(([, names]) => names.length > 0).map(([service]) => service))
  return {
    partners,
    start: partner => startPartnerFeed(partner, {
      ...common,
      isConfigured: service => partner.mode === 'test' || configured.has(service),
    }),
    everyMs: config.PARTNERS_EVERY_MS,
    log,
    fail: given.fatal,
    held,
  }
}
