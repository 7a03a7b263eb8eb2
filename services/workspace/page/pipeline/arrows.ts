import { topology, type StageName, type TopicName } from '../../../topology.ts'

/** A stage reads a topic, or writes it. */
export type Arrow = {
  readonly id: string
  readonly stage: StageName
  readonly topic: TopicName
  readonly kind: 'reads' | 'writes'
  /** Against the flow: a stage that writes a topic it reads, or one before it. */
  readonly isBackward: boolean
}

const topics = Object.keys(topology.topics) as readonly TopicName[]
const stages = Object.entries(topology.stages) as readonly (readonly [StageName, {
  readonly reads: readonly TopicName[]
  readonly writes: readonly TopicName[]
}])[]

/** Every arrow of the topology, in the order of the stages. */
export const ARROWS: readonly Arrow[] = stages.flatMap(([stage, { reads, writes }]) => [
  ...reads.map(topic => arrowOf(stage, topic, 'reads')),
  ...writes.map(topic => ({
    ...arrowOf(stage, topic, 'writes'),
    isBackward: reads.some(read => topics.indexOf(read) >= topics.indexOf(topic)),
  })),
])

export const TOPICS: readonly TopicName[] = topics

/** The stages that read a topic. */
export function readersOf (topic: TopicName): readonly StageName[] {
  return stages.filter(([, { reads }]) => reads.includes(topic)).map(([stage]) => stage)
}

function arrowOf (stage: StageName, topic: TopicName, kind: Arrow['kind']): Arrow {
  const id = `${stage}-${kind}-${topic.replace('.', '-')}`
  return { id, stage, topic, kind, isBackward: false }
}
