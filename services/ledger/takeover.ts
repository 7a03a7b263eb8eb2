import type { Redis } from 'ioredis'
import { logLevel } from 'kafkajs'
import { JobKeyLostError } from '../jobs/job-keys.ts'
import type { Job } from '../jobs/job.ts'
import { unresolvableBlock } from '../jobs/results/block.ts'
import {
  archiveEnded, type EndedJob, type EndedJobDeps, storeBlock, type StoreBlockDeps,
} from '../jobs/results/finish-job.ts'
import { blockDigest } from '../jobs/results/result-blocks.ts'
import type { JobStore } from '../jobs/store.ts'
import { FAILED_TAKEOVERS_KEY } from '../money/redis-keys.ts'
import type { Outbox, PendingEntry, Tenants } from '../money/wallet.ts'
import { MissingKeyError } from '../runtime/crypto/key-ring.ts'
import { SealError } from '../runtime/crypto/seal.ts'
import type { Emitter } from '../runtime/engine/stage.ts'
import type { GroupLag } from '../runtime/kafka/admin.ts'
import { partitionName } from '../runtime/kafka/bus.ts'
import { createKafka, type KafkaAdmin } from '../runtime/kafka/client.ts'
import type { KafkaConnection } from '../runtime/kafka/connection.ts'
import { type Clock, retry, sleep } from '../runtime/platform/retry.ts'
import {
  FatalError, InfrastructureError, isInfrastructure, orIfUnavailable,
} from '../runtime/platform/errors.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import type { Log } from '../runtime/platform/log.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { type Subscription, listSubscriptions } from '../runtime/platform/topics.ts'
import type { Lane, ServiceSlug } from '../topology.ts'

export type TakeoverDeps = EndedJobDeps & StoreBlockDeps & {
  readonly redis: Pick<Redis, 'hgetall' | 'hset' | 'hdel'>
  readonly store: Pick<JobStore,
    'openJobs' | 'read' | 'end' | 'fail' | 'unfinishedRows' | 'waitingRows'>
  readonly outbox: Pick<Outbox, 'tenantsWithPending' | 'pending' | 'remove'>
  readonly tenants: Pick<Tenants, 'active'>
  readonly owners: Pick<Owners, 'findOrphans'>
  readonly backlog: ReturnType<typeof createBacklog>
  readonly emitter: Pick<Emitter, 'emit'>
  /** Redis time. */
  readonly clock: Clock
  readonly log: Pick<Log, 'warn' | 'error'>
  readonly metrics: Pick<Metrics, 'count' | 'watch'>
  /** Younger jobs and their entries are not looked at. */
  readonly orphanAgeMs: number
  /** A job without progress for so long is stalled. */
  readonly stalledAfterMs: number
}

type Looping = {
  /** Two ledgers that take over would send the same twice. */
  readonly isLeader: () => boolean
  /** Called with a FatalError, which ends the loop. */
  readonly fatal: (error: unknown) => void
  /** Pause between two runs. */
  readonly everyMs: number
}

/**
 * Ships every entry that no stage ships, such as that of a top-up, and completes what crashed
 * processes have left, in a loop beside the running stage.
 */
export class Takeover {
  readonly #deps: TakeoverDeps
  readonly #stopping = new AbortController()
  #isHealthy = true
  #stalledJobs = 0
  #ended: Promise<void> | undefined

  constructor (deps: TakeoverDeps) {
    this.#deps = deps
  }

  /** Runs while this ledger leads. A failed run is logged, and retried after the pause. */
  start (looping: Looping): void {
    this.#deps.metrics.watch('jobs_stalled', {}, () => this.#stalledJobs)
    this.#ended = this.#loop(looping)
  }

  /** False after a failed run until one succeeds. */
  ready (): boolean {
    return this.#isHealthy
  }

  /** Resolves when the current run has reached its next step. */
  async stop (): Promise<void> {
    this.#stopping.abort()
    await this.#ended
  }

