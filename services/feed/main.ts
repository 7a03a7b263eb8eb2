import { connectOrganizationKeys } from '../accounts/connect-organization-keys.ts'
import { createPartners } from '../accounts/partners.ts'
import { connectSealingKeys } from '../jobs/job-keys.ts'
import { OutcomeWaiter, subscribeToJobs } from '../jobs/job-waiter.ts'
import { createMessageCodec } from '../jobs/message-codec.ts'
import { createJobStore } from '../jobs/store.ts'
import { createSubmitter, type Submitter } from '../jobs/submit.ts'
import { createWallet } from '../money/wallet.ts'
import { connectDeps, type Connections, openSubscriber } from '../runtime/engine/connections.ts'
import { createDeadLetters } from '../runtime/engine/dead-letters.ts'
import { createEmitter } from '../runtime/engine/stage.ts'
import { createMessageMac } from '../runtime/crypto/mac.ts'
import { watchJobPartitions } from '../runtime/platform/topics.ts'
import { Capacity } from '../runtime/platform/limits.ts'
import { createLogThrottle } from '../runtime/platform/log.ts'
import { run, type Running, type ServiceContext } from '../runtime/platform/run.ts'
import { feedConfig, type FeedConfig } from './config.ts'
import { connectRejections } from './contact.ts'
import { createPartnerFeed, startPartnerFeeds, type PartnerFeedsDeps } from './partner-feeds.ts'
import { createCursors, createMarkStore } from './replay-guard.ts'

export type Connected =
  Pick<Connections, 'bus' | 'codec' | 'state' | 'clock'> & Partial<Pick<Connections, 'gate'>> &
  Pick<ServiceContext, 'log' | 'metrics' | 'fatal'> &
  { readonly submit: Submitter }

const LOG_REPLAYS_EVERY_MS = 60_000

/** The dependencies of all partner feeds, from the configuration and open connections. */
export function feedDeps (
  config: FeedConfig, connected: Connected
): PartnerFeedsDeps & { readonly buffered: Capacity } {
  const { bus, codec, state, clock, gate, log, metrics, fatal, submit } = connected
  const buffered = new Capacity(config.MAX_BUFFERED_CONTACTS)
  const partners = createPartners({
    redis: state,
    keys: connectOrganizationKeys('partners', config, { state, metrics }),
    now: clock.now,
  })
  const configured = new Set(Object.entries(config.PROVIDERS)
    .filter(([, names]) => names.length > 0).map(([service]) => service))
  const now = () => performance.now()
  const common = {
    codec,
    metrics,
    gate,
    submit,
    clock,
    partners,
    buffered,
    cursors: createCursors(state),
    marks: createMarkStore(state),
    // Partners are responsible for their messages: no number of dead letters stops the others.
    deadLetters: createDeadLetters({
      stage: 'feed',
      producer: () => bus.producer('dead'),
      metrics,
      limit: Infinity,
      now: clock.now,
    }),
    rejections: connectRejections({ bus, codec }, clock),
    isReplay: createMessageMac(config).isReplay,
    batchLimits: { contacts: config.FEED_BATCH_CONTACTS, ageMs: config.FEED_BATCH_AGE_MS },
    backpressure: {
      wallet: createWallet(state),
      redis: state,
      maxPauseMs: config.FEED_PAUSE_MS,
      pollMs: config.FEED_PAUSE_POLL_MS,
    },
    pauseAfterMs: config.FEED_PAUSE_AFTER_MS,
    now,
    ...logging(log),
  }
  return {
    partners,
    bus,
    createFeed: partner => createPartnerFeed(partner, {
      ...common,
      isConfigured: service => partner.mode === 'test' || configured.has(service),
      onRetry: error => log.warn(
        { err: error, partner: partner.name }, 'dependency unavailable, retrying'),
    }),
    pollMs: config.PARTNERS_POLL_MS,
    log,
    now,
    fail: fatal,
    buffered,
  }
}

function logging (log: ServiceContext['log']) {
  const isReplayLogged = createLogThrottle(LOG_REPLAYS_EVERY_MS)
  return {
    onBroken: (error: unknown, partner: string) =>
      log.error({ err: error, partner }, 'partner feed failed, retrying'),
    onLost: (error: unknown, cursor: object) =>
      log.warn({ err: error, ...cursor }, 'outcome of a feed job unknown, rereading the cursor'),
    onReplay: (replay: { readonly partner: string }) => {
      if (isReplayLogged(replay.partner)) log.warn(replay, 'replayed contact ignored')
    },
  }
}

/** Wires the stage and starts it. */
async function startFeed (
  config: FeedConfig, context: ServiceContext
): Promise<Running> {
  const connected = await connectDeps(config, context, [
    'bus', 'codec', 'state', 'clock', 'gate',
  ])
  const submit = await connectFeedSubmitter(config, connected, context)
  const deps = feedDeps(config, { ...connected, submit, fatal: context.fatal })
  const feeds = startPartnerFeeds(deps)
  const { metrics } = context
  metrics.watch('stage_held_messages', { stage: 'feed', group: 'feed' }, () => deps.buffered.used())
  for (const state of ['running', 'paused', 'failing'] as const) {
    metrics.watch('feed_partners', { state }, () =>
      [...feeds.states().values()].filter(current => current === state).length)
  }
  return feeds
}

/** Submits jobs as the REST API does, on open connections. */
async function connectFeedSubmitter (
  config: FeedConfig, connected: Pick<Connections, 'bus' | 'codec' | 'state' | 'clock'>,
  { onStop }: ServiceContext
): Promise<Submitter> {
  const { bus, codec, state, clock } = connected
  const store = createJobStore(state)
  const { CACHE_SECRET_ACTIVE: tokenVersion, FEED_ACCEPT_WITHIN_MS: acceptWithinMs } = config
  // It seals all rows of a job before it is refused.
  const keys = connectSealingKeys(state, 2 * acceptWithinMs)
  const notifications = await subscribeToJobs(openSubscriber(state, { onStop }))
  const outcomes = new OutcomeWaiter({ store, notifications, clock })
  onStop(() => outcomes.stop())
  const messageCodec = createMessageCodec({ codec, keys })
  const emitter = createEmitter({ messageCodec, producerOf: bus.producer })
  const partitionsOf = watchJobPartitions(bus)
  return createSubmitter({
    store, keys, emitter, outcomes, clock, tokenVersion, acceptWithinMs, partitionsOf,
  })
}

export const feedService = { config: feedConfig, start: startFeed }

if (import.meta.main) await run('feed', feedConfig, startFeed)
