import { hash } from 'node:crypto'
import {
  type Lane, LANES, READING_STAGES, SERVICE_SLUGS, type ServiceSlug, SMALL_LANE_ROWS,
  type StageName, type TopicName, topology,
} from '../../topology.ts'

/** One part of a split topic: a lane, a lane and a service, or a partner. */
export type Division = {
  readonly lane?: Lane
  readonly service?: ServiceSlug
  readonly partner?: string
}

/** One consumer: its group, the broker topics that it reads, and their lane and service. */
export type Subscription = { readonly group: string, readonly topics: readonly string[] } & Division

/** The settings of a topic on the broker; `keepHours` -1 keeps messages forever. */
export type RealTopic = {
  readonly name: string
  readonly partitions: number
  readonly keepHours: number
  readonly compact: boolean
}

/** The lane of a job: `small` up to SMALL_LANE_ROWS rows, `bulk` above. */
export function chooseLane (totalRows: number): Lane {
  return totalRows <= SMALL_LANE_ROWS ? 'small' : 'bulk'
}

/**
 * The name of a topic on the broker, such as `rows.to-verify.small.whatsapp` or
 * `feeds.acme.submitted`.
 * @throws TypeError when the lane, service or partner of a split topic is missing.
 */
export function topicName (topic: TopicName, division: Division = {}): string {
  if (topology.topics[topic].split === 'partner') {
    const { partner } = division
    if (partner === undefined) throw new TypeError(`topic ${topic} is split by partner: pass one`)
    // The partner comes before the last word, so that one prefixed ACL covers all its topics.
    const [first = '', last = ''] = topic.split('.')
    return `${first}.${partner}.${last}`
  }
  return [topic, ...topicSuffix(topic, division)].join('.')
}

/** The names of a topic on the broker: one name, or the prefix of all its divisions. */
export function topicPattern (
  topic: TopicName
): { readonly name: string, readonly prefix: boolean } {
  const { split } = topology.topics[topic]
  if (split === 'none') return { name: topic, prefix: false }
  const [first = ''] = topic.split('.')
  return { name: `${split === 'partner' ? first : topic}.`, prefix: true }
}

/** The dead-letter topic of a stage. */
export function deadTopic (stage: StageName): string {
  return `${stage}.dead`
}

/** A topic of the topology and one of its divisions. */
export type Named = { readonly topic: TopicName } & Division

/** The topic and division of a name on the broker; undefined for a name outside the topology. */
export function logicalTopic (name: string): Named | undefined {
  const parsed = parsedNames.get(name)
  if (parsed !== undefined) return parsed
  const [first = '', partner = '', last = '', ...more] = name.split('.')
  const topic = partnerTopicNames.find(partnerTopic => partnerTopic === `${first}.${last}`)
  return topic === undefined || partner === '' || more.length > 0 ? undefined : { topic, partner }
}

/** The message key: the fields that the topology declares, joined by `:`. */
export function messageKey (topic: TopicName, value: object): string {
  const fields = topology.topics[topic].key.split(':')
  return fields.map(field => String((value as Readonly<Record<string, unknown>>)[field])).join(':')
}

const FEED_GROUP_COUNT = 8

/**
 * The consumer groups of partner topics. Partners are spread over them by their names: few groups
 * cost little, and several keep small what a new partner interrupts. No partner name has a dot, so
 * none of these was the group of a partner before.
 */
export const FEED_GROUPS: readonly string[] =
  Array.from({ length: FEED_GROUP_COUNT }, (_, index) => `feed.shared.${index}`)

/** The consumer group that reads the contacts of a partner. */
export function chooseFeedGroup (partner: string): string {
  const index = hash('sha256', partner, 'buffer').readUInt32BE() % FEED_GROUP_COUNT
  return FEED_GROUPS[index] as string
}

/** The topics of one partner, which are created when the partner is registered. */
export function partnerTopics (partner: string, partitions?: number): readonly RealTopic[] {
  return partnerTopicNames.map(topic => {
    const { keepHours, partitions: usual } = topology.topics[topic]
    const name = topicName(topic, { partner })
    return { name, partitions: partitions ?? usual, keepHours, compact: false }
  })
}

/** All topics of the broker, with dead-letter topics and without those of partners. */
export function allTopics (): readonly RealTopic[] {
  const named = TOPICS.flatMap(topic => {
    const { partitions, keepHours, ...more } = topology.topics[topic]
    const compact = 'compact' in more
    return listDivisions(topic).map(division =>
      ({ name: topicName(topic, division), partitions, keepHours, compact }))
  })
  const dead = READING_STAGES.map(stage =>
    ({ name: deadTopic(stage), ...topology.dead, compact: false }))
  return [...named, ...dead]
}

/**
 * The consumers of a stage: one per lane, or one per lane and service. One consumer reads all
 * topics of the same division. Without limits: all lanes and services.
 */
