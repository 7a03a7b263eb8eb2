import type { Redis } from 'ioredis'
import type { Completed } from '../../schemas/types.ts'
import { messageFields, type MessageCodec } from '../runtime/engine/stage.ts'
import type { JobStore } from '../jobs/store.ts'
import type { RawMessage } from '../runtime/kafka/bus.ts'
import type { TopicReader } from '../runtime/kafka/topic-reader.ts'
import { moneyKeys, RECOUNTING_KEY } from '../money/redis-keys.ts'
import { isInfrastructure, orIfUnavailable } from '../runtime/platform/errors.ts'
import type { Log } from '../runtime/platform/log.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { topicName } from '../runtime/platform/topics.ts'
import type { ResultBlocks } from '../jobs/results/result-blocks.ts'
import { tallyBlockOf } from '../jobs/results/block.ts'
import { LANES } from '../topology.ts'

export type RecountDeps = BlockDeps & {
  readonly redis: Pick<Redis, 'smembers' | 'srem' | 'hgetall' | 'hdel' | 'hlen'>
  readonly reader: TopicReader
  readonly log: Pick<Log, 'warn' | 'error'>
  readonly metrics: Pick<Metrics, 'count'>
}

type BlockDeps = {
  readonly messageCodec: Pick<MessageCodec, 'decode'>
  readonly blocks: Pick<ResultBlocks, 'insert'>
  readonly store: Pick<JobStore, 'tally'>
  readonly log: Pick<Log, 'error'>
}

/** Jobs by tenant and id, with the time from which their blocks are read. */
type Marked = ReadonlyMap<string, ReadonlyMap<string, number>>

const BLOCKS_PER_BATCH = 64

/**
 * Recounts the jobs whose tally may have been lost, from the topic of blocks, as `settle` does.
 * Marks of jobs are removed only at the end, so an interrupted recount is repeated. Returns the
 * number of jobs.
 */
export async function recountLostJobs (deps: RecountDeps, signal: AbortSignal): Promise<number> {
  const marked = await marksOf(deps)
  const since = [...marked.values()].flatMap(jobs => [...jobs.values()])
  if (since.length === 0) return 0
  const sinceMs = Math.min(...since)
  for (const lane of LANES) {
    await deps.reader.read(topicName('rows.completed', { lane }), async messages => {
      const wanted = messages.filter(message => isMarked(marked, message))
      for (let from = 0; from < wanted.length; from += BLOCKS_PER_BATCH) {
        await recountBlocks(deps, wanted.slice(from, from + BLOCKS_PER_BATCH))
      }
    }, { sinceMs, signal })
  }
  for (const [tenant, jobs] of marked) await unmark(deps, tenant, [...jobs.keys()])
  deps.metrics.count('recovery_actions_total', { kind: 'recounted_job' }, since.length)
  deps.log.warn({ jobs: since.length }, 'jobs recounted from topic')
  return since.length
}

/**
 * Adds tenants with marked jobs to the set of all of them, which the server with the global keys
 * may have lost alone.
 */
export async function restoreMarks (
  redis: Pick<Redis, 'exists' | 'sadd'>, tenants: Iterable<string>
): Promise<void> {
  for (const tenant of tenants) {
    if (await redis.exists(moneyKeys(tenant).recounts) === 0) continue
    await redis.sadd(RECOUNTING_KEY, tenant)
  }
}

async function marksOf ({ redis }: RecountDeps): Promise<Marked> {
  const marked = new Map<string, ReadonlyMap<string, number>>()
  for (const tenant of await redis.smembers(RECOUNTING_KEY)) {
    // The jobs of a server that is gone are recounted later.
    const found = await redis.hgetall(moneyKeys(tenant).recounts).catch(orIfUnavailable(undefined))
    if (found === undefined) continue
    const marks = Object.entries(found)
    marked.set(tenant, new Map(marks.map(([job, since]) => [job, Number(since)])))
  }
  return marked
}

/** Only the leader marks and unmarks, never concurrently. */
async function unmark (
  { redis }: RecountDeps, tenant: string, jobs: readonly string[]
): Promise<void> {
  const { recounts: key } = moneyKeys(tenant)
  if (jobs.length > 0) await redis.hdel(key, ...jobs)
  if (await redis.hlen(key) === 0) await redis.srem(RECOUNTING_KEY, tenant)
}

const isMarked = (marked: Marked, { headers }: RawMessage) =>
  marked.get(headers['tenant'] ?? '')?.has(headers['job'] ?? '') === true

/**
 * Stores and tallies the blocks of these messages; a block that was tallied
 * before counts once. Logs a block that cannot be decoded or tallied, and continues with the
 * others.
 * @throws InfrastructureError when Redis, ClickHouse or the registry cannot be reached.
 */
export async function recountBlocks (
  { messageCodec, blocks, store, log }: BlockDeps, messages: readonly RawMessage[]
): Promise<void> {
  const found: Completed[] = []
  for (const raw of messages) {
    const opened = await messageCodec.decode(raw)
    if (opened.kind === 'message') found.push(opened.message.value as Completed)
    if (opened.kind !== 'dead') continue
    log.error({ ...messageFields(raw), reason: opened.reason },
      'recount skipped a block that cannot be decoded; settle dead-lettered it before')
  }
  // Stored before it is tallied: nothing delivers it again.
  await blocks.insert(found)
  for (const block of found) {
    try {
      await store.tally(block.tenant, tallyBlockOf(block), { recount: true })
    } catch (error) {
      if (isInfrastructure(error)) throw error
      log.error({ tenant: block.tenant, job: block.job, err: error }, 'recount skipped a block ' +
        'that cannot be tallied; its rows stay open until ledger fails the job')
    }
  }
}
