import type { Normalized } from '../../schemas/types.ts'
import type { Preflight } from '../jobs/job.ts'
import type { JobStore } from '../jobs/store.ts'
import type { Accepted, AcceptRequest } from '../jobs/store-types.ts'
import { laneOf } from '../platform/topics.ts'
import { maxQuoteMicros } from '../money/prices.ts'
import { coordinatesOf } from '../results/block.ts'
import type { ServiceSlug } from '../topology.ts'
import type { ChunkCounts } from './emissions.ts'

/** What a job is made of, counted over all its chunks. */
export type PreflightCounts = ChunkCounts & { readonly totalRows: number }

export type AcceptDeps = {
  readonly store: Pick<JobStore, 'accept'>
  readonly unitPriceMicros: (tenant: string, service: ServiceSlug) => number
  readonly maxActiveJobs: number
} & Notices

/** The events before the end of a job that its organization wants to know of. */
export type Notices = Pick<AcceptRequest, 'events' | 'lowBalanceMicros'>

/**
 * Quotes a job and asks for it to be accepted: the whole maximum is reserved, or it is refused. The
 * stored outcome is returned when there is one already, whatever is counted now. `head` is the
 * envelope of chunk 0, which alone carries the job's header.
 */
export async function acceptJob (head: Normalized, counts: PreflightCounts, deps: AcceptDeps):
Promise<Accepted> {
  const { service } = coordinatesOf(head)
  const { feed } = head
  const unitPriceMicros = feed?.unitPriceMicros ?? deps.unitPriceMicros(head.tenant, service)
  const preflight: Preflight = {
    ...counts,
    maxQuoteMicros: maxQuoteMicros({ ...counts, unitPriceMicros }),
    quoteId: quoteIdOf(head.job),
  }
  return await deps.store.accept(head.tenant, {
    id: head.job,
    service,
    lane: laneOf(head.totalRows),
    preflight,
    unitPriceMicros,
    chunks: head.chunks,
    forceFresh: head.forceFresh,
    header: head.header ?? Buffer.alloc(0),
    createdAtMs: head.submittedAt,
    idempotencyKey: head.idempotencyKey,
    acceptByMs: head.acceptBy,
    maxActiveJobs: deps.maxActiveJobs,
    ...noticesOf(deps),
    ...feed && { feed },
  })
}

function noticesOf ({ events, lowBalanceMicros }: Notices): Notices {
  return {
    ...events && { events },
    ...lowBalanceMicros !== undefined && { lowBalanceMicros },
  }
}

/** The quote of a job is named after it, so that a job decided twice names the same one. */
export function quoteIdOf (job: string): string {
  return `quot_${job.slice('job_'.length)}`
}
