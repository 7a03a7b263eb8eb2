import { connectOrganizationKeys } from '../accounts/connect-organization-keys.ts'
import { ContactLists } from '../accounts/contact-lists.ts'
import { createOrganizations } from '../accounts/organizations.ts'
import { isSampleTenant, parseTenant } from '../accounts/tenant.ts'
import { redisRecordCache } from '../cache/cache.ts'
import { createJobMessageCodec } from '../jobs/message-codec.ts'
import { optionsPriceMicros } from '../jobs/options.ts'
import { readMessageRows, unresolvableBlock } from '../jobs/results/block.ts'
import { createJobStore } from '../jobs/store.ts'
import { readPrices, unitPriceMicros } from '../money/prices.ts'
import { connectDeps, type Connections } from '../runtime/engine/connections.ts'
import { runStage } from '../runtime/engine/engine.ts'
import type { Decision, EmittedBy, Stage } from '../runtime/engine/stage.ts'
import { partitionName, type RawMessage, type TopicPartition } from '../runtime/kafka/bus.ts'
import { fullBitmap } from '../runtime/platform/bitmap.ts'
import { isOutageOrFatal } from '../runtime/platform/errors.ts'
import { boundedCache, type SlotRequest } from '../runtime/platform/limits.ts'
import { watchRedis } from '../runtime/platform/redis.ts'
import { run, type Running, type ServiceContext } from '../runtime/platform/run.ts'
import { listSubscriptions } from '../runtime/platform/topics.ts'
import { lookupConfig, type LookupConfig } from './config.ts'
import { decideJob, failJob, type LookupDeps } from './decide.ts'
import { type BatchRows, ChunkLoader, type ChunkMessage, type JobMessages } from './read.ts'

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
  readonly slots = {
    capacity: MAX_ROWS_IN_MEMORY,
    maxCredit: MAX_CREDIT_ROWS,
    /** The rows of all jobs in a batch. The first message names the tenant: others come with it. */
    of: (messages: readonly ChunkMessage[]): SlotRequest => {
      const rows = new Map(messages.map(({ value }) => [value.job, value.totalRows]))
      const cost = [...rows.values()].reduce((sum, more) => sum + more, 0)
      return { name: messages[0]?.value.tenant ?? '', cost }
    },
  }

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
      const name = jobName(message)
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
      const decision = await decideExpired(pending, this.#deps).catch(giveUp(pending))
      // Meanwhile another process may have got its partition.
      if (decision !== undefined && this.#pendingJobs.drop(pending.message)) {
        this.#deps.loader.forget(pending.unit.members)
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
    const lost = readMessageRows(headers)
    if (lost === undefined) return []
    const { tenant, job, chunk, rows } = lost.coordinates
    const outcome = await store.refuse(tenant, job, 'internal')
    const isLost = this.#pendingJobs.markDead(lost.coordinates, chunk)
    if (!isLost || outcome.kind !== 'accepted') return []
    // If its verification batches may have been sent, its rows are left to them; `ledger` fails the
    // job if it stalls.
    const { announced, rebuilt, closed } = outcome.job
    if (announced || rebuilt || closed) return []
    return [unresolvableBlock(
      { ...lost, bitmap: fullBitmap(rows) }, { atMs: clock.now(), inputs: true })]
  }

  forget (): void {
    this.#pendingJobs.forget()
    this.#deps.loader.clear()
  }
}

/**
 * Emits nothing when the job was refused, is closed, or is announced already and its chunks were
 * redelivered. Fails an accepted job that can never be complete. Undefined: it may still become
 * complete.
 */
async function decideExpired (
  { message: { value }, unit, hasAllChunks, idlePolls }: PendingJob, deps: LookupDeps
): Promise<Decision<'lookup'> | undefined> {
  const { tenant, job } = value
  const stored = await deps.store.outcome(tenant, job)
  const outcome = stored.kind === 'open' ? await deps.store.refuse(tenant, job, 'expired') : stored
  if (outcome.kind === 'open') return undefined
  const isDecided = outcome.kind === 'refused' || outcome.job.announced || outcome.job.closed
  if (isDecided) return { completes: unit.members, emits: [] }
  const isLost = hasAllChunks || idlePolls >= deps.lostAfterIdlePolls
  return isLost ? await failJob(unit, deps) : undefined
}

