import {
  fewestPartitions, type TopicPartitions,
} from '../../../services/runtime/platform/topics.ts'
import { STAGES, topology, type TopicName } from '../../../services/topology.ts'

/** How many instances of a stage run; a stage that is not named runs once. */
export type Scale = Readonly<Record<string, number>>

const MAX_INSTANCES = 64

/**
 * Reads `normalize=2,verify=3`. Throws with what to write instead when a stage is unknown, named
 * twice, or its number is not from 0 to 64.
 */
export function parseScale (text: string, stages: readonly string[]): Scale {
  const scale: Record<string, number> = {}
  for (const entry of text.split(',').map((part) => part.trim()).filter((part) => part !== '')) {
    const [, stage, digits] = /^([a-z][a-z0-9-]*)=(\d{1,3})$/.exec(entry) ?? []
    if (stage === undefined || Number(digits) > MAX_INSTANCES) {
      throw new Error(`"${entry}" is not <stage>=<number from 0 to ${MAX_INSTANCES}>; ` +
        'an example: normalize=2,verify=3')
    }
    if (!stages.includes(stage)) {
      throw new Error(`There is no stage "${stage}"; the stages are ${stages.join(', ')}`)
    }
    if (stage in scale) throw new Error(`Stage "${stage}" is named twice`)
    scale[stage] = Number(digits)
  }
  return scale
}

/**
 * Warns of each stage that has more instances than the topics it reads have partitions, with the
 * number of instances that would be idle and how to add partitions.
 */
export function warnOfIdle (scale: Scale, partitions: TopicPartitions): readonly string[] {
  return STAGES.flatMap(stage => {
    const instances = scale[stage] ?? 1
    const reads: readonly TopicName[] = topology.stages[stage].reads
    const counts = reads.map(topic => ({ topic, count: fewestPartitions(partitions, topic) }))
    const [largest] = counts.toSorted((a, b) => b.count - a.count)
    if (largest === undefined || instances <= largest.count) return []
    const { topic, count } = largest
    return [`warning: ${instances} instances of ${stage} read ${topic}, which has ${count} ` +
      `partitions: ${instances - count} would be idle. Start at most ${count}, or add partitions ` +
      `with TOPIC_PARTITIONS=${instances} (deploy/docs/scaling.md, "More partitions").`]
  })
}
