import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { TObject } from 'typebox'
import { provisionConfig } from '../../../deploy/provision.ts'
import { smokeConfig } from '../../../deploy/smoke.ts'
import { auditConfig } from '../../../services/admin/audit/run.ts'
import { adminConfig } from '../../../services/admin/deps.ts'
import { backupConfig } from '../../../services/admin/backup.ts'
import { ConfigError, loadConfig } from '../../../services/runtime/platform/config.ts'
import {
  allTopics, deadTopic, type Subscription, listSubscriptions, topicName,
} from '../../../services/runtime/platform/topics.ts'
import {
  LANES, SERVICE_SLUGS, STAGES, topology,
  type Lane, type ServiceSlug, type StageName, type TopicName,
} from '../../../services/topology.ts'
import { containerOf, type Manifest } from './chart.ts'

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

/** The program of a pod as `readChartPrograms` names it, without what one of its jobs adds. */
export const programOf = (pod: Manifest): string =>
  containerOf(pod).args.join(' ').replace(/ --keep-rules$/, '')

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
    groups: STAGES.flatMap(stage => listSubscriptions(stage).map(({ group }) => group)).toSorted(),
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
  return listSubscriptions(stage, {
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

/**
 * What programs say of their settings as the pods have them, when each key of the secret that is
 * required, or that `hasKey` names, has a value of the right form.
 */
export async function configFaults (
  pods: readonly Manifest[], hasKey: (key: string) => boolean = () => false
): Promise<readonly string[]> {
  const faults = await Promise.all(pods.map(async pod => {
    const { env } = containerOf(pod)
    const schema = await configOf(programOf(pod))
    const settings = Object.fromEntries(env.map(({ name, value, valueFrom }) => {
      const { key = '', optional = false } = valueFrom?.secretKeyRef ?? {}
      const isThere = key !== '' && (!optional || hasKey(key))
      return [name, value ?? (isThere ? secretFor(schema, name) : undefined)]
    }))
    try {
      loadConfig(schema, settings)
      return []
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      return error.faults.map(fault => `${pod.metadata.name}: ${fault}`)
    }
  }))
  return faults.flat()
}

/** The schema of the settings of a program. */
async function configOf (program: string): Promise<TObject> {
  const tasks: Readonly<Record<string, TObject>> = {
    'deploy/provision.ts': provisionConfig,
    'services/admin/main.ts': adminConfig,
    'services/admin/main.ts audit --full': auditConfig,
    'services/admin/main.ts backup': backupConfig,
    'deploy/smoke.ts': smokeConfig,
  }
  const task = tasks[program]
  if (task !== undefined) return task
  const name = /services\/(\w+)\/main\.ts/.exec(program)?.[1] ?? program
  const { [`${name}Config`]: config } =
    await import(`../../../services/${name}/config.ts`) as Record<string, TObject>
  if (config === undefined) throw new Error(`${program} has no configuration`)
  return config
}

/** A secret as the example of its setting has it. */
function secretFor (schema: TObject, name: string): string {
  const { examples: [example = 'secret'] = [] } =
    (schema.properties[name] ?? {}) as { readonly examples?: readonly [string] }
  return example.replace(/<[^>]*>/, randomBytes(32).toString('base64'))
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
