import type { Partners } from '../accounts/partners.ts'
import type { Job, JobFeed } from '../jobs/job.ts'
import { failpoint } from '../lib/failpoint.ts'
import { sleep } from '../lib/retry.ts'
import type { Decision, Incoming, Stage } from '../lib/stage.ts'
import type { ArchivedJob } from '../records/archive.ts'
import { columnsOf } from '../records/columns.ts'
import { feedCells, type PartnerResults } from '../records/partner-results.ts'
import { LostResultsError, type FeedRows, type Results } from '../records/results.ts'

export type HandbackParts = {
  readonly partners: Pick<Partners, 'keysOf'>
  /** A job that ended lately or long ago, without its results. */
  readonly findJob: (tenant: string, job: string) => Promise<Job | undefined>
  readonly findArchived: (tenant: string, job: string) => Promise<ArchivedJob | undefined>
  readonly results: Pick<Results, 'feedRows'>
  readonly partnerResults: PartnerResults
  /** Whether a partner is revoked and its topic of results deleted. */
  readonly isGone: (partner: string) => Promise<boolean>
  /** Pause before each look whether a partner who takes no results is gone. */
  readonly watchEveryMs: number
  /** Messages handed to one call of `decide`. */
  readonly batch: number
}

type Settled = Incoming<'jobs.settled'>

/**
 * Hands the results of feed jobs to their partners, as many at a time as are read at a time. Each
 * has the id of its contact, so whatever a crash repeats is known as a repeat. A job whose results
 * can't be told any more is a dead letter, never silence.
 */
export function createHandbackStage (parts: HandbackParts): Stage<'handback'> {
  return {
    name: 'handback',
    batch: parts.batch,
    decide: async (messages, signal) => {
      const decisions: Decision<'handback'>[] = []
      for (const message of messages) {
        const dead = await handBack(parts, message, signal)
        const finished = { finishes: [message], emits: [] }
        decisions.push(dead === undefined ? finished : { ...finished, dead })
      }
      return decisions
    },
    whenDead: async () => [],
    forget: () => {},
  }
}

/** Resolves once every result is acknowledged, with why some could not be told, if so. */
async function handBack (
  parts: HandbackParts, { value }: Settled, signal: AbortSignal
): Promise<string | undefined> {
  const { tenant, job: id } = value
  const job = await parts.findJob(tenant, id)
  if (job?.feed === undefined) return undefined
  const [key] = await parts.partners.keysOf(job.feed.partner) ?? []
  if (key === undefined) return 'unknown_partner'
  // A job is announced as settled only after it was stored.
  const archived = await parts.findArchived(tenant, id)
  if (archived === undefined) throw new Error(`the ended job ${id} is not stored`)
  return await sendUnlessGone(parts, { archived, feed: job.feed, key, signal })
}

type Sending = {
  readonly archived: ArchivedJob
  readonly feed: JobFeed
  readonly key: Buffer
  readonly signal: AbortSignal
}

/** Sends are repeated without end, which must not be for a topic that never comes back. */
async function sendUnlessGone (
  parts: HandbackParts, sending: Sending
): Promise<string | undefined> {
  const { feed: { partner }, signal } = sending
  const over = new AbortController()
  const gone = new AbortController()
  const watch = AbortSignal.any([signal, over.signal])
  untilGone(parts, partner, watch).then(() => gone.abort(), () => {})
  try {
    const either = AbortSignal.any([signal, gone.signal])
    return await sendAll(parts, { ...sending, signal: either })
  } catch (error) {
    if (!gone.signal.aborted || signal.aborted) throw error
    return 'partner_topic_deleted'
  } finally {
    over.abort()
  }
}

async function untilGone (
  { isGone, watchEveryMs }: HandbackParts, partner: string, signal: AbortSignal
): Promise<void> {
  do await sleep(watchEveryMs, signal)
  while (!await isGone(partner).catch(() => false))
}

async function sendAll (
  { results, partnerResults }: HandbackParts,
  { archived: { job, manifest }, feed, key, signal }: Sending
): Promise<string | undefined> {
  const of = { ...feed, key, service: job.service }
  const columns = columnsOf(job.service)
  let lost: string | undefined
  try {
    for await (const { rows, contacts } of results.feedRows(job, manifest)) {
      signal.throwIfAborted()
      if (contacts === undefined) lost = 'contacts_lost'
      else {
        failpoint('handback.sending')
        await partnerResults.send(of, resultsOf({ rows, contacts }, columns, job.id), signal)
        failpoint('handback.sent')
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
