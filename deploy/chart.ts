import { globSync, readdirSync, readFileSync } from 'node:fs'
import type { TObject } from 'typebox'
import { writeGenerated } from './generated.ts'
import { provisionConfig } from './provision.ts'
import { smokeConfig } from './smoke.ts'
import { auditConfig } from '../services/admin/audit/run.ts'
import { backupConfig } from '../services/admin/backup.ts'
import { adminConfig } from '../services/admin/deps.ts'
import { VENDOR_KEYS } from '../services/jobs/checks.ts'
import { describeConfig } from '../services/runtime/platform/config.ts'
import { allTopics, type Division, listSubscriptions } from '../services/runtime/platform/topics.ts'
import { type StageName, STAGES, topology } from '../services/topology.ts'

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
async function describePrograms (): Promise<Readonly<Record<string, ChartProgram>>> {
  const services = await Promise.all([...STAGES, 'page'].map(async name => ({
    name,
    program: `services/${name}/main.ts`,
    config: await importConfig(`../services/${name}/config.ts`, `${name}Config`),
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
      : { groups: listGroups(stage), writes: topology.stages[stage].writes }
    return [name, { program, ...flow, ...collectNeeds(config) }]
  }))
}

/** `compose.yaml` with the key of every vendor that `deploy/providers/` describes. */
function renderCompose (): string {
  const keys = VENDOR_KEYS.map(({ setting }) => `      ${setting}: \${${setting}:-}\n`)
  const text = readFileSync(COMPOSE, 'utf8')
  const place = /(^ +# Generated: the keys of vendors\.\n)(?: +VENDOR_\w+_KEY: .*\n)*/m
  if (!place.test(text)) {
    throw new Error('compose.yaml has no comment "# Generated: the keys of vendors."')
  }
  return text.replace(place, (_, comment: string) => comment + keys.toSorted().join(''))
}

async function importConfig (file: string, name: string): Promise<TObject> {
  const config = (await import(file) as Record<string, unknown>)[name]
  if (config === undefined) throw new Error(`${file} exports no ${name}`)
  return config as TObject
}

function listGroups (stage: StageName): readonly ChartGroup[] {
  const partitionsByTopic = new Map(allTopics().map(({ name, partitions }) => [name, partitions]))
  return listSubscriptions(stage).map(subscription => ({
    ...subscription,
    partitions: Math.max(...subscription.topics.map(topic => partitionsByTopic.get(topic) ?? 1)),
  }))
}

function collectNeeds (config: TObject): Pick<ChartProgram, 'settings' | 'secrets'> {
  const read = describeConfig(config).map(({ key, required, secret }) =>
    ({ key, required, secret: secret || ADDRESSES.includes(key) }))
  const pickNeeds = (secret: boolean): Need => Object.fromEntries(read
    .filter(setting => setting.secret === secret)
    .map(({ key, required }) => [key, required ? 'required' : 'optional']))
  return { settings: pickNeeds(false), secrets: pickNeeds(true) }
}

/**
 * The rules and dashboards of the chart by path: those of compose, with queries that are restricted
 * to the namespace.
 */
function readMonitoring (): ReadonlyMap<string, string> {
  const rules = ['recording.yml', 'alerts.yml'].map(name =>
    [`rules/${name}`, scopeRules(readText(`prometheus/${name}`))] as const)
  const boards = readdirSync(new URL('grafana/dashboards', import.meta.url)).toSorted()
    .map(name =>
      [`dashboards/${name}`, scopeBoard(readText(`grafana/dashboards/${name}`))] as const)
  return new Map([...rules, ...boards])
}

/** With a placeholder that the chart replaces by its namespace. */
const SCOPE = 'namespace="<namespace>"'
const TEXT = String.raw`"(?:[^"\\]|\\.)*"`
const RANGE = String.raw`\[[^\]]*\]`
const LABELS =
  String.raw`(?:\w+\s+)?\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`
const NUMBER = String.raw`\d[\w.]*`
const NAME = String.raw`([a-zA-Z_:][\w:]*)(\s*\(|\{(?:[^}"]|${TEXT})*\})?`
const TOKENS = new RegExp([TEXT, RANGE, LABELS, NUMBER, NAME].join('|'), 'g')
const WORDS = ['and', 'or', 'unless', 'bool', 'offset']
/** `expr: ...` of a rule: the rest of the line, or the indented lines after it. */
const EXPRESSION = /^( *)expr: (?:[|>]-?\n(?:\1 +.*(?:\n|$))+|.*)/gm

/**
 * Restricts a query to the namespace of the chart: the Prometheus of a cluster has the processes,
 * memory and HTTP requests of all namespaces.
 */
function scopeQuery (query: string): string {
  return query.replace(TOKENS, (token, name?: string, rest = '') => {
    if (name === undefined || WORDS.includes(name) || rest.endsWith('(')) return token
    const labels = rest.slice(1, -1)
    return `${name}{${labels === '' ? SCOPE : `${SCOPE},${labels}`}}`
  })
}

const readText = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8')

function scopeRules (text: string): string {
  return text.replace(EXPRESSION, expression => {
    const [key = '', ...query] = expression.split(/(?<=^ *expr:)/)
    return key + scopeQuery(query.join(''))
  })
}

function scopeBoard (text: string): string {
  const board: unknown = JSON.parse(text, (key, value: unknown) => {
    if (typeof value !== 'string') return value
    if (key === 'expr') return scopeQuery(value)
    return value.replace(/^label_values\(([^,]+),/, (_, series: string) =>
      `label_values(${scopeQuery(series)},`)
  })
  return `${JSON.stringify(board)}\n`
}

const programs = `${JSON.stringify(await describePrograms(), null, 2)}\n`
const wanted = new Map([['programs.json', programs], ...readMonitoring()])
const obsolete = globSync('**/*.*', { cwd: FILES }).filter(path => !wanted.has(path))
writeGenerated(
  'chart', 'Generates the chart files from topology, settings, alerts and dashboards, and the ' +
  'keys of vendors in compose.yaml.',
  new Map([
    ...[...wanted].map(([path, text]) => [new URL(path, FILES), text] as const),
    [COMPOSE, renderCompose()],
  ]),
  obsolete.map(path => new URL(path, FILES)))
