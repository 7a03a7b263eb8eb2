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
  /** Called with a job when some of its rows were counted. */
  readonly onCounted: (job: Job) => void
  /** Jobs whose counters did not add up to their rows at some time. */
  readonly miscounted: ReadonlySet<string>
}

type Deps = {
  readonly redis: Redis
  readonly bus: Pick<MemoryBus, 'messages'>
  readonly codec: Codec
  readonly losses: Pick<Environment['losses'], 'lost'>
}
type Owner = { readonly tenant: string, readonly job: string }

/**
 * An entry is in the outbox, in the journal it was shipped to, or known to be lost with the outbox.
 */
export function createObserver ({ redis, bus, codec, losses }: Deps): Observer {
  const owners = new AsyncLocalStorage<Owner>()
  const reserved = new Set<string>()
  const unreserved = new Set<string>()
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
    if (reserved.has(owner.job)) return
    const isThere = await findReserve(owner)
    const known = isThere ? reserved : unreserved
    known.add(owner.job)
  }
  const miscounted = new Set<string>()
  const onCounted = (job: Job) => {
    const { verdicts } = jobBody(job, { metadata: {}, webhookUrl: '' })
    if (countedRows(job) !== job.preflight.totalRows || (!job.ended && verdicts === null)) {
      miscounted.add(job.id)
    }
  }
  const watch = (stage: Stage<'verify'>) => watched(stage, owners)
  return { watch, onCall, calls: () => calls, unreserved, onCounted, miscounted }
}

/** The rows that the status resource of a job accounts for. */
export function countedRows (job: Job): number {
  const body = jobBody(job, { metadata: {}, webhookUrl: '' })
  return ROW_COUNTERS.reduce((sum, name) => sum + body[name], 0)
}

/** Parts that are due are decided side by side, as the stage would, but each for its own job. */
function watched (
  stage: Stage<'verify'>, owners: AsyncLocalStorage<Owner>
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
        owners.run(message.value, () => stage.decide([message], signal))))
      const failed = settled.find(({ status }) => status === 'rejected')
      if (failed?.status === 'rejected') throw failed.reason
      const decisions = settled.flatMap(one => one.status === 'fulfilled' ? one.value : [])
      const others = early < 0 ? [] : messages.slice(early)
      for (const next of others) {
        const [one] = await owners.run(next.value, () => stage.decide([next], signal))
        if (one !== undefined) decisions.push(one)
        if (one !== undefined && 'postpone' in one) break
      }
      return decisions
    },
  }
}
