import { fullBitmap } from '../runtime/platform/bitmap.ts'
import type { RawMessage } from '../runtime/kafka/bus.ts'
import type { SlotRequest } from '../runtime/platform/limits.ts'
import type { Decision, EmittedBy, Stage } from '../runtime/engine/stage.ts'
import { coordinatesOfHeaders, unresolvableBlock } from '../jobs/results/block.ts'
import { decideJob, failJob, type LookupDeps } from './decide.ts'
import { nameOf, type TopicPartition, type PendingJob, PendingJobs } from './pending-jobs.ts'
import type { ChunkMessage } from './read.ts'

/**
 * After so many idle polls of a partition, the missing chunks of an accepted job will not arrive:
 * the process that dead-lettered them is gone.
 */
const LOST_AFTER_IDLE_POLLS = 300

/**
 * All rows of a job are in memory while it is decided: one of the largest jobs, and smaller ones of
 * other tenants that need not wait for it.
 */
const MAX_ROWS_IN_MEMORY = 125_000
/** Rows by which a tenant that was idle goes before busy ones. */
const MAX_CREDIT_ROWS = 25_000

/**
 * Holds the chunks of each job and decides it when the last one arrives. Offsets of incomplete jobs
 * are not committed, so a restart reads their chunks again. Held chunks are flushed once they need
 * no others: `acceptBy` has passed and the job is refused, or chunks of their accepted job are dead
 * letters, and the job fails.
 */
export class LookupStage implements Stage<'lookup'> {
  readonly name = 'lookup'
  readonly batch: number
  readonly slots = { capacity: MAX_ROWS_IN_MEMORY, maxCredit: MAX_CREDIT_ROWS, of: slotOf }
  readonly #deps: LookupDeps
  readonly #pendingJobs = new PendingJobs()

  constructor (deps: LookupDeps) {
    this.batch = deps.batch
    this.#deps = deps
  }

  /** Decides the jobs that these chunks complete, each once. */
  async decide (messages: readonly ChunkMessage[]): Promise<readonly Decision<'lookup'>[]> {
    for (const message of messages) this.#deps.loader.prefetch(message)
    const decided = new Map<string, Decision<'lookup'>>()
    for (const message of messages) {
      const unit = this.#pendingJobs.add(message)
      if (unit === undefined) continue
      const name = nameOf(message)
      const decision = decided.get(name) ?? await decideJob(unit, this.#deps)
      decided.set(name, { ...decision, completes: unit.members })
    }
    return [...decided.values()].map(decision => ({
      ...decision,
      // The job stays pending until its effects are done, so that a retry finds it again.
      afterProduced: async () => {
        await decision.afterProduced?.()
        this.#deps.loader.forget(decision.completes)
        const [message] = decision.completes
        if (message !== undefined) this.#pendingJobs.drop(message)
      },
    }))
  }

  /** Decides held jobs that need no further chunk. */
  async flushHeld (partition: TopicPartition): Promise<readonly Decision<'lookup'>[]> {
    const decisions: Decision<'lookup'>[] = []
    for (const pending of this.#pendingJobs.expired(partition, this.#deps.clock.now())) {
      const isLate = this.#deps.clock.now() > pending.message.value.acceptBy
      if (!isLate && !pending.hasAllChunks) continue
      const decision = await decisionOf(pending, this.#deps)
      // Meanwhile another process may have got its partition.
      if (decision !== undefined && this.#pendingJobs.drop(pending.message)) {
        decisions.push(decision)
      }
    }
    this.#pendingJobs.polled(partition)
    return decisions
  }

  /**
   * Handles a chunk that cannot be decoded: refuses its job, or ends the rows of the chunk if the
   * job was accepted. Everything of an announced job is in Kafka already, so this chunk is a
   * duplicate. The same holds for a chunk that is also held: its rows end with the held one. In any
   * case the job no longer waits for this chunk.
   */
  async resolveDead (headers: RawMessage['headers']): Promise<readonly EmittedBy<'lookup'>[]> {
    const { store, clock } = this.#deps
    const block = coordinatesOfHeaders(headers)
    if (block === undefined) return []
    const { tenant, job, chunk, rows } = block.coordinates
    const outcome = await store.refuse(tenant, job, 'internal')
    const isLost = this.#pendingJobs.markDead(block.coordinates, chunk)
    if (!isLost || outcome.kind !== 'accepted') return []
    // If its verification batches may have been sent, its rows are left to them; `ledger` fails the
    // job if it stalls.
    const { announced, rebuilt, closed } = outcome.job
    if (announced || rebuilt || closed) return []
    return [unresolvableBlock(
      { ...block, rows: fullBitmap(rows) }, { atMs: clock.now(), inputs: true })]
  }

  forget (): void {
    this.#pendingJobs.forget()
  }
}

/** The rows of all jobs in a batch. The first message names the tenant: others come with it. */
function slotOf (messages: readonly ChunkMessage[]): SlotRequest {
  const rows = new Map(messages.map(({ value }) => [value.job, value.totalRows]))
  const cost = [...rows.values()].reduce((sum, more) => sum + more, 0)
  return { name: messages[0]?.value.tenant ?? '', cost }
}

/**
 * Emits nothing when the job was refused, is closed, or is announced already and its chunks were
 * redelivered. Fails an accepted job that can never be complete. Undefined: it may still become
 * complete.
 */
async function decisionOf (
  { message: { value }, unit, hasAllChunks, idlePolls }: PendingJob, deps: LookupDeps
): Promise<Decision<'lookup'> | undefined> {
  const { tenant, job } = value
  const stored = await deps.store.outcome(tenant, job)
  const outcome = stored.kind === 'open' ? await deps.store.refuse(tenant, job, 'expired') : stored
  if (outcome.kind === 'open') return undefined
  const isEnded = outcome.kind === 'refused' || outcome.job.announced || outcome.job.closed
  if (isEnded) return { completes: unit.members, emits: [] }
  const { lostAfterIdlePolls = LOST_AFTER_IDLE_POLLS } = deps
  const isLost = hasAllChunks || idlePolls >= lostAfterIdlePolls
  return isLost ? await failJob(unit, deps) : undefined
}
