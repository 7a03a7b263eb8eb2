import { MissingOrganizationKeyError } from '../runtime/crypto/key-ring.ts'
import { MISSING_KEY } from '../runtime/engine/dead-letters.ts'
import type { Gate } from '../runtime/engine/pause.ts'
import {
  HeldMessages, type Decision, type Incoming, type Stage,
} from '../runtime/engine/stage.ts'
import type { Job, JobFeed } from '../jobs/job.ts'
import { createCapacity, createFairSlots, createSerialQueues } from '../runtime/platform/limits.ts'
import { isInfrastructure } from '../runtime/platform/errors.ts'
import { retry, retryForever } from '../runtime/platform/retry.ts'
import {
  publishJob, type DeadReason, type Publication, type PublishJobDeps,
} from './publish-job.ts'

export type PublishDeps = PublishJobDeps & {
  /** An ended job, from Redis or from the archive, without its results. */
  readonly findJob: (tenant: string, job: string) => Promise<Job | undefined>
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
  const unpublished = createCapacity(MAX_UNPUBLISHED)
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
      const others: Message[] = []
      for (const [index, message] of messages.entries()) {
        const feed = jobs[index]?.feed
        if (feed === undefined) {
          others.push(message)
          continue
        }
        await unpublished.untilFree(signal)
        signal.throwIfAborted()
        start(message, feed, signal)
      }
      return others.map(message => ({ completes: [message], emits: [] }))
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

/** Otherwise the reason of the dead letter of a job that was not published completely. */
type Outcome = 'already_published' | DeadReason | 'publish_failed' | typeof MISSING_KEY

/** Publishes jobs: of each partner one at a time, and of all partners up to `batch`. */
function createPublish (deps: PublishDeps) {
  const queues = createSerialQueues()
  const slots = createFairSlots({ capacity: deps.batch, maxCredit: 0 })
  const inSlot = (publication: Omit<Publication, 'onStalled'>) => {
    const { promise: stalled, resolve: onStalled } = Promise.withResolvers<void>()
    const ended = Promise.withResolvers<Outcome | undefined>()
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
async function publishRetrying (
  deps: PublishDeps, publication: Publication
): Promise<Outcome | undefined> {
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
