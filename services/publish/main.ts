import { connectOrganizationKeys } from '../accounts/connect-organization-keys.ts'
import { OrganizationErasedError } from '../accounts/organization-keys.ts'
import {
  createPartners, type FeedTypes, type Partner, type Partners,
} from '../accounts/partners.ts'
import { connectJobKeys, type JobKeys } from '../jobs/job-keys.ts'
import type { Job, JobFeed } from '../jobs/job.ts'
import { createMessageCodec } from '../jobs/message-codec.ts'
import { type ArchivedJob, createArchive, findStoredJob } from '../jobs/results/archive.ts'
import { listColumns } from '../jobs/results/columns.ts'
import {
  connectPartnerResults, feedCells, type PartnerResults,
} from '../jobs/results/partner-results.ts'
import { createResultBlocks } from '../jobs/results/result-blocks.ts'
import { createResults, LostResultsError, type Results } from '../jobs/results/results.ts'
import { createJobStore } from '../jobs/store.ts'
import { closedKeys } from '../jobs/wrapped-keys.ts'
import { taggedTenant } from '../money/redis-keys.ts'
import { MissingOrganizationKeyError } from '../runtime/crypto/key-ring.ts'
import { connectDeps, type Connections } from '../runtime/engine/connections.ts'
import { MISSING_KEY } from '../runtime/engine/dead-letters.ts'
import { runStage } from '../runtime/engine/engine.ts'
import type { Gate } from '../runtime/engine/pause.ts'
import { type Decision, HeldMessages, type Incoming, type Stage } from '../runtime/engine/stage.ts'
import { InconsistencyError, isInfrastructure } from '../runtime/platform/errors.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import { Capacity, FairSlots, SerialQueues } from '../runtime/platform/limits.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'
import { retry, retryForever, sleep } from '../runtime/platform/retry.ts'
import { run, type Running, type ServiceContext } from '../runtime/platform/run.ts'
import { listSubscriptions, topicName } from '../runtime/platform/topics.ts'
import { publishConfig, type PublishConfig } from './config.ts'

export type PublishDeps = {
  /** An ended job, from Redis or from the archive, without its results. */
  readonly findJob: (tenant: string, job: string) => Promise<Job | undefined>
  readonly findArchived: (tenant: string, job: string) => Promise<ArchivedJob | undefined>
  readonly partners: Pick<Partners, 'keysOf'> & {
    readonly find: (name: string) => Promise<Pick<Partner, 'types'> | undefined>
  }
  readonly results: Pick<Results, 'feedRows'>
  readonly partnerResults: PartnerResults
  readonly progress: ReturnType<typeof createPublishProgress>
  /** Whether a partner is revoked and its result topic is deleted. */
  readonly isDeleted: (partner: string) => Promise<boolean>
  /** Milliseconds between two checks whether the partner of a pending send is deleted. */
  readonly topicCheckMs: number
  /** A job is stalled when its results are not acknowledged for this time. */
  readonly stalledAfterMs: number
  /** Maximum number of messages in one call of `decide`, and of jobs published at a time. */
  readonly batch: number
  /** No job is started while it is closed; always open by default. */
  readonly gate?: Gate | undefined
  /** Called with each failure that is retried. */
  readonly onRetry: (
    error: unknown, job: { readonly job: string, readonly partner: string },
  ) => void
}

type Message = Incoming<'jobs.settled'>
/** A message that is held until its job is published or dead. */
type Held = Pick<Message, 'raw'> & { decision?: Decision<'publish'> }

/** Why some results of a job cannot be published; the reason of its dead letter. */
type DeadReason =
  | 'job_lost' | 'unknown_partner' | 'partner_topic_deleted' | 'contacts_lost' | 'results_lost'
/** Undefined when every result is acknowledged. */
type Outcome =
  | 'already_published' | DeadReason | 'publish_failed' | typeof MISSING_KEY | undefined

type Publication = {
  readonly message: Message
  readonly feed: JobFeed
  readonly signal: AbortSignal
  /** Called when the partner's topic does not acknowledge in time. */
  readonly onStalled: () => void
}