/** A job that cannot be decided must not keep others of its partition from their decision. */
const giveUp = ({ unit }: PendingJob) => (error: unknown): Decision<'lookup'> => {
  if (isOutageOrFatal(error)) throw error
  return { completes: unit.members, emits: [], dead: `decision failed: ${String(error)}` }
}

/** The chunks of an undecided job, complete or not. */
type PendingJob = {
  /** Any of them: all are in one partition, because the job is the message key. */
  readonly message: ChunkMessage
  readonly unit: JobMessages
  /** All other chunks of the job are dead letters, so no further chunk can arrive. */
  readonly hasAllChunks: boolean
  /** The number of polls, including this one, since anything arrived in its partition. */
  readonly idlePolls: number
}

type HeldJob = {
  /** Any of its chunks. */
  message: ChunkMessage
  /** Polls are counted instead of time, which also passes while an outage stalls the partition. */
  idlePolls: number
  /** How many it has. */
  readonly chunks: number
  readonly byChunk: Map<number, ChunkMessage>
  readonly members: Set<ChunkMessage>
}

/**
 * Maximum number of jobs with dead chunks; the oldest are forgotten first. Most of them hold
 * nothing.
 */
const MAX_DEAD = 10_000

/** Keeps the chunks of jobs until all have arrived, and the chunks that never will. */
class PendingJobs {
  readonly #jobs = new Map<string, HeldJob>()
  readonly #dead = boundedCache<ReadonlySet<number>>({ entries: MAX_DEAD })

  /** Partitions with messages since the last poll. */
  readonly #active = new Set<string>()

  /**
   * Adds a chunk; returns the messages of its job if no chunk is missing. The job stays until
   * `drop`, and is returned again for a repeated chunk: so a failed decision can be retried.
   */
  add (message: ChunkMessage): JobMessages | undefined {
    const { chunk, chunks } = message.value
    const name = jobName(message)
    const job: HeldJob = this.#jobs.get(name) ??
      { message, idlePolls: 0, chunks, byChunk: new Map(), members: new Set() }
    if (!Number.isInteger(chunk) || chunk < 0 || chunk >= job.chunks) {
      throw new RangeError(`a chunk of job ${message.value.job} has the number ${chunk}, and the ` +
        `job has ${job.chunks}, from 0`)
    }
    this.#jobs.set(name, job)
    this.#active.add(partitionName(message.raw))
    Object.assign(job, { message, idlePolls: 0 })
    job.members.add(message)
    if (!job.byChunk.has(chunk)) job.byChunk.set(chunk, message)
    return job.byChunk.size === job.chunks ? collectMessages(job) : undefined
  }

  /** Marks a chunk as a dead letter; false if a message of it is held. */
  markDead (
    { tenant, job }: { readonly tenant: string, readonly job: string }, chunk: number
  ): boolean {
    const name = `${tenant}:${job}`
    this.#dead.set(name, new Set([...this.#dead.get(name) ?? [], chunk]))
    return this.#jobs.get(name)?.byChunk.has(chunk) !== true
  }