  /**
   * Ships outbox entries, closes ended jobs and fails stalled ones. The entry of a top-up or an
   * adjustment is shipped by this alone, before anything that may fail or take long: until then
   * only Redis has it. The entry of a job, and an ended job, belong to the stage that made them
   * until it cannot finish them, see `Owners`: a slow stage keeps what is its own, as nothing may
   * be sent twice without a fault. Every step is idempotent. A failure of one tenant or job is
   * logged and retried by the next run. Returns the number of stalled jobs found.
   * @throws FatalError when a retry cannot help.
   */
  async run (): Promise<number> {
    const deps = this.#deps
    const isOver = () => this.#stopping.signal.aborted
    const entries: OldEntry[] = []
    for (const tenant of await deps.outbox.tenantsWithPending()) {
      if (isOver()) return 0
      const old = await guarded(deps, { tenant }, () => shipUnowned(deps, tenant))
      entries.push(...old ?? [])
    }
    const { jobs, unlisted } = await findOldJobs(deps, isOver)
    // Read after the entries and jobs: what their stages were working on is in the topics by then.
    const orphans = await deps.owners.findOrphans(
      [...entries, ...jobs].flatMap(({ owner }) => owner ?? []))
    if (isOver()) return 0
    const failedAtMs = await readFailures(deps, { jobs, unlisted })
    const orphaned = entries.filter(({ owner }) => owner === undefined || orphans.has(owner.id))
    for (const [tenant, some] of Map.groupBy(orphaned, ({ tenant }) => tenant)) {
      if (isOver()) return 0
      const seqs = new Set(some.map(({ seq }) => seq))
      await guarded(deps, { tenant }, async () => {
        // Read again: their owner may have shipped them just before it committed its last messages.
        const pending = await deps.outbox.pending(tenant)
        await ship(deps, tenant, pending.filter(({ seq }) => seqs.has(seq)))
      })
    }
    let stalledJobs = 0
    for (const { tenant, job, sinceMs, owner } of jobs) {
      if (isOver()) return stalledJobs
      const isOrphan = owner !== undefined && orphans.has(owner.id)
      const name = failureName({ tenant, job })
      const open = { tenant, job, sinceMs: Math.max(sinceMs, failedAtMs.get(name) ?? 0), isOrphan }
      const completed = await guarded(deps, { tenant, job }, () => completeJob(deps, open),
        () => deps.redis.hset(FAILED_TAKEOVERS_KEY, name, deps.clock.now()))
      if (completed === 'stalled') stalledJobs += 1
    }
    return stalledJobs
  }

  async #loop ({ isLeader, fatal, everyMs }: Looping): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      try {
        this.#stalledJobs = isLeader() ? await this.run() : 0
        this.#isHealthy = true
      } catch (error) {
        this.#isHealthy = false
        if (error instanceof FatalError) return fatal(error)
        this.#deps.log.warn({ err: error }, 'takeover failed; retrying')
      }
      await sleep(everyMs, signal).catch(() => {})
    }
  }
}

/** Without an owner it is taken over at once. */
type MaybeOwned = { readonly tenant: string, readonly owner: Owned | undefined }
type OldEntry = MaybeOwned & { readonly seq: number }
type OldJob = MaybeOwned & { readonly job: string, readonly sinceMs: number }

/** Ships the entries of a tenant that no stage ships. Returns the old ones of jobs. */
async function shipUnowned (deps: TakeoverDeps, tenant: string): Promise<readonly OldEntry[]> {
  const { outbox, store, clock, orphanAgeMs } = deps
  const pending = await outbox.pending(tenant)
  await ship(deps, tenant, pending.filter(({ job }) => job === ''))
  const old = pending.filter(({ at, job }) => job !== '' && clock.now() - at >= orphanAgeMs)
  return await Promise.all(old.map(async ({ seq, type, job: id }) => {
    const job = await store.read(tenant, id)
    const stage = type === 'reserve' ? 'lookup' : 'settle'
    const owner = job && { id: `entry ${tenant} ${seq}`, stage, lane: job.lane } as const
    return { tenant, seq, owner }
  }))
}