/** Jobs that wait for their partner's topic. Above, the partition waits for one of them. */
const MAX_UNPUBLISHED = 10_000
const TRIES = 3

/**
 * Publishes the results of feed jobs to the result topics of their partners. Jobs of a partner
 * follow each other; partners do not wait for each other: a job is held until it is published, and
 * one whose topic is slow or missing leaves its slot to others. Only its offset is not committed,
 * so a crash delivers the jobs after it again. What Kafka has acknowledged of a job is not sent
 * again, be it delivered or settled twice; each result has the id of its contact, so a partner
 * recognizes what a crash repeats all the same. A job whose results cannot be published completely
 * becomes a dead letter.
 */
export function createPublishStage (deps: PublishDeps): Stage<'publish'> {
  const held = new HeldMessages<Held>()
  const unpublished = new Capacity(MAX_UNPUBLISHED)
  const publish = createPublish(deps)
  const start = (message: Message, feed: JobFeed, signal: AbortSignal) => {
    const job: Held = { raw: message.raw }
    held.add(job, message.raw.timestampMs)
    unpublished.take(1)
    publish({ message, feed, signal }).then(outcome => {
      const finished = { completes: [message], emits: [] }
      if (outcome === undefined) job.decision = finished
      else if (outcome === 'already_published') {
        job.decision = { ...finished, ignored: 'its results were published before' }
      } else job.decision = { ...finished, dead: outcome }
      // It rejects only after the end of its generation, when nothing is held any more.
    }, () => {}).finally(() => unpublished.release(1)).catch(() => {})
  }
  return {
    name: 'publish',
    batch: deps.batch,
    decide: async (messages, signal) => {
      const jobs = await Promise.all(messages.map(async ({ value: { tenant, job, partner } }) =>
        partner === '' ? undefined : await deps.findJob(tenant, job)))
      const others: Decision<'publish'>[] = []
      for (const [index, message] of messages.entries()) {
        const feed = jobs[index]?.feed
        if (feed === undefined) {
          const dead: DeadReason | undefined =
            message.value.partner === '' ? undefined : 'job_lost'
          others.push({ completes: [message], emits: [], ...dead && { dead } })
          continue
        }
        await unpublished.untilFree(signal)
        signal.throwIfAborted()
        start(message, feed, signal)
      }
      return others
    },
    flushHeld: async partition => {
      const ended = held.of(partition).filter(({ decision }) => decision !== undefined)
      held.remove(ended.map(({ raw }) => raw))
      return ended.flatMap(({ decision }) => decision ?? [])
    },
    resolveDead: async () => [],
    heldSinceMs: () => held.sinceMs(),
    forget: () => held.clear(),
  }
}

/** Publishes jobs: of each partner one at a time, and of all partners up to `batch`. */
function createPublish (deps: PublishDeps) {
  const queues = new SerialQueues()
  const slots = new FairSlots({ capacity: deps.batch, maxCredit: 0 })
  const inSlot = (publication: Omit<Publication, 'onStalled'>) => {
    const { promise: stalled, resolve: onStalled } = Promise.withResolvers<void>()
    const ended = Promise.withResolvers<Outcome>()
    slots.run({ name: publication.feed.partner, cost: 1 }, async () => {
      await deps.gate?.opened(publication.signal)
      const publishing = publishRetrying(deps, { ...publication, onStalled })
      publishing.then(ended.resolve, ended.reject)
      await Promise.race([publishing, stalled])
    }).catch(ended.reject)
    return ended.promise
  }
  return (publication: Omit<Publication, 'onStalled'>) =>
    queues.take(publication.feed.partner, () => inSlot(publication))
}

/** As the engine retries decisions: outages forever, other failures a few times. */
async function publishRetrying (deps: PublishDeps, publication: Publication): Promise<Outcome> {
  const { message: { value: { job } }, feed: { partner }, signal } = publication
  const onRetry = (error: unknown) => deps.onRetry(error, { job, partner })
  const isOther = (error: unknown) => !signal.aborted && !isInfrastructure(error)
  try {
    return await retry(TRIES, () => retryForever(() => publishJob(deps, publication), {
      signal, onRetry, when: isInfrastructure,
    }), { signal, onRetry, when: isOther })
  } catch (error) {
    if (!isOther(error)) throw error
    onRetry(error)
    return error instanceof MissingOrganizationKeyError ? MISSING_KEY : 'publish_failed'
  }
}

