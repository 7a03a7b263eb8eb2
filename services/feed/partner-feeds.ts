import type { Redis } from 'ioredis'
import type { Partner, PartnerKeys, Partners } from '../accounts/partners.ts'
import type { Cursors } from '../jobs/cursors.ts'
import type { Bus, Consumption, FetchedBatch } from '../kafka/bus.ts'
import { InconsistencyError, isInfrastructure } from '../platform/errors.ts'
import type { Log } from '../platform/log.ts'
import { backoffMs, retryForever, sleep } from '../platform/retry.ts'
import { topicName } from '../platform/topics.ts'
import type { Backpressure, BatchLimits } from './cursor.ts'
import { createIntake, type IntakeDeps } from './intake.ts'
import { createPartition, type Partition, type PartitionDeps } from './partition.ts'
import type { MarkStore } from './replay-guard.ts'
import { submitContacts, type SubmitDeps } from './submitter.ts'
import { moneyKeys } from '../money/redis-keys.ts'
import type { Wallet } from '../money/wallet.ts'

export type PartnerFeedsDeps = {
  readonly partners: Pick<Partners, 'list'>
  readonly start: (partner: Partner) => PartnerFeed
  readonly pollMs: number
  readonly log: Pick<Log, 'info' | 'warn'>
  /** Called with an error that retries cannot fix. */
  readonly fail: (error: unknown) => void
}

export type PartnerFeeds = {
  /** True once the partners are known and no feed is starting. */
  readonly ready: () => boolean
  readonly count: (state: PartnerFeedState) => number
  readonly stop: () => Promise<void>
}

/**
 * Runs the feed of every registered partner. A kafkajs consumer cannot subscribe to further topics
 * while it runs, so each partner has its own consumer; a revoked partner loses it.
 */
export function startPartnerFeeds (deps: PartnerFeedsDeps): PartnerFeeds {
  const { pollMs, log, fail } = deps
  const stopping = new AbortController()
  const { signal } = stopping
  const feeds = new Map<string, PartnerFeed>()
  let known = false
  const poll = async () => {
    try {
      await reconcile(deps, feeds)
      known = true
    } catch (error) {
      if (!isInfrastructure(error)) throw error
      log.warn({ err: error }, 'reading the partners from Redis failed, retrying')
      known = false
    }
  }
  const run = async () => {
    while (!signal.aborted) {
      await poll()
      await sleep(pollMs, signal).catch(() => {})
    }
  }
  const running = run().catch(fail)
  const states = () => [...feeds.values()].map(feed => feed.state())
  return {
    ready: () => known && !states().includes('starting'),
    count: state => states().filter(one => one === state).length,
    stop: async () => {
      stopping.abort()
      await running
      await Promise.all([...feeds.values()].map(feed => feed.stop()))
    },
  }
}

/** Stops the feeds of revoked partners and starts those of new ones. */
async function reconcile (
  { partners, start, log }: PartnerFeedsDeps, feeds: Map<string, PartnerFeed>
): Promise<void> {
  const active = (await partners.list()).filter(({ revokedAtMs }) => revokedAtMs === 0)
  const names = new Set(active.map(({ name }) => name))
  for (const [name, feed] of feeds) {
    if (names.has(name)) continue
    feeds.delete(name)
    await feed.stop()
    log.info({ partner: name }, 'partner revoked, feed stopped')
  }
  for (const partner of active.filter(({ name }) => !feeds.has(name))) {
    feeds.set(partner.name, start(partner))
    log.info({ partner: partner.name }, 'partner feed started')
  }
}

export type PartnerFeedDeps = Omit<IntakeDeps, 'partner' | 'keys' | 'openPartition'> &
  Pick<PartitionDeps, 'buffered' | 'fail' | 'now' | 'sleep'> & SubmitDeps & {
    readonly bus: Pick<Bus, 'consume'>
    readonly cursors: Cursors
    readonly marks: MarkStore
    readonly partners: Pick<Partners, 'keysOf'>
    readonly batchLimits: BatchLimits
    readonly backpressure: BackpressureDeps
    /** A partner that is refused jobs for this time loses its contacts in memory. */
    readonly pauseAfterMs: number
    /** Called with the error that ended the consumer of a partner. */
    readonly onBroken: (error: unknown, partner: string) => void
  }

