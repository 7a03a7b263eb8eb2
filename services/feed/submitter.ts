import type { Partner } from '../accounts/partners.ts'
import { subscribeToJobs } from '../jobs/job-waiter.ts'
import { createOutcomeWaiter } from '../jobs/outcome-waiter.ts'
import { createJobStore } from '../jobs/store.ts'
import { createSubmitter, type Submitted, type Submitter } from '../jobs/submit.ts'
import type { Submission } from '../jobs/send.ts'
import { createMessageCodec } from '../jobs/message-codec.ts'
import { type Connections, openSubscriber } from '../runtime/engine/connections.ts'
import { createEmitter } from '../runtime/engine/emit.ts'
import { watchJobPartitions } from '../runtime/kafka/partitioning.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import type { ServiceContext } from '../runtime/platform/run.ts'
import { connectSealingKeys } from '../jobs/connect-keys.ts'
import type { FeedJobRequest, JobOutcome } from './cursor.ts'

export type SubmitDeps = {
  readonly submitter: Pick<Submitter, 'submit'>
  readonly metrics: Pick<Metrics, 'count'>
  /** Called with the error of a request whose outcome is unknown, and its cursor. */
  readonly onLost: (error: unknown, cursor: {
    readonly partner: string, readonly partition: number, readonly cursor: string,
  }) => void
}

/** The origin of contacts; tenant, mode and prices are those of the partner's registration. */
export type Source = {
  readonly partner: Pick<Partner, 'name' | 'tenant' | 'mode' | 'pricesMicros'>
  readonly partition: number
}

/** Requests a job for contacts of a partner, in the same way as the REST API. Never rejects. */
export async function submitContacts (
  { submitter, metrics, onLost }: SubmitDeps, source: Source, request: FeedJobRequest
): Promise<JobOutcome> {
  const outcome = await submitter.submit(submissionOf(source, request)).then(outcomeOf, error => {
    const { partner: { name }, partition } = source
    onLost(error, { partner: name, partition, cursor: request.cursor })
    return { kind: 'lost' } as const
  })
  metrics.count('feed_jobs_total', { outcome: outcome.kind })
  return outcome
}

/** The submission of a request; a partner without an own price pays the list price. */
export function submissionOf (
  { partner, partition }: Source, { cursor, terms, from, to, ...contacts }: FeedJobRequest
): Submission {
  const { name, tenant, mode, pricesMicros } = partner
  const { service, country, forceFresh } = terms
  const price = mode === 'test' ? undefined : pricesMicros[service]
  const { inputs, offsets, references } = contacts
  return {
    tenant,
    service,
    inputs,
    country,
    forceFresh,
    metadata: {},
    webhookUrl: '',
    idempotencyKey: '',
    fingerprint: '',
    references,
    feed: {
      source: { partner: name, partition, cursor, from, to, unitPriceMicros: price ?? null },
      offsets,
    },
  }
}

function outcomeOf (submitted: Submitted): JobOutcome {
  if (submitted.kind === 'accepted') return { kind: 'taken', job: submitted.job.id }
  if (submitted.kind === 'reused') return { kind: 'failed' }
  const { refusal } = submitted
  switch (refusal.code) {
    case 'insufficient_balance':
    case 'concurrent_jobs_limit': return { kind: 'short', refusal }
    case 'cursor_moved': return { kind: 'moved' }
    case 'expired': return { kind: 'late' }
    // An operator must unlock the wallet first; until then, requests follow with growing pauses.
    case 'frozen': return { kind: 'lost' }
    case 'quoted':
    case 'internal': return { kind: 'failed' }
  }
}

type Connected = Pick<Connections, 'bus' | 'codec' | 'state' | 'clock'>
type Settings = {
  readonly CACHE_SECRET_ACTIVE: string
  readonly FEED_ACCEPT_WITHIN_MS: number
}

/** The submitter of jobs that the REST API uses too, on open connections. */
export async function connectFeedSubmitter (
  settings: Settings, connected: Connected, { onStop }: Pick<ServiceContext, 'onStop'>
): Promise<Submitter> {
  const { bus, codec, state, clock } = connected
  const store = createJobStore(state)
  const { CACHE_SECRET_ACTIVE: tokenVersion, FEED_ACCEPT_WITHIN_MS: acceptWithinMs } = settings
  // It seals all rows of a job before it is refused.
  const keys = connectSealingKeys(state, 2 * acceptWithinMs)
  const notifications = await subscribeToJobs(openSubscriber(state, { onStop }))
  const outcomes = createOutcomeWaiter({ store, notifications, clock })
  onStop(() => outcomes.stop())
  const messageCodec = createMessageCodec({ codec, keys })
  const emitter = createEmitter({ messageCodec, producerOf: bus.producer })
  const partitionsOf = watchJobPartitions(bus)
  return createSubmitter({
    store, keys, emitter, outcomes, clock, tokenVersion, acceptWithinMs, partitionsOf,
  })
}