/**
 * Resolves once Kafka has acknowledged every result, or with the reason for a dead letter. What was
 * acknowledged before is not sent again.
 */
async function publishJob (deps: PublishDeps, publication: Publication): Promise<Outcome> {
  const { message: { value: { tenant, job: id } }, feed: { partner }, signal } = publication
  try {
    const published = await deps.progress.read(tenant, id)
    if (published === Infinity) return 'already_published'
    const [key] = await deps.partners.keysOf(partner) ?? []
    const { types } = await deps.partners.find(partner) ?? {}
    if (key === undefined || types === undefined) return 'unknown_partner'
    const archived = await deps.findArchived(tenant, id)
    if (archived === undefined) {
      throw new InconsistencyError(`job ${id} of tenant ${tenant} is settled, but ClickHouse has ` +
        'no archived record of it; check that ClickHouse has lost no data')
    }
    return await sendUnlessDeleted(sending => sendResults(deps, {
      ...publication, archived, key, types, published, signal: sending,
    }), {
      isDeleted: () => deps.isDeleted(partner), checkMs: deps.topicCheckMs, signal,
    })
  } catch (error) {
    // Of an erased organization there is nothing left to publish.
    if (error instanceof OrganizationErasedError) return undefined
    throw error
  }
}

type Sending = Publication & {
  readonly archived: ArchivedJob
  readonly key: Buffer
  readonly types: FeedTypes
  /** Pieces to leave out. */
  readonly published: number
}

async function sendResults (
  { results, partnerResults, progress, stalledAfterMs }: PublishDeps,
  { archived: { job, manifest }, feed, key, types, published, signal, onStalled }: Sending
): Promise<DeadReason | undefined> {
  const target = { ...feed, key, service: job.service }
  const columns = listColumns(job.service)
  let lost: DeadReason | undefined
  let pieces = 0
  try {
    for await (const { rows, contacts } of results.feedRows(job, manifest)) {
      signal.throwIfAborted()
      pieces++
      if (pieces <= published) continue
      if (contacts === undefined) {
        lost = 'contacts_lost'
        continue
      }
      const { offsets, references } = contacts
      const contactResults = rows.map((row, index) => ({
        offset: offsets[index] ?? -1,
        reference: references[index] ?? '',
        cells: feedCells(columns, row, { job: job.id, types }),
      }))
      failpoint('publish.sending')
      const stalling = setTimeout(onStalled, stalledAfterMs)
      await partnerResults.send(target, contactResults, signal)
        .finally(() => clearTimeout(stalling))
      failpoint('publish.sent')
      // What follows a loss is sent again with it, once the letter of the job is replayed.
      if (lost === undefined) await progress.write(job.tenant, job.id, pieces)
    }
  } catch (error) {
    if (!(error instanceof LostResultsError)) throw error
    lost = 'results_lost'
  }
  if (lost === undefined) await progress.write(job.tenant, job.id, Infinity)
  return lost
}

type DeletionWatch = {
  readonly isDeleted: () => Promise<boolean>
  /** Milliseconds between two checks. */
  readonly checkMs: number
  readonly signal: AbortSignal
}

/**
 * Runs a send until it ends or the partner is deleted; resolves to `partner_topic_deleted` then.
 * Sends are retried forever, and a deleted topic never comes back. A failed check counts as "not
 * deleted".
 */
