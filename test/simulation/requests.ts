import {
  createSubmitter, type SubmitterOptions, type Submitted,
} from '../../services/jobs/submit.ts'
import { isInfrastructure } from '../../services/runtime/platform/errors.ts'
import { sleep } from '../../services/runtime/platform/retry.ts'
import type { Chaos } from './chaos.ts'
import type { Sent, ScenarioOutput } from './evidence.ts'

/** What a client knows of its request in the end. */
export type Answered = {
  /** Undefined for a 503 to a request without a key. */
  readonly outcome: Submitted | undefined
  /** The jobs that may have come of its tries. */
  readonly jobs: readonly string[]
  /** Whether Redis was lost meanwhile, so that a refusal needs no other reason. */
  readonly isOutage: boolean
}

export type Request = {
  readonly submission: object
  readonly chaos: Chaos
  /** How often Redis was lost by now. Throws when it cannot be recovered. */
  readonly losses: () => number
  /** Without retries: nothing ships the outbox before the end, so they would never stop. */
  readonly once?: boolean
}

const KEYED = 0.6
const AGAIN_AFTER_MS = 50

/** Sends a request as a client does that retries on 503; with a key, until it is answered. */
export async function request (
  options: SubmitterOptions, { submission, chaos, losses, once = false }: Request
): Promise<Answered> {
  const idempotencyKey = !once && chaos.happens(KEYED) ? `key-${chaos.below(2 ** 31)}` : ''
  const isKeyed = idempotencyKey !== ''
  const jobs: string[] = []
  const submitter = createSubmitter({ ...options, store: recording(options.store, jobs) })
  const before = losses()
  for (;;) {
    const outcome = await answerOf(submitter.submit({ ...submission, idempotencyKey } as never))
    const isOutage = losses() > before
    if (outcome === undefined && !isKeyed) return { outcome, jobs, isOutage: true }
    if (outcome !== undefined && !(isKeyed && isFrozen(outcome))) return { outcome, jobs, isOutage }
    await sleep(AGAIN_AFTER_MS)
  }
}

/**
 * Retried as well: behind the gap that froze the tenant there may be the job of an earlier attempt,
 * which the key is then bound to again.
 */
const isFrozen = (outcome: Submitted): boolean =>
  outcome.kind === 'refused' && outcome.refusal.code === 'frozen'

/** Undefined when infrastructure was unavailable and the outcome is unknown. */
async function answerOf (submitted: Promise<Submitted>): Promise<Submitted | undefined> {
  try {
    return await submitted
  } catch (error) {
    if (isInfrastructure(error)) return undefined
    throw error
  }
}

/** Records every job that is claimed. */
function recording (
  store: SubmitterOptions['store'], jobs: string[]
): SubmitterOptions['store'] {
  return {
    ...store,
    claim: async (tenant, claim) => {
      jobs.push(claim.job)
      return await store.claim(tenant, claim)
    },
  }
}

/**
 * What was sent, the answer to a client that waited for its rows, and the ids to find its jobs by
 * where no answer came.
 */
export type Requested = Omit<Sent, 'outcome'> & Answered

/**
 * A request without an answer may have created a job all the same. A refused one may not: whatever
 * its attempts left behind counts as a breach.
 */
export async function known (
  { pipeline: { stores: { archive } }, requested }: ScenarioOutput
): Promise<readonly Sent[]> {
  const sent: Sent[] = []
  for (const { jobs, outcome, ...rest } of requested) {
    if (outcome !== undefined) sent.push({ ...rest, outcome })
    for (const id of outcome === undefined ? jobs : []) {
      const found = await archive.find(rest.tenant, id)
      if (found === undefined) continue
      const accepted = { kind: 'accepted', job: found.job, replayed: false } as const
      sent.push({ ...rest, outcome: accepted })
    }
  }
  return sent
}
