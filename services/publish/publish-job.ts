import { OrganizationErasedError } from '../accounts/organization-key-store.ts'
import type { Partners } from '../accounts/partners.ts'
import type { JobFeed } from '../jobs/job.ts'
import { InconsistencyError } from '../runtime/platform/errors.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import type { Incoming } from '../runtime/engine/stage.ts'
import type { ArchivedJob } from '../jobs/results/archive.ts'
import { columnsOf } from '../jobs/results/columns.ts'
import { feedCells, type PartnerResults } from '../jobs/results/partner-results.ts'
import type { FeedRows, Results } from '../jobs/results/results.ts'
import { LostResultsError } from '../jobs/results/read-chunks.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'
import { taggedTenant } from '../money/redis-keys.ts'
import { sendUnlessDeleted, type IsDeleted } from './partners.ts'

export type PublishJobDeps = {
  readonly progress: PublishProgress
  readonly partners: Pick<Partners, 'keysOf'>
  readonly findArchived: (tenant: string, job: string) => Promise<ArchivedJob | undefined>
  readonly results: Pick<Results, 'feedRows'>
  readonly partnerResults: PartnerResults
  readonly isDeleted: IsDeleted
  /** Milliseconds between two checks whether the partner of a pending send is deleted. */
  readonly topicCheckMs: number
  /** A job is stalled when its results are not acknowledged for this time. */
  readonly stalledAfterMs: number
}

/** How much of a job Kafka has acknowledged, for a job that is settled or delivered twice. */
type PublishProgress = {
  /** The number of acknowledged pieces of results, from the first; Infinity for all of them. */
  readonly read: (tenant: string, job: string) => Promise<number>
  readonly write: (tenant: string, job: string, pieces: number) => Promise<void>
}

/** Why some results of a job cannot be published; the reason of its dead letter. */
export type DeadReason =
  | 'unknown_partner' | 'partner_topic_deleted' | 'contacts_lost' | 'results_lost'

export type Publication = {
  readonly message: Incoming<'jobs.settled'>
  readonly feed: JobFeed
  readonly signal: AbortSignal
  /** Called when the partner's topic does not acknowledge in time. */
  readonly onStalled: () => void
}

/**
 * Resolves once Kafka has acknowledged every result, or with the reason for a dead letter. What was
 * acknowledged before is not sent again. Of an erased organization there is nothing left to
 * publish.
 */
export async function publishJob (
  deps: PublishJobDeps, publication: Publication
): Promise<DeadReason | 'already_published' | undefined> {
  try {
    return await publishResults(deps, publication)
  } catch (error) {
    if (!(error instanceof OrganizationErasedError)) throw error
    return undefined
  }
}

async function publishResults (
  deps: PublishJobDeps, publication: Publication
): Promise<DeadReason | 'already_published' | undefined> {
  const { message: { value: { tenant, job: id } }, feed: { partner }, signal } = publication
  const published = await deps.progress.read(tenant, id)
  if (published === Infinity) return 'already_published'
  const [key] = await deps.partners.keysOf(partner) ?? []
  if (key === undefined) return 'unknown_partner'
  const archived = await deps.findArchived(tenant, id)
  if (archived === undefined) {
    throw new InconsistencyError(`job ${id} of tenant ${tenant} is settled, but ClickHouse has ` +
      'no archived record of it; check that ClickHouse has lost no data')
  }
  const isDeleted = () => deps.isDeleted(partner)
  const send = (sending: AbortSignal) =>
    sendResults(deps, { ...publication, archived, key, published, signal: sending })
  return await sendUnlessDeleted(send, { isDeleted, checkMs: deps.topicCheckMs, signal })
}

type Sending = Pick<Publication, 'feed' | 'signal' | 'onStalled'> & {
  readonly archived: ArchivedJob
  readonly key: Buffer
  /** Pieces to leave out. */
  readonly published: number
}

async function sendResults (
  { results, partnerResults, progress, stalledAfterMs }: PublishJobDeps,
  { archived: { job, manifest }, feed, key, published, signal, onStalled }: Sending
): Promise<DeadReason | undefined> {
  const target = { ...feed, key, service: job.service }
  const columns = columnsOf(job.service)
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
      failpoint('publish.sending')
      const stalling = setTimeout(onStalled, stalledAfterMs)
      await partnerResults.send(target, resultsOf({ rows, contacts }, columns, job.id), signal)
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

function resultsOf (
  { rows, contacts }: { rows: FeedRows['rows'], contacts: NonNullable<FeedRows['contacts']> },
  columns: readonly string[], job: string
) {
  const { offsets, references } = contacts
  return rows.map((row, index) => ({
    offset: offsets[index] ?? -1,
    reference: references[index] ?? '',
    cells: feedCells(columns, row, job),
  }))
}

/** A job that is settled twice is settled within seconds, so this is long after the second time. */
const KEPT_S = 86_400
const ALL = 'all'

/** String: the number of acknowledged pieces of results of a job, or `all`. */
const keyOf = (tenant: string, job: string) => `published:${taggedTenant(tenant)}:${job}`

/** The progress of publishing, in Redis for a day after the last acknowledgement. */
export function createPublishProgress (
  redis: Pick<RedisClient, 'get' | 'set'>
): PublishProgress {
  return {
    read: async (tenant, job) => {
      const pieces = await redis.get(keyOf(tenant, job))
      return pieces === ALL ? Infinity : Number(pieces ?? 0)
    },
    write: async (tenant, job, pieces) => {
      await redis.set(keyOf(tenant, job), pieces === Infinity ? ALL : pieces, 'EX', KEPT_S)
    },
  }
}