/** Produces entries of an outbox to the journal, and removes them. */
async function ship (
  { outbox, emitter, metrics }: TakeoverDeps, tenant: string, entries: readonly PendingEntry[]
): Promise<void> {
  if (entries.length === 0) return
  failpoint('outbox.shipping')
  await emitter.emit(entries.map(({ text: _, ...value }) =>
    ({ topic: 'wallet.journal', lane: 'small', value, rows: undefined })))
  failpoint('outbox.shipped')
  await outbox.remove(tenant, entries)
  metrics.count('recovery_actions_total', { kind: 'entry' }, entries.length)
}

type OldJobs = {
  readonly jobs: readonly OldJob[]
  /** Tenants whose open jobs could not be listed. */
  readonly unlisted: ReadonlySet<string>
}

/** Open jobs, with the stage that closes them if all of their rows are counted. */
async function findOldJobs (
  { tenants, store, clock, orphanAgeMs, ...deps }: TakeoverDeps, isOver: () => boolean
): Promise<OldJobs> {
  const jobs: OldJob[] = []
  const unlisted = new Set<string>()
  for (const { tenant } of await tenants.active()) {
    const open = await guarded(deps, { tenant }, () =>
      store.openJobs(tenant).catch(orIfUnavailable(undefined)))
    if (open === undefined) unlisted.add(tenant)
    const old = open?.filter(({ sinceMs }) => clock.now() - sinceMs >= orphanAgeMs) ?? []
    for (const { job: id, sinceMs } of old) {
      if (isOver()) return { jobs, unlisted }
      const job = await guarded(deps, { tenant, job: id }, () => store.read(tenant, id))
      const owner = job !== undefined && isCounted(job)
        ? { id: `job ${tenant} ${id}`, stage: 'settle', lane: job.lane } as const
        : undefined
      jobs.push({ tenant, job: id, sinceMs, owner })
    }
  }
  return { jobs, unlisted }
}

const failureName = ({ tenant, job }: Pick<OldJob, 'tenant' | 'job'>) => `${tenant} ${job}`

/**
 * When open jobs could last not be read or completed, by name. Such a job is stalled only some time
 * after that, in which operators who repaired it can replay its dead letters. Redis keeps the
 * times, as another ledger may take over the lead. Those of jobs that are not open are removed.
 */
async function readFailures (
  { redis, clock }: TakeoverDeps, { jobs, unlisted }: OldJobs
): Promise<ReadonlyMap<string, number>> {
  const failedAtMs = new Map<string, number>()
  const open = new Set(jobs.map(failureName))
  for (const [name, atMs] of Object.entries(await redis.hgetall(FAILED_TAKEOVERS_KEY))) {
    const [tenant = ''] = name.split(' ')
    if (unlisted.has(tenant)) await redis.hset(FAILED_TAKEOVERS_KEY, name, clock.now())
    else if (open.has(name)) failedAtMs.set(name, Number(atMs))
    else await redis.hdel(FAILED_TAKEOVERS_KEY, name)
  }
  return failedAtMs
}

async function guarded<T> (
  { log }: Pick<TakeoverDeps, 'log'>, about: object, action: () => Promise<T>,
  onError: () => Promise<unknown> = async () => {}
): Promise<T | undefined> {
  try {
    return await action()
  } catch (error) {
    if (error instanceof FatalError) throw error
    log.error({ ...about, err: error }, 'takeover failed for one tenant or job; retrying')
    await onError()
    return undefined
  }
}

/** Whether all rows of a job are counted, so that it ends or has ended. */
function isCounted ({ ended, counts, preflight, chunks }: Job): boolean {
  return ended ||
    (counts.finishedRows === preflight.totalRows && counts.inputBlocks === chunks)
}

type OpenJob = {
  readonly tenant: string
  readonly job: string
  readonly sinceMs: number
  /** Whether no stage closes it when all of its rows are counted. */
  readonly isOrphan: boolean
}

