import type { Journal, Normalized } from '../../schemas/types.ts'
import type { JobStore } from '../jobs/store.ts'
import type { Clock } from '../platform/clock.ts'
import { failpoint } from '../platform/failpoint.ts'
import type { Unit } from '../engine/aggregate.ts'
import type { Decision } from '../engine/stage.ts'
import { acceptJob, type AcceptDeps, type Notices } from './accept.ts'
import { jobEmissions } from './emissions.ts'
import type { ChunkMessage, Loader } from './chunk-loader.ts'
import { readChunks, jobTermsOf, type BatchRows } from './read-chunks.ts'

export type JobDeps = Omit<AcceptDeps, keyof TenantPolicy> & {
  readonly store: Pick<JobStore, 'refuse' | 'outcome' | 'announce'>
  readonly load: Loader
  /** Redis time. */
  readonly clock: Clock
  readonly policy: (tenant: string) => Promise<TenantPolicy>
  readonly batchRows: BatchRows
}

/** How long a record counts as fresh, how many jobs with fresh rows there may be, and notices. */
type TenantPolicy =
  { readonly freshnessMs: number, readonly maxActiveJobs: number } & Notices & {
    /** Whether the organization was erased. */
    readonly isErased?: boolean,
  }

type JobDecision = Decision<'lookup'>
export type JobUnit = Unit<ChunkMessage>

/**
 * Decides a job all of whose chunks are there: duplicates, hits, quote, `accept`, and what follows
 * from it. A job that was refused, or is closed, emits nothing; one that is accepted already keeps
 * its stored quote, and all it emits is emitted again.
 */
export async function decideJob (unit: JobUnit, deps: JobDeps): Promise<JobDecision> {
  const nothing: JobDecision = { completes: unit.members, emits: [] }
  const head = headOf(unit)
  const { freshnessMs, isErased = false, ...policy } = await deps.policy(head.tenant)
  if (await isEnded(head, deps, isErased)) return nothing
  const terms = jobTermsOf(head, freshnessMs, deps.batchRows)
  const { chunks, counts } = await readChunks(unit.messages, { terms, load: deps.load })
  const acceptance = await acceptJob(head, counts, { ...deps, ...policy })
  if (acceptance.kind === 'refused' || acceptance.job.closed) return nothing
  failpoint('lookup.accepted')
  return {
    completes: unit.members,
    emits: await jobEmissions(chunks, { terms, entry: acceptance.entry }),
    afterProduced: () => announce(head, acceptance.entry, deps),
  }
}

/**
 * Whether the job is refused or closed. False before `acceptBy`: then `accept` decides. Later a job
 * that is not accepted is refused here, and at any time one of an erased organization.
 */
async function isEnded (
  head: Normalized, { store, clock }: JobDeps, isErased: boolean
): Promise<boolean> {
  if (clock.now() <= head.acceptBy && !isErased) return false
  const outcome = await store.refuse(head.tenant, head.job, 'expired')
  return outcome.kind === 'accepted' ? outcome.job.closed : outcome.kind === 'refused'
}

/**
 * Only now is everything of the job in Kafka, its reserve entry included: the waiting request may
 * be answered.
 */
export async function announce (
  { tenant, job }: Pick<Normalized, 'tenant' | 'job'>, entry: Journal | undefined,
  { store }: Pick<JobDeps, 'store'>
): Promise<void> {
  await store.announce(tenant, job, entry?.seq)
  failpoint('lookup.announced')
}

/** The envelope of chunk 0, which alone carries the job's header. */
export function headOf (unit: JobUnit): Normalized {
  const [first] = unit.messages
  if (first === undefined) throw new Error('a complete job has no chunk 0')
  return first.value
}
