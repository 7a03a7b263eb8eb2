import {
  LANES, READING_STAGES, SERVICE_SLUGS, SMALL_LANE_ROWS, topology,
  type Lane, type ServiceSlug, type StageName, type TopicName,
} from '../topology.ts'

/**
 * What divides a topic: a lane, and of the topics split by service also a service; or a partner.
 */
export type Division = {
  readonly lane?: Lane
  readonly service?: ServiceSlug
  readonly partner?: string
}

/** One consumer: its group, the real topics it reads and which rows those carry. */
export type Subscription = { readonly group: string, readonly topics: readonly string[] } & Division

/** A topic as the broker has to hold it; `keepHours` -1 keeps for ever. */
export type RealTopic = {
  readonly name: string
  readonly partitions: number
  readonly keepHours: number
  readonly compact: boolean
}

/** Rows travel in the lane `small` up to the topology's limit, above it in `bulk`. */
export function laneOf (totalRows: number): Lane {
  return totalRows <= SMALL_LANE_ROWS ? 'small' : 'bulk'
}

/**
 * The broker's name of a topic, such as `rows.to-verify.small.whatsapp` or `feeds.acme.submitted`.
 */
export function topicName (topic: TopicName, division: Division = {}): string {
  if (topology.topics[topic].split === 'partner') return partnerTopic(topic, division.partner)
  return [topic, ...suffixOf(topic, division)].join('.')
}

/** The broker's names of a topic: one name, or how all of its divisions begin. */
export function topicPattern (
  topic: TopicName
): { readonly name: string, readonly prefix: boolean } {
  const { split } = topology.topics[topic]
  if (split === 'none') return { name: topic, prefix: false }
  const [first = ''] = topic.split('.')
  return { name: `${split === 'partner' ? first : topic}.`, prefix: true }
}

/** Where messages go that a stage can never decide. */
export function deadTopic (stage: StageName): string {
  return `${stage}.dead`
}

/** A topic of the topology, and which of its divisions. */
export type Named = { readonly topic: TopicName } & Division

/** The topic of the topology that a broker's topic belongs to, or undefined for any other name. */
export function logicalTopic (name: string): Named | undefined {
  return parsedNames.get(name) ?? parsePartnerTopic(name)
}

/** The message key: the fields the topology names, joined by `:`. */
export function messageKey (topic: TopicName, value: object): string {
  const fields = topology.topics[topic].key.split(':')
  return fields.map(field => String((value as Readonly<Record<string, unknown>>)[field])).join(':')
}

/** The topics of one partner, which are made when it is registered. */
export function partnerTopics (partner: string, partitions?: number): readonly RealTopic[] {
  return partnerTopicNames.map(topic => {
    const { keepHours, ...own } = topology.topics[topic]
    const name = topicName(topic, { partner })
    return { name, partitions: partitions ?? own.partitions, keepHours, compact: false }
  })
}

/** Every topic the broker needs but those of partners, dead-letter topics included. */
export function allTopics (): readonly RealTopic[] {
  const named = topicNames().flatMap(topic => {
    const { partitions, keepHours, ...more } = topology.topics[topic]
    const compact = 'compact' in more
    return divisionsOf(topic).map(division =>
      ({ name: topicName(topic, division), partitions, keepHours, compact }))
  })
  const dead = READING_STAGES.map(stage =>
    ({ name: deadTopic(stage), ...topology.dead, compact: false }))
  return [...named, ...dead]
}

/**
 * The consumers of a stage, one a lane, or one a lane and service; a stage that reads several
 * topics of the same division reads them in one consumer. Without limits: all lanes and services.
 */
export function subscriptionsOf (
  stage: StageName,
  limits: { readonly lanes?: readonly Lane[], readonly services?: readonly ServiceSlug[] } = {}
): readonly Subscription[] {
  const byGroup = new Map<string, Subscription>()
  for (const topic of topology.stages[stage].reads) {
    for (const division of divisionsOf(topic, limits)) {
      const group = [stage, ...suffixOf(topic, division)].join('.')
      const topics = [...byGroup.get(group)?.topics ?? [], topicName(topic, division)]
      byGroup.set(group, { group, topics, ...division })
    }
  }
  return [...byGroup.values()]
}

/** The partner stands in the middle, so that one rule of access can name all its topics. */
function partnerTopic (topic: TopicName, partner: string | undefined): string {
  if (partner === undefined) throw new TypeError(`${topic} is split by partner: name one`)
  const [first = '', last = ''] = topic.split('.')
  return `${first}.${partner}.${last}`
}

function parsePartnerTopic (name: string): Named | undefined {
  const [first = '', partner = '', last = '', ...more] = name.split('.')
  const topic = partnerTopicNames.find(known => known === `${first}.${last}`)
  return topic === undefined || partner === '' || more.length > 0 ? undefined : { topic, partner }
}

function suffixOf (topic: TopicName, { lane, service }: Division): readonly string[] {
  const { split } = topology.topics[topic]
  if (split === 'none') return []
  if (lane === undefined) throw new TypeError(`${topic} is split by lane: name one`)
  if (split === 'lane') return [lane]
  if (service === undefined) throw new TypeError(`${topic} is split by service: name one`)
  return [lane, service]
}

function divisionsOf (
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

function topicNames (): readonly TopicName[] {
  return Object.keys(topology.topics) as TopicName[]
}

const partnerTopicNames = topicNames().filter(topic => topology.topics[topic].split === 'partner')

const parsedNames = new Map(topicNames().flatMap(topic => divisionsOf(topic).map(division =>
  [topicName(topic, division), { topic, ...division }] as const)))
