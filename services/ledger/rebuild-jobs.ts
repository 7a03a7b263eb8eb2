import type { Completed, Journal } from '../../schemas/types.ts'
import { splitBatches } from '../runtime/platform/batch-writes.ts'
import type { Clock } from '../runtime/platform/retry.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import type { Archive } from '../jobs/results/archive.ts'
import type { Job } from '../jobs/job.ts'
import { COUNTS, toRecord } from '../jobs/job-record.ts'
import type { EndedEntries, JournalState } from './journal-state.ts'
import type { LeaderTerm, LockedWallet, RebuiltJob, RecoveryStore } from './recovery-store.ts'
import { republish, type RepublishDeps } from './restore-deliveries.ts'
import { MissingOrganizationKeyError } from '../runtime/crypto/key-ring.ts'
import { type MessageCodec, messageFields } from '../runtime/engine/stage.ts'
import type { JobStore } from '../jobs/store.ts'
import type { RawMessage } from '../runtime/kafka/bus.ts'
import type { TopicReader } from '../runtime/kafka/topic-reader.ts'
import { readReserveTerms, type ReserveTerms } from '../money/entry-reason.ts'
import { moneyKeys, RECOUNTING_KEY } from '../money/redis-keys.ts'
import { isInfrastructure, orIfUnavailable } from '../runtime/platform/errors.ts'
import type { Log } from '../runtime/platform/log.ts'
import { topicName } from '../runtime/platform/topics.ts'
import type { ResultBlocks } from '../jobs/results/result-blocks.ts'
import { toTallyBlock } from '../jobs/results/block.ts'
import { LANES } from '../topology.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'

export type RebuildDeps = RepublishDeps & {
  readonly recoveryStore: Pick<RecoveryStore, 'rebuild'>
  readonly archive: Pick<Archive, 'findAll'>
  readonly clock: Clock
  readonly metrics: Pick<Metrics, 'count'>
}

/** A job that ended in the journal and not in Redis. */
export type Ended = EndedEntries & {
  readonly term: LeaderTerm
  /** Whether the job is open in Redis. */
  readonly isOpen: boolean
}

/** Ended jobs of one tenant; `openJobs` are those that are open in Redis. */
export function selectEnded (
  entries: JournalState['ended'],
  { term, openJobs }: { readonly term: LeaderTerm } & Pick<LockedWallet, 'openJobs'>
): readonly Ended[] {
  const open = new Set(openJobs.map(({ job }) => job))
  return [...entries.values()].map(endedJob => (
    { ...endedJob, term, isOpen: open.has(endedJob.end.job) }))
}

/** The number of jobs rebuilt, and entries of jobs whose blocks must be recounted. */
type RebuiltJobs = {
  readonly made: number
  readonly uncounted: readonly Journal[]
  /** True when another leader has taken over, or the server was restarted. */
  readonly superseded: boolean
}

/**
 * Rebuilds the open jobs of a journal that Redis lacks. Open jobs in Redis whose entry was not read
 * stay as they are. Faults: jobs that Redis lacks and no entry describes.
 */
export async function rebuildOpen (
  deps: RebuildDeps, term: LeaderTerm,
  { open, openJobs }: Pick<JournalState, 'open'> & Pick<LockedWallet, 'openJobs'>
): Promise<RebuiltJobs & { readonly faults: readonly string[] }> {
  const nowMs = deps.clock.now()
  const inRedis = new Map(openJobs.map(({ job, state }) => [job, state]))
  const faults: string[] = []
  const jobs: RebuiltJob[] = []
  const uncounted: Journal[] = []
  for (const { job, entry } of open.values()) {
    if (entry !== undefined && readReserveTerms(entry) !== undefined) {
      jobs.push(rebuildOpenJob(entry, nowMs))
      uncounted.push(entry)
    } else if ((inRedis.get(job) ?? 'gone') === 'gone') {
      faults.push(`no entry describes the open job ${job}`)
    }
  }
  return { ...await write(deps, jobs.map(job => ({ job, term }))), uncounted, faults }
}

/**
 * Ends jobs in Redis: closes an archived job, and has any other one recounted to its end. A job
 * that Redis lacks and no entry describes is left out.
 */
export async function rebuildEnded (
  deps: RebuildDeps, ended: readonly Ended[]
): Promise<RebuiltJobs> {
  const nowMs = deps.clock.now()
  const jobs: { readonly job: RebuiltJob, readonly term: LeaderTerm }[] = []
  const uncounted: Journal[] = []
  for (const some of splitBatches(ended, JOBS_PER_QUERY)) {
    const tenants = [...new Set(some.map(({ end }) => end.tenant))]
    const archived = await deps.archive.findAll(tenants, some.map(({ end }) => end.job))
    await republish(deps, [...archived.values()])
    for (const { reserve, end, term, isOpen } of some) {
      const job = archived.get(end.job)
      const entry = reserve ?? end
      if (job !== undefined) {
        jobs.push({ job: rebuildClosedJob(job, { reserve, end, nowMs }), term })
      } else if (readReserveTerms(entry) !== undefined || isOpen) {
        jobs.push({ job: rebuildOpenJob(entry, nowMs, end), term })
        uncounted.push(entry)
      }
    }
  }
  return { ...await write(deps, jobs), uncounted }
}