/**
 * Closes an ended job that its stage has left, ends one all of whose rows are counted, and fails
 * one without progress. Returns `stalled` if the job is that, whether or not it was failed.
 */
async function completeJob (
  deps: TakeoverDeps, { tenant, job: id, sinceMs, isOrphan }: OpenJob
): Promise<'stalled' | undefined> {
  const job = await deps.store.read(tenant, id)
  if (job === undefined || job.closed) return undefined
  // Its last row was counted after this run began, or its stage still closes it.
  if (isCounted(job) && !isOrphan) return undefined
  // Its entry is shipped with the others that are left.
  const ended = job.ended ? { job, entry: undefined } : await endComplete(deps, job)
  const idleMs = await measureIdleTime(deps, job, sinceMs)
  const isIdle = idleMs >= deps.stalledAfterMs
  if (ended !== undefined) {
    const isClosed = await close(deps, ended, 'ended_job')
    return isClosed || !isIdle ? undefined : 'stalled'
  }
  if (!isIdle) return undefined
  const failed = await failStalled(deps, job, idleMs)
  if (failed !== undefined) await close(deps, failed, 'stalled_job')
  return 'stalled'
}

/**
 * Milliseconds without progress. Rows that wait for a host are no standstill: `verify` records when
 * they are due, and records it again whenever it carries them on.
 */
async function measureIdleTime (
  { store, clock, stalledAfterMs }: TakeoverDeps, job: Job, sinceMs: number
): Promise<number> {
  const nowMs = clock.now()
  const idleMs = nowMs - Math.max(sinceMs, job.updatedAtMs)
  if (idleMs < stalledAfterMs) return idleMs
  const waiting = await store.waitingRows(job.tenant, job.id)
  return waiting === undefined ? idleMs : Math.min(idleMs, nowMs - waiting.lastDueMs)
}

/** Ends a job whose rows were all counted while its wallet was frozen. */
async function endComplete (
  { store }: TakeoverDeps, job: Job
): Promise<EndedJob | undefined> {
  if (!isCounted(job)) return undefined
  const step = await store.end(job.tenant, job.id)
  if (step.kind === 'skip' || !step.ended) return undefined
  return { job: step.job, entry: step.entry }
}

const EVENTS = {
  ended_job: 'ended job closed',
  stalled_job: 'stalled job failed, its open rows ended as unknown',
} as const

/** Closes an ended job; false if its blocks are not stored. */
async function close (
  deps: TakeoverDeps, ended: EndedJob, kind: keyof typeof EVENTS
): Promise<boolean> {
  const steps = await archiveEnded(deps, ended)
  if (steps === undefined) return false
  await deps.emitter.emit(steps.emits)
  await steps.close()
  deps.metrics.count('recovery_actions_total', { kind })
  deps.log.warn({ tenant: ended.job.tenant, job: ended.job.id, kind }, EVENTS[kind])
  return true
}

/**
 * Fails a job whose rows are lost: one block of the whole job ends all open rows as `unknown`,
 * reason `internal`. If the job's key is lost, so that no block can be sealed, the job ends without
 * it: its reservation is released, and its results are lost.
 * Returns undefined when rows of the job may still be in a topic, or it made progress meanwhile.
 */
async function failStalled (
  deps: TakeoverDeps, job: Job, idleMs: number
): Promise<EndedJob | undefined> {
  const { store, backlog } = deps
  if (await backlog.mayContain({ ...job, idleMs })) return undefined
  const rows = await store.unfinishedRows(job.tenant, job.id)
  if (rows === undefined) return undefined
  const digest = await digestOfStored(deps, job, rows)
  const failed = await store.fail(job.tenant, job.id, { digest, finished: rows })
  if (failed.kind === 'skip' || !failed.ended) return undefined
  return { job: failed.job, entry: failed.entry }
}

