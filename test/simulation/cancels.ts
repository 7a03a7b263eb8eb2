import type { Settled } from '../../schemas/types.ts'
import type { IngestDeps } from '../../services/ingest/deps.ts'
import { ApiException } from '../../services/ingest/errors.ts'
import { findJob } from '../../services/ingest/find-jobs.ts'
import type { Job, JobStatus } from '../../services/jobs/job.ts'
import { listColumns } from '../../services/jobs/results/columns.ts'
import { isInfrastructure } from '../../services/runtime/platform/errors.ts'
import { sleep } from '../../services/runtime/platform/retry.ts'
import { createChaos } from './chaos.ts'
import type { Environment } from './environment.ts'
import type { Evidence } from './evidence.ts'
import type { Complain } from './losses.ts'
import type { Pipeline } from './pipeline.ts'
import { jobsOf } from './stubs.ts'

/** The requests to cancel one job. */
type Cancels = {
  /** Whether one may have been executed. */
  isAsked: boolean
  /** Whether one was answered with 202. */
  isAccepted: boolean
  /** The statuses that the job had ended with when one was refused. */
  readonly refusedIn: Set<JobStatus>
}

/** Clients that cancel jobs. */
export type Cancelling = {
  /** Called with a job that was claimed, and may become one. */
  readonly onClaimed: (tenant: string, job: string) => void
  /** Of some jobs the rows end before they are checked, in a run that cancels jobs. */
  readonly chooseDeadline: () => { readonly deadlineSeconds?: number }
  readonly ended: () => Promise<void>
  readonly byJob: ReadonlyMap<string, Cancels>
}

/** Probability that a run has clients that cancel, and that they cancel a job. */
const CANCELLING_RUNS = 0.5
const CANCELLED_JOBS = 0.7
const DEADLINES = 0.2
const MAX_DEADLINE_MS = 60
const MAX_REQUESTS = 3
/** Most jobs run for some ten ms, and few for much longer. */
const PAUSES_MS = [5, 15, 40, 400]
/** How often a client asks for a job that is not there yet. */
const MAX_UNKNOWN = 10
const AGAIN_AFTER_MS = 50

type CancellingOptions = {
  readonly seed: number
  readonly pipeline: Pipeline
  readonly connect: Environment['connect']
  /** Throws when Redis cannot be recovered. */
  readonly check: () => unknown
}

/**
 * Cancels jobs at random moments from their claim on: before they are accepted, while they run or
 * are counted again, and after their end, some more than once. The chance is its own, so that all
 * other choices of a seed stay what they are.
 */
export function startCancelling (
  { seed, pipeline, connect, check }: CancellingOptions
): Cancelling {
  const chaos = createChaos(seed ^ 0xca9ce1)
  const isOn = chaos.happens(CANCELLING_RUNS)
  const { stores: { archive }, observer } = pipeline
  const store = jobsOf(connect('state', 'canceller'))
  const deps = { readRecentJob: store.read, findArchived: archive.find } as IngestDeps
  const byJob = new Map<string, Cancels>()
  const clients: Promise<void>[] = []

  /** POST /api/v1/jobs/{id}/cancel by a client that retries on 503. */
  const cancel = async (tenant: string, id: string): Promise<void> => {
    const cancels = byJob.get(id) ?? { isAsked: false, isAccepted: false, refusedIn: new Set() }
    byJob.set(id, cancels)
    for (let unknown = 0; unknown < MAX_UNKNOWN;) {
      check()
      try {
        const { id: job } = await findJob(deps, tenant, id)
        cancels.isAsked = true
        const outcome = await store.cancel(tenant, job)
        if (outcome.kind === 'ended') cancels.refusedIn.add(outcome.job.status)
        if (outcome.kind === 'cancelling') {
          cancels.isAccepted = true
          observer.onCancelled(job)
        }
        return
      } catch (error) {
        if (error instanceof ApiException) unknown += 1
        else if (!isInfrastructure(error)) throw error
      }
      await sleep(unknown > 0 ? chaos.below(5) : AGAIN_AFTER_MS)
    }
  }
  const act = async (tenant: string, job: string): Promise<void> => {
    const requests = 1 + chaos.below(MAX_REQUESTS)
    for (let request = 0; request < requests; request += 1) {
      await sleep(chaos.below(chaos.pick(PAUSES_MS)))
      await cancel(tenant, job)
    }
  }
  return {
    onClaimed: (tenant, job) => {
      if (isOn && chaos.happens(CANCELLED_JOBS)) clients.push(act(tenant, job))
    },
    chooseDeadline: () => isOn && chaos.happens(DEADLINES)
      ? { deadlineSeconds: (1 + chaos.below(MAX_DEADLINE_MS)) / 1_000 }
      : {},
    ended: async () => { await Promise.all(clients) },
    byJob,
  }
}

const column = (name: string) => listColumns('phone-validation').indexOf(name)
const [STATUS, SOURCE, REASON, E164] =
  ['status', 'source', 'reason', 'e164'].map(column) as [number, number, number, number]

const describeEnd = ({ status, chargedMicros, releasedMicros }: EndOfJob) =>
  `${status}, ${chargedMicros} charged, ${releasedMicros} released`

type EndOfJob = Pick<Job | Settled, 'status' | 'chargedMicros' | 'releasedMicros'>

/**
 * A job whose cancellation was accepted ends as cancelled, and only such a job has rows that ended
 * without a check; the end that was published is that of the archive. A loss of Redis may forget a
 * cancellation that has ended no row yet.
 */
export async function checkEnd (
  { pipeline, losses, cancels }: Evidence,
  { job, cells }: { readonly job: Job, readonly cells: readonly (readonly string[])[] },
  complain: Complain
): Promise<void> {
  const { id, status } = job
  const isLost = losses.length > 0
  const { isAsked = false, isAccepted = false, refusedIn = [] } = cancels.get(id) ?? {}
  const unchecked = cells.filter(row => row[REASON] === 'cancelled')
  complain(`${id} cancelled by nobody`, false, status === 'cancelled' && !isAsked)
  const isCancelled = ['cancelled', 'failed'].includes(status)
  complain(`${id} cancelled rows of a job that is not`, [], isCancelled ? [] : unchecked)
  complain(`${id} cancelled rows with a verdict or a charge`, [], unchecked.filter(row =>
    row[STATUS] !== 'unknown' || !['none', 'duplicate'].includes(row[SOURCE] ?? '')))
  if (isAccepted && !isLost) {
    const isFailed = status === 'failed' && pipeline.corruption.lostKeys.has(id)
    complain(`${id} status`, isFailed ? 'failed' : 'cancelled', status)
  }
  const { checkedLate, answered } = pipeline.observer
  if (!isLost) {
    const others = [...refusedIn].filter(ended => ended !== status)
    complain(`${id} other statuses at its end than ${status}`, [], others)
    complain(`${id} checked after it was cancelled`, false, checkedLate.has(id))
  }
  // A process that dies after an answer leaves the batch to the next one, which checks nothing.
  if (pipeline.crashes() === 0) {
    const contacts = answered.get(id) ?? new Set()
    complain(`${id} cancelled rows that were checked`, [],
      unchecked.filter(row => contacts.has(row[E164] ?? '')))
  }
  const ends = new Set<string>()
  for (const { value } of pipeline.bus.messages('jobs.settled')) {
    const settled = await pipeline.codec.decode('jobs.settled', value as Buffer) as Settled
    if (settled.job !== id) continue
    ends.add(describeEnd(settled))
  }
  complain(`${id} published ends`, [describeEnd(job)], [...ends])
}
