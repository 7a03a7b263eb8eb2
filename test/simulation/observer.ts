import { AsyncLocalStorage } from 'node:async_hooks'
import type { Redis } from 'ioredis'
import { ROW_COUNTERS } from '../../schemas/api/job.ts'
import type { Journal } from '../../schemas/types.ts'
import type { Job } from '../../services/jobs/job.ts'
import { jobBody } from '../../services/jobs/job-view.ts'
import type { Codec } from '../../services/runtime/kafka/registry.ts'
import type { Stage } from '../../services/runtime/engine/stage.ts'
import { createOutbox } from '../../services/money/wallet.ts'
import type { MemoryBus } from '../support/kafka/memory-bus.ts'
import type { Environment } from './environment.ts'

/**
 * Observes for which job a provider is called and whether its money was reserved by then, and the
 * counters of a job each time some of its rows were counted.
 */
export type Observer = {
  /** The stage `verify`, each of whose checks knows the job it is for. */
  readonly watch: (stage: Stage<'verify'>) => Stage<'verify'>
  /** Called before the provider answers. */
  readonly onCall: () => Promise<void>
  readonly calls: () => number
  /** Jobs for which a provider was called without a reserve entry. */
  readonly unreserved: ReadonlySet<string>
  /** Called with a job once its cancellation was accepted. */
  readonly onCancelled: (job: string) => void
  /** Jobs for which a provider was called by a decision that began after that. */
  readonly checkedLate: ReadonlySet<string>
  /** Called with the contacts that a provider has answered. */
  readonly onAnswered: (contacts: readonly string[]) => void
  /** The contacts of each job that a provider has answered for it. */
  readonly answered: ReadonlyMap<string, ReadonlySet<string>>
  /** Called with a job when some of its rows were counted. */
  readonly onCounted: (job: Job) => void
  /** Jobs whose counters did not add up to their rows at some time. */
  readonly miscounted: ReadonlySet<string>
  /** Jobs that were cancelled when some of their rows had been checked, and others had not. */
  readonly cancelledBetween: ReadonlySet<string>
}

type Deps = {
  readonly redis: Redis
  readonly bus: Pick<MemoryBus, 'messages'>
  readonly codec: Codec
  readonly losses: Pick<Environment['losses'], 'lost'>
}
type Owner = { readonly tenant: string, readonly job: string, readonly isCancelled: boolean }

/**
 * An entry is in the outbox, in the journal it was shipped to, or known to be lost with the outbox.
 */
export function createObserver ({ redis, bus, codec, losses }: Deps): Observer {
  const owners = new AsyncLocalStorage<Owner>()
  const reserved = new Set<string>()
  const unreserved = new Set<string>()
  const cancelled = new Set<string>()
  const checkedLate = new Set<string>()
  const answered = new Map<string, Set<string>>()
  let calls = 0
  const isReserve = ({ type, job }: Journal, owner: Owner) =>
    type === 'reserve' && job === owner.job
  const findReserve = async (owner: Owner): Promise<boolean> => {
    // The outbox first: an entry leaves it only after it came to the journal.
    const pending = await createOutbox(redis).pending(owner.tenant)
    if (pending.some(entry => isReserve(entry, owner))) return true
    if (losses.lost.some(entry => isReserve(entry, owner))) return true
    const shipped = bus.messages('wallet.journal')
      .filter(({ headers }) => headers['job'] === owner.job)
    for (const { value } of shipped) {
      const entry = await codec.decode('wallet.journal', value as Buffer) as Journal
      if (isReserve(entry, owner)) return true
    }
    return false
  }
  const onCall = async () => {
    calls += 1
    const owner = owners.getStore()
    if (owner === undefined) throw new Error('a provider is called for no job')
    if (owner.isCancelled) checkedLate.add(owner.job)
    if (reserved.has(owner.job)) return
    const isThere = await findReserve(owner)
    const known = isThere ? reserved : unreserved
    known.add(owner.job)
  }
  const miscounted = new Set<string>()
  const cancelledBetween = new Set<string>()
  const onCounted = (job: Job) => {
    const { freshRecords, cancelledRecords } = job.counts
    if (job.ended && freshRecords > 0 && cancelledRecords > 0) cancelledBetween.add(job.id)
    const { verdicts } = jobBody(job, { metadata: {}, webhookUrl: '' })
    if (countedRows(job) !== job.preflight.totalRows || (!job.ended && verdicts === null)) {
      miscounted.add(job.id)
    }
  }
  const onAnswered = (contacts: readonly string[]) => {
    const { job = '' } = owners.getStore() ?? {}
    answered.set(job, new Set([...answered.get(job) ?? [], ...contacts]))
  }
  const run: RunOwned = ({ tenant, job }, decide) =>
    owners.run({ tenant, job, isCancelled: cancelled.has(job) }, decide)
  return {
    watch: stage => watched(stage, run, () => cancelled.size > 0),
    onCall,
    calls: () => calls,
    unreserved,
    onCancelled: job => { cancelled.add(job) },
    checkedLate,
    onAnswered,
    answered,
    onCounted,
    miscounted,
    cancelledBetween,
  }
}

/** The rows that the status resource of a job accounts for. */
export function countedRows (job: Job): number {
  const body = jobBody(job, { metadata: {}, webhookUrl: '' })
  return ROW_COUNTERS.reduce((sum, name) => sum + body[name], 0)
}

/** Decides a part of a job, whose checks are for it. */
type RunOwned = <T>(part: Pick<Owner, 'tenant' | 'job'>, decide: () => Promise<T>) => Promise<T>

/** Parts that are due are decided side by side, as the stage would, but each for its own job. */
function watched (
  stage: Stage<'verify'>, run: RunOwned, hasCancelled: () => boolean
): Stage<'verify'> {
  return {
    ...stage,
    resolveDead: async (...dead) => await stage.resolveDead(...dead),
    forget: () => { stage.forget() },
    decide: async (messages, signal) => {
      const nowMs = Date.now()
      const early = messages.findIndex(({ value }) => value.notBefore > nowMs)
      const due = early < 0 ? messages : messages.slice(0, early)
      const settled = await Promise.allSettled(due.map(message =>
        run(message.value, () => stage.decide([message], signal))))
      const failed = settled.find(({ status }) => status === 'rejected')
      if (failed?.status === 'rejected') throw failed.reason
      const decisions = settled.flatMap(one => one.status === 'fulfilled' ? one.value : [])
      let others = early < 0 ? [] : messages.slice(early)
      for (let [next] = others; next !== undefined; [next] = others) {
        const atMs = Date.now()
        // Of those behind a part that waits, the parts of cancelled jobs end without a check.
        const behind = hasCancelled()
          ? others.slice(1).filter(({ value }) => value.notBefore > atMs)
          : []
        const parts = [next, ...behind]
        const decided = await run(next.value, () => stage.decide(parts, signal))
        decisions.push(...decided)
        if (decided.some(decision => 'postpone' in decision)) break
        others = others.filter(message => !parts.includes(message))
      }
      return decisions
    },
  }
}
