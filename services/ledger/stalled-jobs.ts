import { logLevel } from 'kafkajs'
import type { Completed } from '../../schemas/types.ts'
import { MissingKeyError } from '../runtime/crypto/key-ring.ts'
import { SealError } from '../runtime/crypto/seal.ts'
import type { Emitter } from '../runtime/engine/emit.ts'
import type { Emission } from '../runtime/engine/stage.ts'
import type { Job } from '../jobs/job.ts'
import { JobKeyLostError } from '../jobs/job-keys.ts'
import type { JobStore } from '../jobs/store.ts'
import { createKafka, type KafkaAdmin } from '../runtime/kafka/client.ts'
import type { KafkaConnection } from '../runtime/kafka/connection.ts'
import type { Clock } from '../runtime/platform/clock.ts'
import { InfrastructureError, isInfrastructure } from '../runtime/platform/errors.ts'
import type { Log } from '../runtime/platform/log.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { retry } from '../runtime/platform/retry.ts'
import { subscriptionsOf, type Subscription } from '../runtime/platform/topics.ts'
import { unresolvableBlock } from '../jobs/results/block.ts'
import { archiveEnded, type EndedJob, type EndedJobDeps } from '../jobs/results/finish-job.ts'
import { blockDigest } from '../jobs/results/result-blocks.ts'
import type { Lane, ServiceSlug } from '../topology.ts'

export type StalledJobsDeps = EndedJobDeps & {
  readonly store: Pick<JobStore, 'read' | 'end' | 'fail' | 'unfinishedRows' | 'waitingRows'>
  readonly backlog: Backlog
  /** Seals and stores a block. */
  readonly storeBlock: (emission: Emission<'rows.completed'>) => Promise<Completed>
  readonly emitter: Pick<Emitter, 'emit'>
  /** Redis time. */
  readonly clock: Clock
  readonly log: Pick<Log, 'warn' | 'error'>
  readonly metrics: Pick<Metrics, 'count'>
  readonly stalledAfterMs: number
}

/** Whether all rows of a job are counted, so that it ends or has ended. */
export function hasAllRows ({ ended, counts, preflight, chunks }: Job): boolean {
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
export async function completeJob (
  deps: StalledJobsDeps, { tenant, job: id, sinceMs, isOrphan }: OpenJob
): Promise<'stalled' | undefined> {
  const job = await deps.store.read(tenant, id)
  if (job === undefined || job.closed) return undefined
  // Its last row was counted after this run began, or its stage still closes it.
  if (hasAllRows(job) && !isOrphan) return undefined
  // Its entry is shipped with the others that are left.
  const ended = job.ended ? { job, entry: undefined } : await endComplete(deps, job)
  const idleMs = await idleTimeOf(deps, job, sinceMs)
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
async function idleTimeOf (
  { store, clock, stalledAfterMs }: StalledJobsDeps, job: Job, sinceMs: number
): Promise<number> {
  const nowMs = clock.now()
  const idleMs = nowMs - Math.max(sinceMs, job.updatedAtMs)
  if (idleMs < stalledAfterMs) return idleMs
  const waiting = await store.waitingRows(job.tenant, job.id)
  return waiting === undefined ? idleMs : Math.min(idleMs, nowMs - waiting.lastDueMs)
}

/** Ends a job whose rows were all counted while its wallet was frozen. */
async function endComplete (
  { store }: StalledJobsDeps, job: Job
): Promise<EndedJob | undefined> {
  if (!hasAllRows(job)) return undefined
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
  deps: StalledJobsDeps, ended: EndedJob, kind: keyof typeof EVENTS
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
  deps: StalledJobsDeps, job: Job, idleMs: number
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
  { storeBlock, log }: StalledJobsDeps, job: Job, rows: Buffer
): Promise<string> {
  const { tenant, id, service, chunks, preflight: { totalRows } } = job
  const emission = unresolvableBlock({
    // After the last chunk, where no block of a chunk is.
    coordinates: {
      tenant, job: id, service, chunk: chunks, chunks, firstRow: 0, rows: totalRows, totalRows,
    },
    lane: job.lane,
    rows,
  }, { atMs: job.createdAtMs, inputs: false })
  try {
    return blockDigest(await storeBlock(emission))
  } catch (error) {
    // Of one organization: ledger goes on without its job, and restores the key when it can.
    if (error instanceof MissingKeyError) {
      throw new InfrastructureError(error.message, { cause: error })
    }
    if (!(error instanceof JobKeyLostError || error instanceof SealError)) throw error
    log.error({ tenant, job: id, err: error }, 'job ended without results: its data key is lost')
    return ''
  }
}

type Backlog = ReturnType<typeof createBacklog>

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
        .flatMap(stage => subscriptionsOf(stage, limits)), idleMs)
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
    const ends = await targetsOf(admin, topic, age)
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
async function targetsOf (
  admin: KafkaAdmin, topic: string, { olderThanMs, countsRetries }: MessageAge
) {
  const bounds = await admin.fetchTopicOffsets(topic)
  const isRetry = topic.startsWith('rows.retry.')
  const targets = isRetry && countsRetries
    ? bounds
    : await admin.fetchTopicOffsetsByTimestamp(topic, olderThanMs)
  const targetOf = new Map(targets.map(({ partition, offset }) => [partition, BigInt(offset)]))
  return new Map(bounds.map(({ partition, low, high }) => {
    const target = targetOf.get(partition) ?? BigInt(high)
    return [partition, { low: BigInt(low), target: target < 0n ? BigInt(high) : target }]
  }))
}