/** Jobs per query, as each query has a fixed cost. */
const JOBS_PER_QUERY = 1_000
const MAX_CONCURRENT_WRITES = 100

async function write (
  { recoveryStore, metrics }: RebuildDeps,
  jobs: readonly { readonly job: RebuiltJob, readonly term: LeaderTerm }[]
): Promise<Pick<RebuiltJobs, 'made' | 'superseded'>> {
  let [made, superseded] = [0, false]
  for (const batch of splitBatches(jobs, MAX_CONCURRENT_WRITES)) {
    const steps = await Promise.all(
      batch.map(({ job, term }) => recoveryStore.rebuild(term, job)))
    made += steps.filter(step => step === 'made').length
    superseded = steps.includes('superseded')
    if (superseded) break
  }
  if (made > 0) metrics.count('recovery_actions_total', { kind: 'job' }, made)
  return { made, superseded }
}

/** Terms that are not fields of the record. */
const NON_RECORD_TERMS: ReadonlySet<string> = new Set([
  'fingerprint', 'claimedAt', 'cursor', 'cursorTo',
])

const KEY_BOUND_MS = 86_400_000

/**
 * An open job from its reserve entry; `settled` is its end in the journal, if any. From an entry
 * without terms it has no record, and only updates an existing one.
 */
function rebuildOpenJob (entry: Journal, nowMs: number, settled?: Journal): RebuiltJob {
  const terms = readReserveTerms(entry)
  return {
    ...toBinding(entry, { terms, nowMs }),
    settled: settled && { seq: settled.seq, chargeMicros: settled.chargeMicros },
    isClosed: false,
    fields: terms === undefined
      ? []
      : [...openRecord(entry, terms), ...Object.entries(terms)
          .filter(([name]) => !NON_RECORD_TERMS.has(name)).flat()],
  }
}

/** A closed job from the archive, for repeated requests and queries. */
function rebuildClosedJob (
  job: Job,
  { reserve, end, nowMs }: EndedEntries & { readonly nowMs: number }
): RebuiltJob {
  const terms = reserve && readReserveTerms(reserve)
  const state = { announced: true, rebuilt: false, ended: true, closed: true }
  return {
    ...toBinding(end, { terms, nowMs }),
    settled: { seq: end.seq, chargeMicros: end.chargeMicros },
    isClosed: true,
    fields: [...toRecord({ ...job, ...state }), 'settleSeq', String(end.seq)],
  }
}

function toBinding (
  { tenant, job }: Journal,
  { terms = {}, nowMs }: { readonly terms: ReserveTerms | undefined, readonly nowMs: number }
) {
  const isBound = nowMs < Number(terms['claimedAt']) + KEY_BOUND_MS
  const [partner = '', partition = '-1'] = terms['feed']?.split(':') ?? []
  return {
    tenant,
    job,
    nowMs,
    idempotencyKey: isBound ? terms['idempotencyKey'] ?? '' : '',
    fingerprint: terms['fingerprint'] ?? '',
    claimedAt: terms['claimedAt'] ?? '',
    feed: {
      partner,
      partition: Number(partition),
      cursor: terms['cursor'] ?? '',
      to: terms['cursorTo'] ?? '',
    },
  }
}

/**
 * The initial fields of `accept`. Whether all its batches were produced is unknown: if not,
 * `lookup` still has its chunks and announces it.
 */
function openRecord (reserve: Journal, terms: ReserveTerms): readonly string[] {
  const numbers = [
    'endedAtMs', ...COUNTS, 'chargedMicros', 'releasedMicros', 'announced', 'ended', 'closed',
  ]
  return [
    'id', reserve.job,
    'status', 'verifying',
    'maxQuoteMicros', String(reserve.amountMicros),
    'header', reserve.header?.toString('base64') ?? '',
    'updatedAtMs', String(reserve.at),
    'reserveSeq', String(reserve.seq),
    'availableMicros', String(reserve.availableMicros),
    'idempotencyKey', terms['idempotencyKey'] ?? '',
    ...numbers.flatMap(name => [name, '0']),
    'rebuilt', '1',
  ]
}

export type RecountDeps = BlockDeps & {
  readonly redis: RedisClient
  readonly reader: TopicReader
  readonly log: Log
  readonly metrics: Pick<Metrics, 'count'>
}