export function listSubscriptions (
  stage: StageName,
  limits: { readonly lanes?: readonly Lane[], readonly services?: readonly ServiceSlug[] } = {}
): readonly Subscription[] {
  const byGroup = new Map<string, Subscription>()
  for (const topic of topology.stages[stage].reads) {
    for (const division of listDivisions(topic, limits)) {
      const group = [stage, ...topicSuffix(topic, division)].join('.')
      const topics = [...byGroup.get(group)?.topics ?? [], topicName(topic, division)]
      byGroup.set(group, { group, topics, ...division })
    }
  }
  return [...byGroup.values()]
}

function topicSuffix (topic: TopicName, { lane, service }: Division): readonly string[] {
  const { split } = topology.topics[topic]
  if (split === 'none') return []
  if (lane === undefined) throw new TypeError(`topic ${topic} is split by lane: pass one`)
  if (split === 'lane') return [lane]
  if (service === undefined) throw new TypeError(`topic ${topic} is split by service: pass one`)
  return [lane, service]
}

function listDivisions (
  topic: TopicName,
  { lanes = LANES, services = SERVICE_SLUGS }:
  { readonly lanes?: readonly Lane[], readonly services?: readonly ServiceSlug[] } = {}
): readonly Division[] {
  const { split } = topology.topics[topic]
  if (split === 'none') return [{}]
  if (split === 'partner') return []
  if (split === 'lane') return lanes.map(lane => ({ lane }))
  return lanes.flatMap(lane => services.map(service => ({ lane, service })))
}

const TOPICS = Object.keys(topology.topics) as readonly TopicName[]

const partnerTopicNames = TOPICS.filter(topic => topology.topics[topic].split === 'partner')

const parsedNames = new Map(TOPICS.flatMap(topic => listDivisions(topic).map(division =>
  [topicName(topic, division), { topic, ...division }] as const)))

/** How many partitions topics are to have. */
export type TopicPartitions = {
  /** For all topics that may grow, except `rows.retry`, which has one partition on purpose. */
  readonly all?: number
  /** By topic, such as `rows.completed`, or one of its parts, such as `rows.completed.bulk`. */
  readonly named: ReadonlyMap<string, number>
}

const MAX_PARTITIONS = 1_000
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
      const topic = findTopic(name)
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
  const split = topicsWithPartitions(counts)
    .filter(({ name }) => logicalTopic(name)?.topic === topic)
  const parts = split.length > 0 ? split : [topology.topics[topic]]
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
function findTopic (name: string): TopicName {
  const isPartOf = (part: RealTopic) => part.name === name || part.name.startsWith(`${name}.`)
  const topic = OWN_TOPICS.find(ownTopic => name === ownTopic || name.startsWith(`${ownTopic}.`))
  if (topic !== undefined && allTopics().some(isPartOf)) return topic
  const partnerTopic = TOPICS.find(other => other === name)
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
  { watchPartitions }: {
    readonly watchPartitions: (topics: readonly string[]) => (topic: string) => number
  }
): (lane: Lane) => PartitionHeaders {
  const topics = TOPICS_BY_JOB.flatMap(topic => LANES.map(lane => topicName(topic, { lane })))
  const countPartitions = watchPartitions(topics)
  return lane => Object.fromEntries(TOPICS_BY_JOB
    .map(topic => [topic, countPartitions(topicName(topic, { lane }))] as const)
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

type PartitionCount = {
  readonly used: number, readonly partitions: number, readonly sinceMs: number,
}

/**
 * How many partitions of each topic producers use. Uses new partitions of a topic that may grow
 * only when they have been known for a while: by then every consumer reads them. A process that has
 * just started cannot know since when they exist, so it begins with the number of
 * services/topology.ts.
 */
export class PartitionCounts {
  readonly #delayMs: number
  readonly #now: () => number
  readonly #counts = new Map<string, PartitionCount>()

  constructor (
    { delayMs, now = () => performance.now() }: {
      readonly delayMs: number, readonly now?: () => number,
    }
  ) {
    this.#delayMs = delayMs
    this.#now = now
  }

  /** Records how many partitions a topic has. */
  update (topic: string, partitions: number): void {
    const { used, ...before } = this.#current(topic)
    const sinceMs = before.partitions === partitions ? before.sinceMs : this.#now()
    this.#counts.set(topic, { used: Math.min(used, partitions), partitions, sinceMs })
  }

  of (topic: string): number {
    return this.#current(topic).used
  }

  #current (name: string): PartitionCount {
    const topic = logicalTopic(name)?.topic
    const isFixed = topic === undefined || whyFixed(name) !== undefined
    // No limit for a topic whose partitions cannot grow.
    const used = isFixed ? Infinity : topology.topics[topic].partitions
    const count = this.#counts.get(name) ?? { used, partitions: 0, sinceMs: this.#now() }
    const isDue = count.partitions > 0 && this.#now() - count.sinceMs >= this.#delayMs
    return isDue ? { ...count, used: count.partitions } : count
  }
}
