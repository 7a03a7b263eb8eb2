import { STAGES, topology, type StageName, type TopicName } from '../../topology.ts'
import { rounded } from '../numbers.ts'
import { ROWS, type Costs } from './costs.ts'

export type StageAdvice = {
  readonly stage: StageName
  readonly cpuSecondsPer100kRows: number
  /** Cores that are busy all the time at the wanted rate. */
  readonly cores: number
  readonly instances: number
  /** Topics whose partitions are fewer than the instances: those beyond would idle. */
  readonly limitedBy: readonly TopicName[]
}

export type TopicAdvice = {
  readonly topic: TopicName
  readonly readBy: readonly StageName[]
  readonly partitions: number
  readonly needed: number
}

export type Advice = {
  readonly rowsPerSecond: number
  readonly utilization: number
  readonly stages: readonly StageAdvice[]
  /** Those of which no cost is known. */
  readonly unknown: readonly StageName[]
  readonly topics: readonly TopicAdvice[]
  /** What more instances of stages do not help, and the cores it takes of its own. */
  readonly others: readonly { readonly name: string, readonly cores: number }[]
  readonly instances: number
  /** Of all stages and others together. */
  readonly cores: number
}

export type Wanted = { readonly rowsPerSecond: number, readonly utilization: number }

/**
 * Instances and partitions for a wanted rate. An instance has one thread for its work, so it is
 * counted as one core, of which `utilization` is used, so that peaks find room. All rows may come
 * in one lane and for one service, so a single topic has to have a partition for each instance.
 */
export function adviceOf (costs: Costs, { rowsPerSecond, utilization }: Wanted): Advice {
  const coresOf = (name: string) => (costs[name] ?? 0) * rowsPerSecond / ROWS
  const known = STAGES.filter(stage => costs[stage] !== undefined)
  const stages = known.map(stage => {
    const instances = Math.max(1, Math.ceil(rounded(coresOf(stage) / utilization, 6)))
    const limitedBy = readsOf(stage).filter(topic => partitionsOf(topic) < instances)
    const cpuSecondsPer100kRows = rounded(costs[stage] ?? 0, 3)
    return {
      stage, cpuSecondsPer100kRows, cores: rounded(coresOf(stage), 3), instances, limitedBy,
    }
  })
  const isStage = (name: string) => STAGES.some(stage => stage === name)
  const others = Object.keys(costs).filter(name => !isStage(name))
    .map(name => ({ name, cores: rounded(coresOf(name), 3) }))
  return {
    rowsPerSecond,
    utilization,
    stages,
    unknown: STAGES.filter(stage => costs[stage] === undefined),
    topics: topicsOf(stages),
    others,
    instances: stages.reduce((sum, { instances }) => sum + instances, 0),
    cores: rounded([...stages, ...others].reduce((sum, { cores }) => sum + cores, 0), 3),
  }
}

/** Each topic that a stage of the advice reads. */
function topicsOf (stages: readonly StageAdvice[]): readonly TopicAdvice[] {
  return (Object.keys(topology.topics) as TopicName[]).flatMap(topic => {
    const readers = stages.filter(({ stage }) => readsOf(stage).includes(topic))
    if (readers.length === 0) return []
    const partitions = partitionsOf(topic)
    const needed = Math.max(partitions, ...readers.map(({ instances }) => instances))
    return [{ topic, readBy: readers.map(({ stage }) => stage), partitions, needed }]
  })
}

/**
 * The topics that limit a stage: what it alone writes to itself, to be done later, has fewer
 * partitions on purpose, and each of those is read beside the others.
 */
function readsOf (stage: StageName): readonly TopicName[] {
  const reads: readonly TopicName[] = topology.stages[stage].reads
  return reads.filter(topic => writersOf(topic).join() !== stage)
}

function writersOf (topic: TopicName): readonly StageName[] {
  return STAGES.filter(stage =>
    (topology.stages[stage].writes as readonly TopicName[]).includes(topic))
}

function partitionsOf (topic: TopicName): number {
  return topology.topics[topic].partitions
}
