import { fullBitmap } from '../platform/bitmap.ts'
import type { RawMessage } from '../kafka/bus.ts'
import type { Decision, Stage } from '../engine/stage.ts'
import { deadBlock } from '../results/block.ts'
import type { RecordCache } from '../cache/cache.ts'
import { coordinatesOfHeaders } from '../results/chunk-coordinates.ts'
import { decideOrFailJob, failJob, type FailJobDeps } from './fail-job.ts'
import { createPendingJobs, unitOf, type PendingJob, type PendingJobs } from './pending-jobs.ts'
import { createLoader, type ChunkMessage } from './load.ts'

export type LookupDeps = Omit<FailJobDeps, 'load'> & {
  readonly cache: Pick<RecordCache, 'find'>
  /** Messages handed to one call of `decide`. */
  readonly batch: number
  /** Looks, one a second, after which chunks that did not come are lost; 300 by default. */
  readonly lostAfterLooks?: number
}

/**
 * After so many looks at a partition that had nothing new to deliver, the missing chunks of an
 * accepted job will not come: whoever found them dead has ended since.
 */
const LOST_AFTER_LOOKS = 300

/**
 * Gathers the chunks of each job and decides it when the last one is there. Chunks of jobs that are
 * not complete are held, so their offsets are not committed and a restart reads them again. They
 * are let go once nothing waits for them: `acceptBy` has passed and Redis says so, or chunks of
 * their accepted job are dead, and what is left of it is given up.
 */
export function createLookupStage (options: LookupDeps): Stage<'lookup'> {
  const deps = { ...options, load: createLoader(options.cache) }
  const held = createPendingJobs()
  let generation = 0

  /** Until its effects are done a unit stays complete, so that any failure finds it once more. */
  const released = (decision: Decision<'lookup'>, ofGeneration: number): Decision<'lookup'> => ({
    ...decision,
    afterProduced: async () => {
      await decision.afterProduced?.()
      deps.load.forget(decision.completes)
      const [message] = decision.completes
      if (message === undefined || ofGeneration !== generation) return
      held.drop(message)
    },
  })
  return {
    name: 'lookup',
    batch: options.batch,
    // The rows and messages of a whole big job are in memory while it is decided.
    bulkConcurrency: 1,
    decide: async (messages) => {
      const ofGeneration = generation
      for (const message of messages) deps.load.ahead(message)
      const decided = await decideComplete(messages, { held, deps })
      return decided.map((decision) => released(decision, ofGeneration))
    },
    flushHeld: async (place) => {
      const ofGeneration = generation
      const over = await decideOver(held.suspects(place, deps.clock.now()), deps)
      if (ofGeneration !== generation) return []
      held.looked(place)
      for (const { message } of over) held.drop(message)
      return over.map(({ decision }) => decision)
    },
    whenDead: (headers) => whenDead(headers, { held, deps }),
    forget: () => {
      generation++
      held.forget()
    },
  }
}

type StageDeps = FailJobDeps & Pick<LookupDeps, 'lostAfterLooks'>
type Held = { readonly held: PendingJobs, readonly deps: StageDeps }

/** Decisions of the jobs these chunks complete, each job once. */
async function decideComplete (
  messages: readonly ChunkMessage[], { held, deps }: Held
): Promise<readonly Decision<'lookup'>[]> {
  const decided = new Map<string, Decision<'lookup'>>()
  for (const message of messages) {
    const unit = held.add(message)
    if (unit === undefined) continue
    const known = decided.get(unitOf(message)) ?? await decideOrFailJob(unit, deps)
    decided.set(unitOf(message), { ...known, completes: unit.members })
  }
  return [...decided.values()]
}

type Over = { readonly message: ChunkMessage, readonly decision: Decision<'lookup'> }

/** Held jobs that wait for nothing more, each with what becomes of it. */
async function decideOver (jobs: readonly PendingJob[], deps: StageDeps): Promise<Over[]> {
  const over: Over[] = []
  for (const job of jobs) {
    const isLate = deps.clock.now() > job.message.value.acceptBy
    if (!isLate && !job.isAccountedFor) continue
    const decision = await decisionOf(job, deps)
    if (decision !== undefined) over.push({ message: job.message, decision })
  }
  return over
}

/**
 * Nothing is emitted when the job was refused, is closed, or everything it emits is in Kafka
 * already and its chunks were only delivered once more. Of an accepted job that can never be whole
 * again every chunk that is left ends. Undefined: it may still become complete.
 */
async function decisionOf (
  { message: { value }, unit, isAccountedFor, quietLooks }: PendingJob, deps: StageDeps
): Promise<Decision<'lookup'> | undefined> {
  const { tenant, job } = value
  const known = await deps.store.outcome(tenant, job)
  const outcome = known.kind === 'open' ? await deps.store.refuse(tenant, job, 'expired') : known
  if (outcome.kind === 'open') return undefined
  const isOver = outcome.kind === 'refused' || outcome.job.announced || outcome.job.closed
  if (isOver) return { completes: unit.members, emits: [] }
  const { lostAfterLooks = LOST_AFTER_LOOKS } = deps
  const isLost = isAccountedFor || quietLooks >= lostAfterLooks
  return isLost ? await failJob(unit, deps) : undefined
}

/**
 * A chunk nobody can read: its job is refused, or if it was accepted before, its rows end. Of a job
 * that is announced everything is in Kafka already: this is only a repetition. So it is of a chunk
 * that is held: its rows end with it. In any case the job waits for this chunk no more.
 */
async function whenDead (
  headers: RawMessage['headers'], { held, deps: { store, clock } }: Held
) {
  const known = coordinatesOfHeaders(headers)
  if (known === undefined) return []
  const { tenant, job, chunk, rows } = known.coordinates
  const outcome = await store.refuse(tenant, job, 'internal')
  const isLost = held.lose(known.coordinates, chunk)
  if (!isLost || outcome.kind !== 'accepted') return []
  // Where its parts were produced, or may have been, its rows are left to them: what never comes
  // to an end `ledger` ends as a stalled job.
  const { announced, rebuilt, closed } = outcome.job
  if (announced || rebuilt || closed) return []
  const whole = { ...known, rows: fullBitmap(rows) }
  return [deadBlock(whole, { atMs: clock.now(), inputs: true })]
}