/** The digest of the stored block that ends these rows; empty if it cannot be sealed. */
async function digestOfStored (
  deps: TakeoverDeps, job: Job, rows: Buffer
): Promise<string> {
  const { tenant, id, service, chunks, preflight: { totalRows } } = job
  const emission = unresolvableBlock({
    // After the last chunk, where no block of a chunk is.
    coordinates: {
      tenant, job: id, service, chunk: chunks, chunks, firstRow: 0, rows: totalRows, totalRows,
    },
    lane: job.lane,
    bitmap: rows,
  }, { atMs: job.createdAtMs, inputs: false })
  try {
    return blockDigest(await storeBlock(deps, emission))
  } catch (error) {
    // Of one organization: ledger goes on without its job, and restores the key when it can.
    if (error instanceof MissingKeyError) {
      throw new InfrastructureError(error.message, { cause: error })
    }
    if (!(error instanceof JobKeyLostError || error instanceof SealError)) throw error
    deps.log.error(
      { tenant, job: id, err: error }, 'job ended without results: its data key is lost')
    return ''
  }
}

/** Something that a stage has begun with a message, and finishes before it commits the message. */
export type Owned = {
  /** Unique among everything that is owned at a time. */
  readonly id: string
  readonly stage: 'lookup' | 'settle'
  readonly lane: Lane
}

type OwnersDeps = {
  /** The committed offsets and lags of these consumer groups, by partition. */
  readonly readOffsets: (groups: readonly string[]) => Promise<readonly GroupLag[]>
  /** Monotonic milliseconds. */
  readonly now: () => number
}

/** A stage that is behind in a partition and commits nothing for so long makes no progress. */
const NO_PROGRESS_MS = 300_000

/**
 * Finds orphans, without a limit on how slow their owners may be. A stage commits a message only
 * after it has finished everything that it began with it; if it crashes before, the message is
 * delivered again. So nothing is orphaned before its consumer group has committed all messages that
 * were in its topics when it was first seen. If it is unfinished after that, its end was lost, for
 * example because Redis lost its newest writes. A partition without any commit for NO_PROGRESS_MS
 * counts as finished, as its stage is gone or stuck.
 */
export class Owners {
  readonly #readOffsets: OwnersDeps['readOffsets']
  readonly #now: OwnersDeps['now']
  /** By id, the ends of the partitions when it was first seen. */
  #ends = new Map<string, ReadonlyMap<string, number>>()
  /** By group and partition, the last commit, and since when nothing followed it. */
  readonly #commits = new Map<string, { readonly offset: number, readonly sinceMs: number }>()

  constructor ({ readOffsets, now }: OwnersDeps) {
    this.#readOffsets = readOffsets
    this.#now = now
  }

  /**
   * Returns the ids of those whose stage will not finish them. Call it once a run with all that
   * are unfinished: one that is left out is forgotten.
   */
  async findOrphans (owned: readonly Owned[]): Promise<ReadonlySet<string>> {
    const groups = new Set(owned.map(groupName))
    if (groups.size === 0) this.#commits.clear()
    const lags = groups.size === 0 ? [] : await this.#readOffsets([...groups])
    const byGroup = Map.groupBy(lags, ({ group }) => group)
    const stuck = new Set(lags.filter(lag => this.#isStuck(lag)))
    const seen = this.#ends
    this.#ends = new Map()
    const orphans = new Set<string>()
    for (const unfinished of owned) {
      const { id } = unfinished
      const partitions = byGroup.get(groupName(unfinished)) ?? []
      const before = seen.get(id)
      this.#ends.set(id, before ??
        new Map(partitions.map(lag => [partitionName(lag), lag.offset + lag.lag])))
      const isFinished = (lag: GroupLag) =>
        lag.offset >= (before?.get(partitionName(lag)) ?? 0) || stuck.has(lag)
      if (before !== undefined && partitions.every(isFinished)) orphans.add(id)
    }
    return orphans
  }

  #isStuck (lag: GroupLag): boolean {
    const name = `${lag.group} ${partitionName(lag)}`
    const last = this.#commits.get(name)
    if (lag.lag > 0 && last?.offset === lag.offset) {
      return this.#now() - last.sinceMs >= NO_PROGRESS_MS
    }
    this.#commits.set(name, { offset: lag.offset, sinceMs: this.#now() })
    return false
  }
}

