import { globSync, readFileSync } from 'node:fs'
import type { TObject } from 'typebox'
import { auditConfig } from '../services/admin/audit/command.ts'
import { adminConfig } from '../services/admin/deps.ts'
import { backupConfig } from '../services/admin/backup.ts'
import { VENDOR_KEYS } from '../services/jobs/checks.ts'
import { describeConfig } from '../services/runtime/platform/config.ts'
import { allTopics, subscriptionsOf, type Division } from '../services/runtime/platform/topics.ts'
import { STAGES, topology, type StageName } from '../services/topology.ts'
import { monitoringFiles } from './chart/monitoring.ts'
import { writeGenerated } from './generated.ts'
import { provisionConfig } from './provision.ts'
import { smokeConfig } from './smoke.ts'

/** A consumer group of a program, and the maximum number of useful instances. */
type ChartGroup = Division & {
  readonly group: string
  readonly topics: readonly string[]
  readonly partitions: number
}

/** What the chart needs to know about a program. */
type ChartProgram = {
  readonly program: string
  readonly groups: readonly ChartGroup[]
  /** Topics of the topology it writes to. */
  readonly writes: readonly string[]
  /** Environment variables that are not secret. */
  readonly settings: Need
  /** Environment variables that come from the Secret. */
  readonly secrets: Need
}

/** Names of settings, and whether each is required. */
type Need = Readonly<Record<string, 'required' | 'optional'>>

const FILES = new URL('helm/verification-jobs/files/', import.meta.url)
const COMPOSE = new URL('compose.yaml', import.meta.url)

/** URLs that contain a user and a password. */
const ADDRESSES = [
  'SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL', 'REDIS_CACHE_URL', 'CLICKHOUSE_URL',
]

/**
 * All programs of the chart by name, the stages in pipeline order. They follow from the topology
 * and from the configuration of each program.
 */
async function chartPrograms (): Promise<Readonly<Record<string, ChartProgram>>> {
  const services = await Promise.all([...STAGES, 'page'].map(async name => ({
    name,
    program: `services/${name}/main.ts`,
    config: await configOf(`../services/${name}/config.ts`, `${name}Config`),
  })))
  const tasks = [
    { name: 'provision', program: 'deploy/provision.ts', config: provisionConfig },
    { name: 'audit', program: 'services/admin/main.ts audit --full', config: auditConfig },
    { name: 'backup', program: 'services/admin/main.ts backup', config: backupConfig },
    { name: 'admin', program: 'services/admin/main.ts', config: adminConfig },
    { name: 'smoke', program: 'deploy/smoke.ts', config: smokeConfig },
  ]
  return Object.fromEntries([...services, ...tasks].map(({ name, program, config }) => {
    const stage = STAGES.find(stage => stage === name)
    const flow = stage === undefined
      ? { groups: [], writes: [] }
      : { groups: groupsOf(stage), writes: topology.stages[stage].writes }
    return [name, { program, ...flow, ...needsOf(config) }]
  }))
}

/** The generated files of the chart, by path in `files`. */
async function chartFiles (): Promise<ReadonlyMap<string, string>> {
  const programs = `${JSON.stringify(await chartPrograms(), null, 2)}\n`
  return new Map([['programs.json', programs], ...monitoringFiles()])
}

/** `compose.yaml` with the key of every vendor that `deploy/providers/` describes. */
function composeSource (): string {
  const keys = VENDOR_KEYS.map(({ setting }) => `      ${setting}: \${${setting}:-}\n`)
  const text = readFileSync(COMPOSE, 'utf8')
  const place = /(^ +# Generated: the keys of vendors\.\n)(?: +VENDOR_\w+_KEY: .*\n)*/m
  if (!place.test(text)) {
    throw new Error('compose.yaml has no comment "# Generated: the keys of vendors."')
  }
  return text.replace(place, (_, comment: string) => comment + keys.toSorted().join(''))
}

async function configOf (file: string, name: string): Promise<TObject> {
  const config = (await import(file) as Record<string, unknown>)[name]
  if (config === undefined) throw new Error(`${file} exports no ${name}`)
  return config as TObject
}

function groupsOf (stage: StageName): readonly ChartGroup[] {
  const partitionsOf = new Map(allTopics().map(({ name, partitions }) => [name, partitions]))
  return subscriptionsOf(stage).map(subscription => ({
    ...subscription,
    partitions: Math.max(...subscription.topics.map(topic => partitionsOf.get(topic) ?? 1)),
  }))
}

function needsOf (config: TObject): Pick<ChartProgram, 'settings' | 'secrets'> {
  const read = describeConfig(config).map(({ key, required, secret }) =>
    ({ key, required, secret: secret || ADDRESSES.includes(key) }))
  const needOf = (secret: boolean): Need => Object.fromEntries(read
    .filter(setting => setting.secret === secret)
    .map(({ key, required }) => [key, required ? 'required' : 'optional']))
  return { settings: needOf(false), secrets: needOf(true) }
}

const wanted = await chartFiles()
const obsolete = globSync('**/*.*', { cwd: FILES }).filter(path => !wanted.has(path))
writeGenerated(
  'chart', 'Generates the chart files from topology, settings, alerts and dashboards, and the ' +
  'keys of vendors in compose.yaml.',
  new Map([
    ...[...wanted].map(([path, text]) => [new URL(path, FILES), text] as const),
    [COMPOSE, composeSource()],
  ]),
  obsolete.map(path => new URL(path, FILES)))
