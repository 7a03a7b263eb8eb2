import { readFileSync } from 'node:fs'
import {
  allTopics, deadTopic, subscriptionsOf, topicName, type Subscription,
} from '../../../services/runtime/platform/topics.ts'
import {
  LANES, SERVICE_SLUGS, STAGES, topology,
  type Lane, type ServiceSlug, type StageName, type TopicName,
} from '../../../services/topology.ts'

type Needs = Readonly<Record<string, 'required' | 'optional'>>

/** A program of the chart, and the settings and secrets that it reads. */
type ChartProgram = {
  readonly program: string
  readonly settings: Needs
  readonly secrets: Needs
}

/** The programs of the chart by name, as `npm run chart` writes them. */
export function readChartPrograms (): Readonly<Record<string, ChartProgram>> {
  return JSON.parse(readFileSync('deploy/helm/verification-jobs/files/programs.json', 'utf8'))
}

/** A running program as a file of deployment describes it. */
export type Deployed = {
  readonly name: string
  /** `services/settle/main.ts` */
  readonly program: string
  readonly env: Readonly<Record<string, string>>
}

/** Names of stages, consumer groups and topics, sorted. */
export type Served = {
  readonly stages: readonly string[]
  readonly groups: readonly string[]
  readonly topics: readonly string[]
}

/** What the topology asks for; topics of partners are made later and by another command. */
export function wantedByTopology (): Served {
  return {
    stages: STAGES.toSorted(),
    groups: STAGES.flatMap(stage => subscriptionsOf(stage).map(({ group }) => group)).toSorted(),
    topics: allTopics().map(({ name }) => name).toSorted(),
  }
}

/** What the programs serve, by the lanes and services of their configuration. */
export function servedBy (programs: readonly Deployed[]): Served {
  const stages = programs.flatMap(program => stageOf(program) ?? [])
  const consumers = programs.flatMap(consumersOf)
  const dead = stages.filter(stage => topology.stages[stage].reads.length > 0).map(deadTopic)
  const topics = [...consumers.flatMap(consumer => consumer.topics), ...stages.flatMap(writtenBy)]
  return {
    stages: unique(stages),
    groups: unique(consumers.map(({ group }) => group)),
    topics: unique([...topics, ...dead]),
  }
}

/** The consumers of one program, limited by its environment; none for other programs. */
export function consumersOf (deployed: Deployed): readonly Subscription[] {
  const stage = stageOf(deployed)
  if (stage === undefined) return []
  const { LANES: lanes, SERVICES: services } = deployed.env
  return subscriptionsOf(stage, {
    ...lanes && { lanes: lanes.split(',') as Lane[] },
    ...services && { services: services.split(',') as ServiceSlug[] },
  })
}

function stageOf ({ program }: Deployed): StageName | undefined {
  return STAGES.find(stage => program === `services/${stage}/main.ts`)
}

/** Variables that no program reads, and required ones that are missing. */
export function settingFaults (
  programs: readonly Deployed[], also: readonly string[] = []
): readonly string[] {
  const chartPrograms = Object.values(readChartPrograms())
  return programs.flatMap(({ name, program, env }) => {
    const described = chartPrograms.find(candidate => candidate.program === program)
    if (described === undefined) return [`${name} runs ${program}, which is no program`]
    const read = new Map(Object.entries({ ...described.settings, ...described.secrets }))
    const unknown = Object.keys(env).filter(key => !read.has(key) && !also.includes(key))
    const missing = [...read].filter(([key, need]) => need === 'required' && !(key in env))
    return [
      ...unknown.map(key => `${name} is given ${key}, which ${program} does not read`),
      ...missing.map(([key]) => `${name} lacks ${key}, which ${program} requires`),
    ]
  })
}

function writtenBy (stage: StageName): readonly string[] {
  return topology.stages[stage].writes.flatMap((topic: TopicName) => {
    const { split } = topology.topics[topic]
    if (split === 'none') return [topicName(topic)]
    if (split === 'lane') return LANES.map(lane => topicName(topic, { lane }))
    if (split === 'partner') return []
    return LANES.flatMap(lane => SERVICE_SLUGS.map(service => topicName(topic, { lane, service })))
  })
}

const unique = (names: readonly string[]) => [...new Set(names)].toSorted()
