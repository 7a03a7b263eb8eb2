import type { Partners } from '../accounts/partners.ts'
import type { Job, JobFeed } from '../jobs/job.ts'
import { InconsistencyError } from '../platform/errors.ts'
import { failpoint } from '../platform/failpoint.ts'
import type { Decision, Incoming, Stage } from '../engine/stage.ts'
import type { ArchivedJob } from '../results/archive.ts'
import { columnsOf } from '../results/columns.ts'
import { feedCells, type PartnerResults } from '../results/partner-results.ts'
import type { FeedRows, Results } from '../results/results.ts'
import { LostResultsError } from '../results/read-chunks.ts'
import { sendUnlessDeleted, type IsDeleted } from './partners.ts'

export type PublishDeps = {
  readonly partners: Pick<Partners, 'keysOf'>
  /** An ended job, from Redis or from the archive, without its results. */
  readonly findJob: (tenant: string, job: string) => Promise<Job | undefined>
  readonly findArchived: (tenant: string, job: string) => Promise<ArchivedJob | undefined>
  readonly results: Pick<Results, 'feedRows'>
  readonly partnerResults: PartnerResults
  readonly isDeleted: IsDeleted
  /** Milliseconds between two checks whether the partner of a pending send is deleted. */
  readonly topicCheckMs: number
  /** Maximum number of messages in one call of `decide`. */
  readonly batch: number
}

/** Why some results of a job cannot be published; the reason of its dead letter. */
type DeadReason = 'unknown_partner' | 'partner_topic_deleted' | 'contacts_lost' | 'results_lost'

/**
 * Publishes the results of feed jobs to the result topics of their partners. Each result has the id
 * of its contact, so a partner recognizes what a crash repeats. A job whose results cannot be
 * published completely becomes a dead letter.
 */
export function createPublishStage (deps: PublishDeps): Stage<'publish'> {
  return {
    name: 'publish',
    batch: deps.batch,
    decide: async (messages, signal) => {
      const decisions: Decision<'publish'>[] = []
      for (const message of messages) {
        const dead = await publishJob(deps, message, signal)
        const finished = { completes: [message], emits: [] }
        decisions.push(dead === undefined ? finished : { ...finished, dead })
      }
      return decisions
    },
    resolveDead: async () => [],
    forget: () => {},
  }
}

/** Resolves once Kafka has acknowledged every result, or with the reason for a dead letter. */
async function publishJob (
  deps: PublishDeps, { value }: Incoming<'jobs.settled'>, signal: AbortSignal
): Promise<DeadReason | undefined> {
  const { tenant, job: id } = value
  if (value.partner === '') return undefined
  const feed = (await deps.findJob(tenant, id))?.feed
  if (feed === undefined) return undefined
  const { partner } = feed
  const [key] = await deps.partners.keysOf(partner) ?? []
  if (key === undefined) return 'unknown_partner'
  const archived = await deps.findArchived(tenant, id)
  if (archived === undefined) {
    throw new InconsistencyError(`job ${id} of tenant ${tenant} is settled, but ClickHouse has ` +
      'no archived record of it; check that ClickHouse has lost no data')
  }
  const isDeleted = () => deps.isDeleted(partner)
  const send = (sending: AbortSignal) =>
    sendResults(deps, { archived, feed, key, signal: sending })
  return await sendUnlessDeleted(send, { isDeleted, checkMs: deps.topicCheckMs, signal })
}

type Sending = {
  readonly archived: ArchivedJob
  readonly feed: JobFeed
  readonly key: Buffer
  readonly signal: AbortSignal
}

async function sendResults (
  { results, partnerResults }: PublishDeps,
  { archived: { job, manifest }, feed, key, signal }: Sending
): Promise<DeadReason | undefined> {
  const target = { ...feed, key, service: job.service }
  const columns = columnsOf(job.service)
  let lost: DeadReason | undefined
  try {
    for await (const { rows, contacts } of results.feedRows(job, manifest)) {
      signal.throwIfAborted()
      if (contacts === undefined) lost = 'contacts_lost'
      else {
        failpoint('publish.sending')
        await partnerResults.send(target, resultsOf({ rows, contacts }, columns, job.id), signal)
        failpoint('publish.sent')
      }
    }
  } catch (error) {
    if (!(error instanceof LostResultsError)) throw error
    lost = 'results_lost'
  }
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