async function sendUnlessDeleted<T> (
  send: (signal: AbortSignal) => Promise<T>, { isDeleted, checkMs, signal }: DeletionWatch
): Promise<T | 'partner_topic_deleted'> {
  const done = new AbortController()
  const deleted = new AbortController()
  const watch = async () => {
    const watching = AbortSignal.any([signal, done.signal])
    do await sleep(checkMs, watching)
    while (!await isDeleted().catch(() => false))
    deleted.abort()
  }
  watch().catch(() => {})
  try {
    return await send(AbortSignal.any([signal, deleted.signal]))
  } catch (error) {
    if (!deleted.signal.aborted || signal.aborted) throw error
    return 'partner_topic_deleted'
  } finally {
    done.abort()
  }
}

/** A job that is settled twice is settled within seconds, so this is long after the second time. */
const KEPT_S = 86_400
const ALL = 'all'

/** String: the number of acknowledged pieces of results of a job, or `all`. */
const publishedKey = (tenant: string, job: string) => `published:${taggedTenant(tenant)}:${job}`

/**
 * How much of a job Kafka has acknowledged, for a job that is settled or delivered twice: in Redis
 * for a day after the last acknowledgement.
 */
export function createPublishProgress (redis: RedisClient) {
  return {
    /** The number of acknowledged pieces of results, from the first; Infinity for all of them. */
    read: async (tenant: string, job: string): Promise<number> => {
      const pieces = await redis.get(publishedKey(tenant, job))
      return pieces === ALL ? Infinity : Number(pieces ?? 0)
    },
    write: async (tenant: string, job: string, pieces: number): Promise<void> => {
      await redis.set(publishedKey(tenant, job), pieces === Infinity ? ALL : pieces, 'EX', KEPT_S)
    },
  }
}

const TOPIC_CHECK_MS = 5_000
const STALLED_AFTER_MS = 2_000

type Connected = Pick<Connections, 'bus' | 'codec' | 'state' | 'clickhouse' | 'recordMac'> &
  Partial<Pick<Connections, 'gate'> & Pick<ServiceContext, 'metrics'>> &
  Pick<ServiceContext, 'log'> & { readonly keys: JobKeys }

/** The dependencies of the stage, from its configuration and open connections. */
export function publishDeps (config: PublishConfig, connected: Connected): PublishDeps {
  const { bus, codec, state, clickhouse, recordMac, keys, log, gate } = connected
  const store = createJobStore(state)
  const archive = createArchive(clickhouse, recordMac)
  const partners = createPartners({
    redis: state, keys: connectOrganizationKeys('partners', config, connected),
  })
  // A missing topic of an active partner may be an operator's mistake, so `publish` waits for it.
  const isDeleted = async (partner: string) => {
    const registered = await partners.find(partner)
    if (registered === undefined || registered.revokedAtMs === 0) return false
    return !(await bus.topicNames()).has(topicName('feeds.finished', { partner }))
  }
  return {
    partners,
    isDeleted,
    findJob: (tenant, job) => findStoredJob({ store, archive }, tenant, job),
    findArchived: archive.find,
    results: createResults({ blocks: createResultBlocks(clickhouse), codec, keys }),
    progress: createPublishProgress(state),
    partnerResults: connectPartnerResults({ bus, codec }, 'publish'),
    topicCheckMs: TOPIC_CHECK_MS,
    batch: config.PUBLISH_BATCH_MESSAGES,
    gate,
    stalledAfterMs: STALLED_AFTER_MS,
    onRetry: (error, job) =>
      log.warn({ err: error, ...job }, 'publishing the results of a job failed, retrying'),
  }
}

/** Wires the stage and starts it. */
async function startPublish (
  config: PublishConfig, context: ServiceContext
): Promise<Running> {
  const connected = await connectDeps(config, context, [
    'bus', 'codec', 'state', 'clickhouse', 'recordMac', 'gate', 'attempts',
  ])
  const keys = connectJobKeys(
    connected, config, { part: 'results', findClosed: closedKeys(connected) })
  const stage = createPublishStage(publishDeps(config, { ...connected, keys }))
  const messageCodec = createMessageCodec({ codec: connected.codec })
  return await runStage(stage, {
    ...connected, messageCodec, subscriptions: listSubscriptions('publish'),
  })
}

export const publishService = { config: publishConfig, start: startPublish }

if (import.meta.main) await run('publish', publishConfig, startPublish)
