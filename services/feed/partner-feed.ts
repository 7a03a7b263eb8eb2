import type { Partner, PartnerKeys, Partners } from '../accounts/partners.ts'
import type { Cursors } from '../jobs/cursors.ts'
import type { ConsumeOptions, FetchedBatch } from '../runtime/kafka/bus.ts'
import { InconsistencyError, isInfrastructure } from '../runtime/platform/errors.ts'
import { backoffMs, retryForever, sleep } from '../runtime/platform/retry.ts'
import { topicName } from '../runtime/platform/topics.ts'
import type { Backpressure, BatchLimits } from './cursor.ts'
import { createIntake, type IntakeDeps } from './intake.ts'
import { createPartition, type Partition, type PartitionDeps } from './partition.ts'
import type { MarkStore } from './replay-guard.ts'
import { submitContacts, type SubmitDeps } from './submitter.ts'
import type { Redis } from 'ioredis'
import type { Wallet } from '../money/wallet.ts'
import { moneyKeys } from '../money/redis-keys.ts'

export type PartnerFeedDeps = Omit<IntakeDeps, 'partner' | 'keys' | 'openPartition'> &
  Pick<PartitionDeps, 'buffered' | 'now' | 'sleep'> & SubmitDeps & {
    readonly cursors: Cursors
    readonly marks: MarkStore
    readonly partners: Pick<Partners, 'keysOf'>
    readonly batchLimits: BatchLimits
    readonly backpressure: BackpressureDeps
    /** A partner that is refused jobs for this time loses its contacts in memory. */
    readonly pauseAfterMs: number
    /** Called with an error of a partner's messages or of their processing; it is retried. */
    readonly onBroken: (error: unknown, partner: string) => void
  }

/** `paused`: the partner is refused jobs. `failing`: an error that is no outage; retried later. */
type State = 'running' | 'paused' | 'failing'

/** The feed of one partner; other partners share its consumer. */
export type PartnerFeed =
  Required<Pick<ConsumeOptions, 'onDelivery' | 'onAssigned' | 'onUndecodable'>> & {
    readonly name: string
    readonly topic: string
    readonly state: () => State
    /** Releases the contacts in memory; the next reader reads those without a job again. */
    readonly stop: () => void
  }

/** The backoff of a failing feed. */
const RETRY = { firstMs: 1_000, maxMs: 60_000 }

/**
 * Reads one partner's contacts. A partner that stays without balance or a free slot is paused: its
 * partitions pause, and its contacts leave the memory. After the pause, and after a failure, they
 * are read again from the stored marks. Other partners of the consumer notice nothing.
 */
export function createPartnerFeed (partner: Partner, deps: PartnerFeedDeps): PartnerFeed {
  const { name } = partner
  const stopping = new AbortController()
  let interruption: { readonly state: State, readonly over: Promise<void> } | undefined
  let undecodable = 0
  const nextRetry = createRetryDelays(deps, stopping.signal)
  const interrupt = (state: State, over: Promise<void>) => {
    const { partitions } = session
    reset()
    const current = { state, over: over.catch(() => {}) }
    interruption = current
    current.over.then(() => { if (interruption === current) interruption = undefined })
      .catch(() => {})
    for (const { latest } of partitions.values()) redeliver(latest, current.over)
  }
  const fail = (error: unknown) => {
    deps.onBroken(error, name)
    interrupt('failing', nextRetry())
  }
  const pause = (refusal: Backpressure) => interrupt('paused', untilAcceptable(
    partner.tenant, refusal, { deps: deps.backpressure, signal: stopping.signal }))
  const start = () => startSession(partner, deps, { fail, pause })
  let session = start()
  const reset = () => {
    session.end()
    session = start()
  }
  return {
    name,
    topic: topicName('feeds.submitted', { partner: name }),
    state: () => interruption?.state ?? (undecodable > 0 ? 'failing' : 'running'),
    onAssigned: () => reset(),
    onDelivery: async delivery => {
      if (interruption !== undefined) return redeliver(delivery, interruption.over)
      await session.take(delivery)
    },
    onUndecodable: (error, batch) => {
      deps.onBroken(error, name)
      undecodable++
      const over = nextRetry().catch(() => {}).finally(() => { undecodable-- })
      batch.retry(over)
    },
    stop: () => {
      stopping.abort(new Error(`feed of partner ${name} stopped`))
      session.end()
    },
  }
}

