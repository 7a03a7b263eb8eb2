import { topology, type TopicName } from '../../topology.ts'
import { allTopics, logicalTopic, type RealTopic } from './topics.ts'

/** How many partitions topics are to have. */
export type TopicPartitions = {
  /** For all topics that may grow, except `rows.retry`, which has one partition on purpose. */
  readonly all?: number
  /** By topic, such as `rows.completed`, or one of its parts, such as `rows.completed.bulk`. */
  readonly named: ReadonlyMap<string, number>
}

const MAX_PARTITIONS = 1_000
const TOPICS = Object.keys(topology.topics) as readonly TopicName[]
/** The topics that every installation has once or per lane and service. */
const OWN_TOPICS = TOPICS.filter(topic => topology.topics[topic].split !== 'partner')

/**
 * Parses a number for all topics, numbers by topic, or both: `8,rows.completed.bulk=16`.
 * @throws RangeError for an unknown topic and for a number below that of services/topology.ts.
 */
export function parseTopicPartitions (text: string): TopicPartitions {
  const named = new Map<string, number>()
  let all: number | undefined
  for (const item of text.split(',').map(part => part.trim()).filter(part => part !== '')) {
    const [name = '', count] = item.split('=').map(part => part.trim())
    if (count === undefined) {
      all = parseCount(item, name)
      for (const topic of TOPICS.filter(mayGrowByDefault)) checkMinimum(item, topic, all)
    } else {
      const topic = topicOf(name)
      named.set(name, parseCount(item, count))
      checkMinimum(item, topic, Number(count))
    }
  }
  return { ...all !== undefined && { all }, named }
}

/** The configured number of a topic of the broker; the most specific one wins. */
export function configuredPartitions (
  { all, named }: TopicPartitions, name: string
): number | undefined {
  const topic = logicalTopic(name)?.topic
  if (topic === undefined) return undefined
  const words = name.split('.')
  for (let length = words.length; length > 0; length--) {
    const count = named.get(words.slice(0, length).join('.'))
    if (count !== undefined) return count
  }
  return mayGrowByDefault(topic) ? all : undefined
}

/** All topics of the broker with the configured numbers of partitions, or those of the topology. */
export function topicsWithPartitions (counts: TopicPartitions): readonly RealTopic[] {
  return allTopics().map(topic =>
    ({ ...topic, partitions: configuredPartitions(counts, topic.name) ?? topic.partitions }))
}

/** No configured number: topics have those of services/topology.ts. */
export const DEFAULT_PARTITIONS: TopicPartitions = { named: new Map() }

/** The partitions of a topic; those of the part with the fewest if it is split. */
export function fewestPartitions (counts: TopicPartitions, topic: TopicName): number {
  const own = topicsWithPartitions(counts)
    .filter(({ name }) => logicalTopic(name)?.topic === topic)
  const parts = own.length > 0 ? own : [topology.topics[topic]]
  return Math.min(...parts.map(({ partitions }) => partitions))
}

/** Why the partitions of a topic of the broker cannot grow; undefined if they may. */
export function whyFixed (name: string): string | undefined {
  const topic = logicalTopic(name)?.topic
  if (topic === undefined) return 'it is not a topic of services/topology.ts'
  return fixedReason(topic)
}

/** Why the partitions of a topic cannot grow; undefined if they may. */
function fixedReason (topic: TopicName): string | undefined {
  const declared = topology.topics[topic]
  return 'fixed' in declared ? declared.fixed : undefined
}

/** Without retry topics, in which few messages wait for their time. */
function mayGrowByDefault (topic: TopicName): boolean {
  return fixedReason(topic) === undefined && topology.topics[topic].partitions > 1
}

/** The topic of a name that may leave out its service, or its lane and service. */
function topicOf (name: string): TopicName {
  const isPartOf = (one: RealTopic) => one.name === name || one.name.startsWith(`${name}.`)
  const topic = OWN_TOPICS.find(one => name === one || name.startsWith(`${one}.`))
  if (topic !== undefined && allTopics().some(isPartOf)) return topic
  const partnerTopic = TOPICS.find(one => one === name)
  throw new RangeError(partnerTopic === undefined
    ? `${name} is not a topic. The topics are ${OWN_TOPICS.join(', ')}`
    : `${name} cannot be set: ${fixedReason(partnerTopic)}`)
}

function parseCount (item: string, text: string): number {
  if (/^[1-9]\d*$/.test(text) && Number(text) <= MAX_PARTITIONS) return Number(text)
  throw new RangeError(`${item} is not a number from 1 to ${MAX_PARTITIONS}, ` +
    'or a topic, "=" and such a number')
}

/** Messages without a number of their own are in the partitions of the topology. */
function checkMinimum (item: string, topic: TopicName, count: number): void {
  const { partitions } = topology.topics[topic]
  if (count >= partitions) return
  throw new RangeError(`${item} is too low: ${topic} has at least ${partitions} partitions`)
}
