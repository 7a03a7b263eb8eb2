import type { Static } from 'typebox'
import type { Partners } from '../accounts/partners.ts'
import { createCursors } from '../jobs/cursors.ts'
import type { Submitter } from '../jobs/submit.ts'
import type { Parts } from '../lib/connect.ts'
import { createDeadLetters } from '../lib/dead-letters.ts'
import { createLogThrottle } from '../lib/log-throttle.ts'
import type { Life } from '../lib/run.ts'
import { createWallet } from '../money/wallet.ts'
import { connectPartnerResults } from '../records/partner-results.ts'
import type { feedConfig } from './config.ts'
import { createFaults } from './faults.ts'
import { createMarkStore } from './marks.ts'
import type { PartnerFeedParts } from './partner-feed.ts'

type Config = Static<typeof feedConfig>

export type Connected =
  Pick<Parts, 'bus' | 'codec' | 'state' | 'clock'> & Partial<Pick<Parts, 'gate'>> &
  Pick<Life, 'log' | 'metrics'>

export type Given = { readonly submitter: Submitter, readonly fatal: Life['fatal'] }

const LOG_REPLAYS_EVERY_MS = 60_000

/** What the feeds of all partners have in common. */
export function partnerFeedParts (
  config: Config, { bus, codec, state, clock, gate, log, metrics }: Connected,
  { submitter, fatal, partners }: Given & { readonly partners: Partners }
): Omit<PartnerFeedParts, 'isConfigured' | 'held'> {
  const isReplayLogged = createLogThrottle(LOG_REPLAYS_EVERY_MS)
  const results = connectPartnerResults({ bus, codec }, 'feed')
  return {
    bus,
    codec,
    metrics,
    gate,
    submitter,
    clock,
    partners,
    cursors: createCursors(state),
    marks: createMarkStore(state),
    // What partners send is theirs to answer for: no number of dead letters stops the others.
    deadLetters: createDeadLetters({
      stage: 'feed',
      producer: () => bus.producer('feed.dead'),
      metrics,
      limit: Infinity,
      now: clock.now,
    }),
    faults: createFaults({ results, now: clock.now }),
    rules: { limit: config.BATCH_CONTACTS, ageMs: config.BATCH_AGE_MS },
    shortage: {
      wallet: createWallet(state),
      redis: state,
      longestMs: config.PAUSE_MS,
      pollMs: config.PAUSE_POLL_MS,
    },
    pauseAfterMs: config.PAUSE_AFTER_MS,
    fail: fatal,
    now: () => performance.now(),
    onBroken: (error, partner) =>
      log.error({ err: error, partner }, 'the feed of a partner broke and is begun anew'),
    onLost: error => log.warn({ err: error }, 'the outcome of a job is not known, asked again'),
    onReplay: replay => {
      if (isReplayLogged(replay.partner)) log.warn(replay, 'replayed contact ignored')
    },
    onRetry: error => log.warn({ err: error }, 'infrastructure is missing, waiting'),
  }
}