/** The offset need not be exact: an opened partition seeks to the end of its stored marks. */
function redeliver (delivery: FetchedBatch, after: Promise<void>): void {
  delivery.redeliver(delivery.messages[0]?.offset ?? 0n, after)
}

/** Each call waits before the next retry, longer after failures in close succession. */
function createRetryDelays (
  { now, sleep: pause = sleep }: Pick<PartnerFeedDeps, 'now' | 'sleep'>, signal: AbortSignal
): () => Promise<void> {
  let failures = 0
  let failedAtMs = -Infinity
  return () => {
    // After the longest wait it has run for as long again: it is healthy.
    if (now() - failedAtMs > 2 * RETRY.maxMs) failures = 0
    failures++
    failedAtMs = now()
    return pause(backoffMs(failures, RETRY), signal)
  }
}

/** How a session ends early. */
type Endings = {
  readonly fail: (error: unknown) => void
  readonly pause: (refusal: Backpressure) => void
}

type SessionContext = Endings & { readonly signal: AbortSignal }

/** The open partitions of a partner, until the group rebalances or the partner is interrupted. */
function startSession (partner: Partner, deps: PartnerFeedDeps, endings: Endings) {
  const over = new AbortController()
  const partitions = new Map<number, { readonly signal: AbortSignal, latest: FetchedBatch }>()
  const ifOpen = <T>(action: (given: T) => void) =>
    (given: T) => { if (!over.signal.aborted) action(given) }
  const fail = ifOpen(endings.fail)
  const pause = ifOpen(endings.pause)
  const intake = createIntake({
    ...deps,
    partner: partner.name,
    keys: () => keysOf(deps, partner.name),
    openPartition: delivery =>
      openPartition(partner, deps, { delivery, signal: delivery.signal, fail, pause }),
  })
  return {
    partitions,
    take: async (delivery: FetchedBatch): Promise<void> => {
      const { signal = AbortSignal.any([over.signal, delivery.signal]) } =
        partitions.get(delivery.partition) ?? {}
      partitions.set(delivery.partition, { signal, latest: delivery })
      try {
        await intake({ ...delivery, signal })
      } catch (error) {
        if (!signal.aborted) fail(error)
      }
    },
    end: () => over.abort(new Error('partner feed paused, failed or stopped')),
  }
}

async function keysOf ({ partners }: PartnerFeedDeps, name: string): Promise<PartnerKeys> {
  const keys = await partners.keysOf(name)
  if (keys === undefined) {
    throw new InconsistencyError(`partner ${name} has a running feed, but no registration in ` +
      'Redis; check that Redis has lost no data')
  }
  return keys
}

function openPartition (
  partner: Partner, deps: PartnerFeedDeps,
  { delivery, signal, fail, pause }: SessionContext & { readonly delivery: FetchedBatch }
): Promise<Partition> {
  const { topic, partition } = delivery
  const { name, tenant } = partner
  const feedPartition = { tenant, partner: name, partition }
  const retrying = <T>(action: () => Promise<T>) =>
    retryForever(action, { signal, when: isInfrastructure, onRetry: deps.onRetry })
  return createPartition({
    ...deps,
    topicPartition: { topic, partition },
    signal,
    fail,
    positions: () => retrying(() => deps.cursors.read(feedPartition)),
    marks: {
      read: () => retrying(() => deps.marks.read(feedPartition)),
      write: change => retrying(() => deps.marks.write(feedPartition, change)),
      writeDead: offsets => retrying(() => deps.marks.writeDead(feedPartition, offsets)),
    },
    reportReplays: outcomes => retrying(() => deps.deadLetters.report(outcomes, signal)),
    submit: async request => {
      await deps.gate?.opened(signal)
      return await submitContacts(deps, { partner, partition }, request)
    },
    failContact: (contact, terms) => retrying(async () => {
      const [key] = await keysOf(deps, name)
      await deps.rejections.fail({ partner: name, key, partition }, { contact, terms }, signal)
    }),
    pause: refusal => pauseInMemory(deps, { tenant, refusal, signal, pause }),
  })
}

/** Waits with the contacts in memory; after `pauseAfterMs` the session ends and releases them. */
async function pauseInMemory (
  { backpressure, pauseAfterMs }: PartnerFeedDeps,
  { tenant, refusal, signal, pause }: Omit<SessionContext, 'fail'> & {
    readonly tenant: string, readonly refusal: Backpressure,
  }
): Promise<void> {
  const done = new AbortController()
  const either = AbortSignal.any([signal, done.signal])
  const tooLong = sleep(pauseAfterMs, either).then(() => pause(refusal), () => {})
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