/** `failing`: the consumer failed with an error that is no outage; it restarts with a backoff. */
type PartnerFeedState = 'starting' | 'running' | 'paused' | 'failing'

type PartnerFeed = {
  readonly state: () => PartnerFeedState
  /** Resolves when the contacts are released; the next reader rereads those without a job. */
  readonly stop: () => Promise<void>
}

/** The backoff of a failed feed. A feed that ran longer than the maximum is healthy again. */
const RESTART = { firstMs: 1_000, maxMs: 60_000 }

/**
 * Reads one partner's contacts in a consumer group of its own. Therefore a new partner, a partner
 * without balance and a partner whose messages break its consumer affect no other partner. A
 * partner that stays without balance or a free slot is paused: its consumer stops, its contacts
 * leave the memory, and after the pause it continues from the committed offsets.
 */
export function startPartnerFeed (partner: Partner, deps: PartnerFeedDeps): PartnerFeed {
  const stopping = new AbortController()
  const { signal } = stopping
  let consumption: Consumption | undefined
  let paused = false
  let failures = 0
  const pauseAfter = async (ending: Ending) => {
    if ('error' in ending) {
      failures++
      deps.onBroken(ending.error, partner.name)
      return await (deps.sleep ?? sleep)(backoffMs(failures, RESTART), signal)
    }
    paused = true
    await untilAcceptable(partner.tenant, ending.refusal, { deps: deps.backpressure, signal })
    paused = false
  }
  const run = async () => {
    while (!signal.aborted) {
      const startedAtMs = deps.now()
      const { ended, session } = startSession(signal)
      consumption = await deps.bus.consume(consumeOptions(partner, deps, session))
      const ending = await ended
      await consumption.stop()
      consumption = undefined
      if (deps.now() - startedAtMs > RESTART.maxMs) failures = 0
      if (ending !== undefined) await pauseAfter(ending)
    }
  }
  const running = run().catch((error: unknown) => { if (!signal.aborted) deps.fail(error) })
  return {
    state: () => {
      if (paused) return 'paused'
      if (consumption?.ready() === true) return 'running'
      return failures > 0 ? 'failing' : 'starting'
    },
    stop: async () => {
      stopping.abort(new Error(`feed of partner ${partner.name} stopped`))
      await running
    },
  }
}

/** Why a consumer ended: the partner is refused jobs, or an error. */
type Ending = { readonly refusal: Backpressure } | { readonly error: unknown }

/** The lifetime of one consumer. */
type Session = {
  readonly signal: AbortSignal
  readonly onPause: (refusal: Backpressure) => void
  readonly onFailed: (error: unknown) => void
}

/** `ended` resolves to why the session ended, or to undefined when the feed stops. */
function startSession (
  feedSignal: AbortSignal
): { readonly session: Session, readonly ended: Promise<Ending | undefined> } {
  const over = new AbortController()
  const { promise: ended, resolve } = Promise.withResolvers<Ending | undefined>()
  const end = (ending: Ending) => {
    resolve(ending)
    over.abort(new Error('partner feed paused or failed'))
  }
  const signal = AbortSignal.any([feedSignal, over.signal])
  const stop = () => resolve(undefined)
  if (feedSignal.aborted) stop()
  signal.addEventListener('abort', stop, { once: true })
  const onPause = (refusal: Backpressure) => end({ refusal })
  return { ended, session: { signal, onPause, onFailed: error => end({ error }) } }
}

function consumeOptions (partner: Partner, deps: PartnerFeedDeps, session: Session) {
  const { name } = partner
  const topic = topicName('feeds.submitted', { partner: name })
  const keys = () => keysOf(deps, name)
  const openPartition = (delivery: FetchedBatch) => open(partner, deps, { ...session, delivery })
  const intake = createIntake({ ...deps, partner: name, keys, openPartition })
  const { onFailed } = session
  return { group: `feed.${name}`, topics: [topic], onFailed, ...intake }
}

async function keysOf ({ partners }: PartnerFeedDeps, name: string): Promise<PartnerKeys> {
  const keys = await partners.keysOf(name)
  if (keys === undefined) {
    throw new InconsistencyError(`partner ${name} has a running feed, but no registration in ` +
      'Redis; check that Redis has lost no data')
  }
  return keys
}