  /** Forgets the job that waits with this message; false if none does, or only with a copy. */
  drop (message: ChunkMessage): boolean {
    const name = jobName(message)
    if (this.#jobs.get(name)?.members.has(message) !== true) return false
    this.#jobs.delete(name)
    this.#dead.delete(name)
    return true
  }

  /** Jobs that may need no further chunk: past `acceptBy`, or with dead chunks. */
  expired (place: TopicPartition, nowMs: number): readonly PendingJob[] {
    const idle = this.#active.has(partitionName(place)) ? 0 : 1
    return this.#of(place)
      .filter(([name, { message }]) => nowMs > message.value.acceptBy || this.#dead.has(name))
      .map(([name, job]) => {
        const dead = this.#dead.get(name)
        const hasAllChunks = dead !== undefined &&
          new Set([...dead, ...job.byChunk.keys()]).size >= job.chunks
        const idlePolls = job.idlePolls + idle
        return { message: job.message, unit: collectMessages(job), hasAllChunks, idlePolls }
      })
  }

  /** Counts a poll of the partition. */
  polled (place: TopicPartition): void {
    const isActive = this.#active.delete(partitionName(place))
    if (isActive) return
    for (const [, job] of this.#of(place)) job.idlePolls += 1
  }

  /** Forgets everything, as other processes may have the partitions now. */
  forget (): void {
    this.#jobs.clear()
    this.#active.clear()
    this.#dead.clear()
  }

  #of (place: TopicPartition): readonly (readonly [name: string, job: HeldJob])[] {
    const partition = partitionName(place)
    return [...this.#jobs].filter(([, { message }]) => partitionName(message.raw) === partition)
  }
}

function collectMessages ({ byChunk, members }: HeldJob): JobMessages {
  const sorted = [...byChunk].sort(([a], [b]) => a - b).map(([, message]) => message)
  return { messages: sorted, members: [...members] }
}

/** The name of the job of a chunk. */
function jobName ({ value }: ChunkMessage): string {
  return `${value.tenant}:${value.job}`
}

/** Wires the stage and starts it. */
async function startLookup (
  config: LookupConfig, context: ServiceContext
): Promise<Running> {
  const connected = await connectDeps(config, context, [
    'bus', 'codec', 'state', 'cache', 'clock', 'gate', 'attempts',
  ])
  const { state, cache, clock, log, metrics } = connected
  watchRedis({ ...connected, store: 'cache', redis: cache })
  const prices = readPrices(config.PRICES)
  const onFault = (error: unknown) =>
    log.warn({ err: error }, 'cache Redis unavailable, rows count as not cached')
  const lists = new ContactLists({
    redis: state, keys: connectOrganizationKeys('results', config, { state, metrics }),
  })
  const stage = () => new LookupStage({
    store: createJobStore(state),
    loader: new ChunkLoader(redisRecordCache(cache, { onFault, metrics })),
    clock,
    lists,
    policy: connectPolicies(state, config.MAX_ACTIVE_JOBS),
    unitPriceMicros: (tenant, service, options) => {
      if (isSampleTenant(tenant)) return 0
      const { mode } = parseTenant(tenant)
      return unitPriceMicros(prices, service, mode) +
        optionsPriceMicros(config.OPTION_PRICES, options, mode)
    },
    batchRows: readBatchRows(config),
    batch: config.LOOKUP_BATCH_MESSAGES,
    lostAfterIdlePolls: LOST_AFTER_IDLE_POLLS,
    onUndecidable: ({ tenant, job }, error) => log.error({ err: error, tenant, job },
      'job cannot be decided: refusing it, or ending its rows as unknown if it was accepted'),
  })
  return await runStage<'lookup'>(stage, {
    ...connected,
    messageCodec: createJobMessageCodec(connected, config),
    subscriptions: listSubscriptions('lookup', { lanes: config.LANES }),
  })
}

/** The maximum number of rows of a verification batch, by lane and service. */
export function readBatchRows (config: LookupConfig): BatchRows {
  const quick = new Set(config.QUICK_SERVICES)
  return (lane, service) => {
    if (lane === 'small') return config.VERIFY_BATCH_ROWS_SMALL
    return quick.has(service) ? config.VERIFY_BATCH_ROWS_QUICK : config.VERIFY_BATCH_ROWS_BULK
  }
}

const DAY_MS = 86_400_000
const EARLY_EVENTS = ['job.accepted', 'job.progress'] as const

/** Reads the policies of organizations; `maxActiveJobs` is the limit of those without their own. */
export function connectPolicies (
  state: Connections['state'], maxActiveJobs: number
): LookupDeps['policy'] {
  const { policy, subscriptions, isErased } = createOrganizations(state)
  return async tenant => {
    const { freshnessDays, activeJobs = maxActiveJobs, lowBalanceMicros } = await policy(tenant)
    const subscribed = (await subscriptions(tenant)).flatMap(({ events }) => events)
    const events = EARLY_EVENTS.filter(type => subscribed.includes(type))
    return {
      freshnessMs: freshnessDays * DAY_MS,
      maxActiveJobs: activeJobs,
      ...await isErased(parseTenant(tenant).orgId) && { isErased: true },
      ...events.length > 0 && { events },
      ...lowBalanceMicros !== undefined && { lowBalanceMicros },
    }
  }
}

export const lookupService = { config: lookupConfig, start: startLookup }

if (import.meta.main) await run('lookup', lookupConfig, startLookup)
