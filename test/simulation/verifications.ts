import type { VerificationBody } from '../../schemas/api/verifications.ts'
import {
  type AwaitingDeps, awaitResults, findStoredResults,
} from '../../services/ingest/find-jobs.ts'
import { createRowShape } from '../../services/ingest/results-response.ts'
import { createJobWaiter, type Notifications } from '../../services/jobs/job-waiter.ts'
import { isInfrastructure } from '../../services/runtime/platform/errors.ts'
import { jsonFieldsOf } from '../../services/jobs/results/columns.ts'
import { createResults } from '../../services/jobs/results/results.ts'
import { LostResultsError } from '../../services/jobs/results/read-chunks.ts'
import { redisLike } from './stages.ts'
import type { Complain } from './losses.ts'
import type { Sent } from './evidence.ts'
import type { Pipeline } from './pipeline.ts'
import type { Answered } from './requests.ts'

const SERVICE = 'phone-validation'
/** Long enough for most jobs, unless Redis is lost meanwhile. */
const WAIT_MS = 2_000

/** A client that waits for the rows of its job, as POST /api/v1/verifications does. */
export function verifierOn (
  pipeline: Pipeline, notifications: Notifications
): (answered: Answered) => Promise<VerificationBody | undefined> {
  const { store, stores: { archive, blocks } } = pipeline
  const waiter = createJobWaiter({
    store, notifications, pollMs: 20, maxWaits: 1_000, maxWaitsPerTenant: 1_000,
  })
  const deps: AwaitingDeps = {
    waitForJob: waiter.wait,
    inlineResultsOf: notifications.inlineResultsOf,
    findResults: (tenant, job) => findStoredResults({ store, archive }, tenant, job),
    findErasures: async () => new Map(),
    rows: createResults({ ...pipeline, blocks }).rows,
    openHeader: async () => ({ metadata: {}, webhookUrl: '', ids: true }),
    now: redisLike.now,
  }
  return async ({ outcome }) => {
    if (outcome?.kind !== 'accepted') return undefined
    const { job } = outcome
    const { signal } = new AbortController()
    try {
      const answer = await awaitResults(deps, {
        job, retentionMs: Infinity, timeoutMs: WAIT_MS, signal,
      })
      return answer === undefined || 'code' in answer ? undefined : answer
    } catch (error) {
      if (isInfrastructure(error) || error instanceof LostResultsError) return undefined
      throw error
    }
  }
}

type Found = {
  readonly chargedMicros: number
  readonly cells: readonly (readonly string[])[]
}

/** The rows and the charge that a client got are those of the archive, for ever. */
export function checkVerified (
  { verified }: Sent, { chargedMicros, cells }: Found, complain: Complain
): void {
  if (verified === undefined) return
  const { id, results } = verified
  complain(`${id} charge in its answer`, chargedMicros, verified.chargedMicros)
  const shape = createRowShape(SERVICE, jsonFieldsOf(SERVICE, { ids: true }))
  complain(`${id} rows in its answer`, cells.map(shape), results)
}