type BlockDeps = {
  readonly messageCodec: Pick<MessageCodec, 'decode'>
  readonly blocks: ResultBlocks
  readonly store: Pick<JobStore, 'tally'>
  readonly log: Log
}

/** Jobs by tenant and id, with the time from which their blocks are read. */
type Marked = ReadonlyMap<string, ReadonlyMap<string, number>>

const BLOCKS_PER_BATCH = 64

/**
 * Recounts the jobs whose tally may have been lost, from the topic of blocks, as `settle` does.
 * Marks of jobs are removed only at the end, so an interrupted recount is repeated. Returns how
 * many jobs are left, as their organizations lack keys: they keep their marks.
 */
export async function recountLostJobs (
  deps: RecountDeps, signal: AbortSignal
): Promise<{ readonly left: number }> {
  const marked = await readMarks(deps)
  const since = [...marked.values()].flatMap(jobs => [...jobs.values()])
  if (since.length === 0) return { left: 0 }
  const left = new Set<string>()
  const sinceMs = Math.min(...since)
  for (const lane of LANES) {
    await deps.reader.read(topicName('rows.completed', { lane }), async messages => {
      const wanted = messages.filter(({ headers }) =>
        marked.get(headers['tenant'] ?? '')?.has(headers['job'] ?? '') === true)
      for (const batch of splitBatches(wanted, BLOCKS_PER_BATCH)) {
        await recountBlocks(deps, batch, left)
      }
    }, { sinceMs, signal })
  }
  // Only the leader marks and unmarks, never concurrently.
  for (const [tenant, jobs] of marked) {
    const { recounts } = moneyKeys(tenant)
    const recounted = [...jobs.keys()].filter(job => !left.has(job))
    if (recounted.length > 0) await deps.redis.hdel(recounts, ...recounted)
    if (await deps.redis.hlen(recounts) === 0) await deps.redis.srem(RECOUNTING_KEY, tenant)
  }
  const jobs = since.length - left.size
  deps.metrics.count('recovery_actions_total', { kind: 'recounted_job' }, jobs)
  deps.log.warn({ jobs, left: left.size }, 'jobs recounted from topic')
  return { left: left.size }
}

/**
 * Adds tenants with marked jobs to the set of all of them, which the server with the global keys
 * may have lost alone.
 */
export async function restoreMarks (redis: RedisClient, tenants: Iterable<string>): Promise<void> {
  for (const tenant of tenants) {
    if (await redis.exists(moneyKeys(tenant).recounts) === 0) continue
    await redis.sadd(RECOUNTING_KEY, tenant)
  }
}

async function readMarks ({ redis }: RecountDeps): Promise<Marked> {
  const marked = new Map<string, ReadonlyMap<string, number>>()
  for (const tenant of await redis.smembers(RECOUNTING_KEY)) {
    // The jobs of a server that is gone are recounted later.
    const recounts = await redis.hgetall(moneyKeys(tenant).recounts)
      .catch(orIfUnavailable(undefined))
    if (recounts === undefined) continue
    const marks = Object.entries(recounts)
    marked.set(tenant, new Map(marks.map(([job, since]) => [job, Number(since)])))
  }
  return marked
}

/**
 * Stores and tallies the blocks of these messages; a block that was tallied
 * before counts once. Logs a block that cannot be decoded or tallied, and continues with the
 * others. Adds jobs whose organization lacks a key to `left`, and skips their blocks.
 * @throws InfrastructureError when Redis, ClickHouse or the registry cannot be reached.
 */
async function recountBlocks (
  { messageCodec, blocks, store, log }: BlockDeps, messages: readonly RawMessage[],
  left: Set<string>
): Promise<void> {
  const completed: Completed[] = []
  for (const raw of messages) {
    const { tenant, job = '' } = raw.headers
    if (left.has(job)) continue
    const opened = await messageCodec.decode(raw).catch((error: unknown) => {
      if (!(error instanceof MissingOrganizationKeyError)) throw error
      left.add(job)
      log.error({ tenant, job, err: error },
        'recount of a job waits for a key of its organization; retrying')
      return { kind: 'left' } as const
    })
    if (opened.kind === 'message') completed.push(opened.message.value as Completed)
    if (opened.kind !== 'dead') continue
    log.error({ ...messageFields(raw), reason: opened.reason },
      'recount skipped a block that cannot be decoded; settle dead-lettered it before')
  }
  // Stored before it is tallied: nothing delivers it again.
  await blocks.insert(completed)
  for (const block of completed) {
    try {
      await store.tally(block.tenant, toTallyBlock(block), { recount: true })
    } catch (error) {
      if (isInfrastructure(error)) throw error
      log.error({ tenant: block.tenant, job: block.job, err: error }, 'recount skipped a block ' +
        'that cannot be tallied; its rows stay open until ledger fails the job')
    }
  }
}