function open (
  partner: Partner, deps: PartnerFeedDeps,
  { delivery, signal: sessionSignal, onPause, onFailed }:
  Session & { readonly delivery: FetchedBatch }
): Promise<Partition> {
  const { topic, partition } = delivery
  const signal = AbortSignal.any([sessionSignal, delivery.signal])
  const { name, tenant } = partner
  const feedPartition = { tenant, partner: name, partition }
  const retrying = <T>(action: () => Promise<T>) =>
    retryForever(action, { signal, when: isInfrastructure, onRetry: deps.onRetry })
  return createPartition({
    ...deps,
    topicPartition: { topic, partition },
    signal,
    fail: onFailed,
    positions: () => retrying(() => deps.cursors.read(feedPartition)),
    marks: {
      read: () => retrying(() => deps.marks.read(feedPartition)),
      write: change => retrying(() => deps.marks.write(feedPartition, change)),
    },
    submit: async request => {
      await deps.gate?.opened(signal)
      return await submitContacts(deps, { partner, partition }, request)
    },
    failContact: (contact, terms) => retrying(async () => {
      const [key] = await keysOf(deps, name)
      await deps.rejections.fail({ partner: name, key, partition }, { contact, terms }, signal)
    }),
    pause: refusal => pauseInMemory(deps, { tenant, refusal, signal, onPause }),
  })
}

/** Waits with the contacts in memory; after `pauseAfterMs` the session ends and releases them. */
async function pauseInMemory (
  { backpressure, pauseAfterMs }: PartnerFeedDeps,
  { tenant, refusal, signal, onPause }: Pick<Session, 'signal' | 'onPause'> & {
    readonly tenant: string, readonly refusal: Backpressure,
  }
): Promise<void> {
  const done = new AbortController()
  const either = AbortSignal.any([signal, done.signal])
  const tooLong = sleep(pauseAfterMs, either).then(() => onPause(refusal), () => {})
  const wait = { deps: backpressure, signal: either }
  try {
    await Promise.race([untilAcceptable(tenant, refusal, wait), tooLong])
  } finally {
    done.abort()
  }
}

export type BackpressureDeps = {
  readonly wallet: Pick<Wallet, 'balance'>
  readonly redis: Pick<Redis, 'hget'>
  /** A retry is due after this time in any case: cache hits and prices change. */
  readonly maxPauseMs: number
  readonly pollMs: number
}

type BackpressureWait = { readonly deps: BackpressureDeps, readonly signal: AbortSignal }

/** A slot may become free between the refusal and the first poll, so a wait for slots is short. */
const MAX_SLOT_PAUSE_MS = 5_000

/**
 * Resolves once a tenant has the balance or slot that a refused job needs, or after the maximum
 * pause. Rejects when the signal is aborted.
 */
export async function untilAcceptable (
  tenant: string, refusal: Backpressure, { deps, signal }: BackpressureWait
): Promise<void> {
  const isAcceptable = await acceptableCheck(tenant, refusal, { deps, signal })
  const maxMs = refusal.code === 'concurrent_jobs_limit' ? MAX_SLOT_PAUSE_MS : Infinity
  const endsAtMs = performance.now() + Math.min(deps.maxPauseMs, maxMs)
  do await sleep(deps.pollMs, signal)
  while (performance.now() < endsAtMs && !await isAcceptable())
}

async function acceptableCheck (
  tenant: string, refusal: Backpressure, { deps, signal }: BackpressureWait
): Promise<() => Promise<boolean>> {
  const retrying = <T>(action: () => Promise<T>) =>
    retryForever(action, { signal, when: isInfrastructure })
  if (refusal.code === 'insufficient_balance') {
    const { requiredMicros } = refusal
    const balance = () => retrying(() => deps.wallet.balance(tenant))
    return async () => (await balance()).availableMicros >= requiredMicros
  }
  const { wallet } = moneyKeys(tenant)
  const slotsTaken = () => retrying(async () => Number(await deps.redis.hget(wallet, 'slots')))
  const atRefusal = await slotsTaken()
  return async () => await slotsTaken() < Math.max(1, atRefusal)
}
