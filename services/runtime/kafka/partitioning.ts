import { LANES, topology, type Lane, type TopicName } from '../../topology.ts'
import { logicalTopic, topicName, whyFixed } from '../platform/topics.ts'
import type { Bus } from './bus.ts'

/**
 * Headers with the number of partitions that the messages of a job are spread over, by topic. Every
 * message of the job repeats them, so that its chunks and blocks meet in one partition, however
 * many partitions are added meanwhile. Without a header it is the number of services/topology.ts.
 */
export type PartitionHeaders = Readonly<Record<string, string>>

/** The topics in which all messages of a job are in one partition. */
export const TOPICS_BY_JOB = (Object.keys(topology.topics) as TopicName[])
  .filter(topic => topology.topics[topic].key === 'job' && topology.topics[topic].split === 'lane')

const PREFIX = 'partitions.'

/** The headers of new jobs by lane, of a process that submits jobs. */
export function watchJobPartitions (
  bus: Pick<Bus, 'watchPartitions'>
): (lane: Lane) => PartitionHeaders {
  const topics = TOPICS_BY_JOB.flatMap(topic => LANES.map(lane => topicName(topic, { lane })))
  const countOf = bus.watchPartitions(topics)
  return lane => Object.fromEntries(TOPICS_BY_JOB
    .map(topic => [topic, countOf(topicName(topic, { lane }))] as const)
    .filter(([topic, count]) => count !== topology.topics[topic].partitions)
    .map(([topic, count]) => [PREFIX + topic, String(count)]))
}

/** These headers among those of a message. */
export function partitionHeadersIn (headers: Readonly<Record<string, string>>): PartitionHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith(PREFIX)))
}

/**
 * How many partitions a message may go to: of a topic by job, as many as its headers say. Undefined
 * for other topics.
 */
export function partitionsForJob (
  name: string, headers: Readonly<Record<string, unknown>> = {}
): number | undefined {
  const topic = logicalTopic(name)?.topic
  if (topic === undefined || !TOPICS_BY_JOB.includes(topic)) return undefined
  return Number(headers[PREFIX + topic] ?? topology.topics[topic].partitions)
}

/** How many partitions of each topic producers use. */
export type PartitionCounts = {
  /** Records how many partitions a topic has. */
  readonly update: (topic: string, partitions: number) => void
  readonly of: (topic: string) => number
}

type PartitionCount = {
  readonly used: number, readonly partitions: number, readonly sinceMs: number,
}

/**
 * Uses new partitions of a topic that may grow only when they have been known for a while: by then
 * every consumer reads them. A process that has just started cannot know since when they exist, so
 * it begins with the number of services/topology.ts.
 */
export function createPartitionCounts (
  { delayMs, now = () => performance.now() }: {
    readonly delayMs: number, readonly now?: () => number,
  }
): PartitionCounts {
  const counts = new Map<string, PartitionCount>()
  const current = (name: string): PartitionCount => {
    const topic = logicalTopic(name)?.topic
    const isFixed = topic === undefined || whyFixed(name) !== undefined
    // No limit for a topic whose partitions cannot grow.
    const used = isFixed ? Infinity : topology.topics[topic].partitions
    const count = counts.get(name) ?? { used, partitions: 0, sinceMs: now() }
    const isDue = count.partitions > 0 && now() - count.sinceMs >= delayMs
    return isDue ? { ...count, used: count.partitions } : count
  }
  return {
    update: (topic, partitions) => {
      const { used, ...before } = current(topic)
      const sinceMs = before.partitions === partitions ? before.sinceMs : now()
      counts.set(topic, { used: Math.min(used, partitions), partitions, sinceMs })
    },
    of: topic => current(topic).used,
  }
}
