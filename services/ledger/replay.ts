import type { Redis } from 'ioredis'
import type { RawMessage } from '../kafka/bus.ts'
import type { TopicReader } from '../kafka/topic-reader.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import { topicName } from '../platform/topics.ts'
import { moneyKeys, REPLAYING_KEY } from '../money/redis-keys.ts'
import { LANES } from '../topology.ts'
import { recount, type RecountDeps } from './recount.ts'

export type ReplayDeps = RecountDeps & {
  readonly redis: Pick<Redis, 'smembers' | 'srem' | 'hgetall' | 'hdel' | 'hlen'>
  readonly reader: TopicReader
  readonly log: Pick<Log, 'warn' | 'error'>
  readonly metrics: Pick<Metrics, 'count'>
}

/** Jobs by tenant and id, with the time from which their blocks are read. */
type Marked = ReadonlyMap<string, ReadonlyMap<string, number>>

const BLOCKS_PER_BATCH = 64

/**
 * Recounts the jobs whose tally may have been lost, from the topic of blocks, as `settle` does.
 * Marks of jobs are removed only at the end, so an interrupted replay is repeated. Returns the
 * number of jobs.
 */
export async function replay (deps: ReplayDeps, signal: AbortSignal): Promise<number> {
  const marked = await marksOf(deps)
  const since = [...marked.values()].flatMap(jobs => [...jobs.values()])
  if (since.length === 0) return 0
  const sinceMs = Math.min(...since)
  for (const lane of LANES) {
    await deps.reader.read(topicName('rows.completed', { lane }), async messages => {
      const wanted = messages.filter(message => isMarked(marked, message))
      for (let from = 0; from < wanted.length; from += BLOCKS_PER_BATCH) {
        await recount(deps, wanted.slice(from, from + BLOCKS_PER_BATCH))
      }
    }, { sinceMs, signal })
  }
  for (const [tenant, jobs] of marked) await unmark(deps, tenant, [...jobs.keys()])
  deps.metrics.count('recovery_actions_total', { kind: 'replayed_job' }, since.length)
  deps.log.warn({ jobs: since.length }, 'jobs recounted from topic')
  return since.length
}

async function marksOf ({ redis }: ReplayDeps): Promise<Marked> {
  const marked = new Map<string, ReadonlyMap<string, number>>()
  for (const tenant of await redis.smembers(REPLAYING_KEY)) {
    const marks = Object.entries(await redis.hgetall(moneyKeys(tenant).replay))
    marked.set(tenant, new Map(marks.map(([job, since]) => [job, Number(since)])))
  }
  return marked
}

/** Only the leader marks and unmarks, never concurrently. */
async function unmark (
  { redis }: ReplayDeps, tenant: string, jobs: readonly string[]
): Promise<void> {
  const { replay: key } = moneyKeys(tenant)
  if (jobs.length > 0) await redis.hdel(key, ...jobs)
  if (await redis.hlen(key) === 0) await redis.srem(REPLAYING_KEY, tenant)
}

const isMarked = (marked: Marked, { headers }: RawMessage) =>
  marked.get(headers['tenant'] ?? '')?.has(headers['job'] ?? '') === true