function groupName ({ stage, lane }: Owned): string {
  const [subscription] = listSubscriptions(stage, { lanes: [lane] })
  if (subscription === undefined) throw new TypeError(`${stage} reads no topic of lane ${lane}`)
  return subscription.group
}

/** Attempts at a request, as a coordinator that has just moved answers late. */
const TRIES = 10

/** A younger message does not count, as a working stage may be processing it. */
const MIN_AGE_MS = 60_000
/**
 * No row waits for longer, as no deadline is later than 48 hours. Rows of other jobs are on a retry
 * topic at all times, and must not keep the money of a job reserved whose own rows are lost.
 */
const MAX_WAIT_MS = 50 * 3_600_000

/**
 * Finds messages that the consumer groups of a job's lane and service have not committed: any
 * message of a retry topic, as batches return to it while they wait, and messages of the other
 * topics that are older than a minute; for a job that has been idle for 50 hours, only those of a
 * retry topic too. Messages of other jobs count as well, so a job behind a backlog is never taken
 * for stalled.
 */
export function createBacklog ({ connection, clientId, clock }: {
  readonly connection: KafkaConnection
  readonly clientId: string
  readonly clock: Clock
}) {
  const isAnyBehind = async (
    admin: KafkaAdmin, subscriptions: readonly Subscription[], idleMs: number
  ) => {
    for (const subscription of subscriptions) {
      const age = { olderThanMs: clock.now() - MIN_AGE_MS, countsRetries: idleMs < MAX_WAIT_MS }
      const check = () => isBehind(admin, subscription, age)
      if (await retry(TRIES, check, { when: isInfrastructure, maxMs: 1_000 })) return true
    }
    return false
  }
  /** Whether a topic may still hold rows of the job. */
  const mayContain = async ({ lane, service, idleMs }: {
    readonly lane: Lane, readonly service: ServiceSlug, readonly idleMs: number,
  }): Promise<boolean> => {
    const limits = { lanes: [lane], services: [service] }
    const admin = createKafka(connection, { clientId, logLevel: logLevel.NOTHING }).admin()
    await admin.connect()
    try {
      return await isAnyBehind(admin, (['lookup', 'verify', 'settle'] as const)
        .flatMap(stage => listSubscriptions(stage, limits)), idleMs)
    } finally {
      await admin.disconnect()
    }
  }
  return { mayContain }
}

type MessageAge = {
  readonly olderThanMs: number
  /** Whether messages of a retry topic count at any age. */
  readonly countsRetries: boolean
}

async function isBehind (
  admin: KafkaAdmin, { group, topics }: Subscription, age: MessageAge
): Promise<boolean> {
  const committed = await admin.fetchOffsets({ groupId: group, topics: [...topics] })
  for (const { topic, partitions } of committed) {
    const ends = await findTargets(admin, topic, age)
    const behind = partitions.some(({ partition, offset }) => {
      const { low = 0n, target = 0n } = ends.get(partition) ?? {}
      const next = BigInt(offset) < low ? low : BigInt(offset)
      return next < target
    })
    if (behind) return true
  }
  return false
}

/** The lowest offset of each partition, and the offset that a group must have reached. */
async function findTargets (
  admin: KafkaAdmin, topic: string, { olderThanMs, countsRetries }: MessageAge
) {
  const bounds = await admin.fetchTopicOffsets(topic)
  const isRetry = topic.startsWith('rows.retry.')
  const targets = isRetry && countsRetries
    ? bounds
    : await admin.fetchTopicOffsetsByTimestamp(topic, olderThanMs)
  const offsets = new Map(targets.map(({ partition, offset }) => [partition, BigInt(offset)]))
  return new Map(bounds.map(({ partition, low, high }) => {
    const target = offsets.get(partition) ?? BigInt(high)
    return [partition, { low: BigInt(low), target: target < 0n ? BigInt(high) : target }]
  }))
}
