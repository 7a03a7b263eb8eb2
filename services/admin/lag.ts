import { readPartners } from '../accounts/partners.ts'
import { count, counted, duration } from '../client/terminal.ts'
import {
  type ConsumerGroup, type GroupLag, fetchLags, TOPOLOGY_GROUPS,
} from '../runtime/kafka/admin.ts'
import type { Environment } from '../runtime/platform/command-environment.ts'
import {
  fetchSamples, readMetricsTargets, resolveAllAddresses,
} from '../runtime/platform/metrics.ts'
import { type Cell, type Column, type Paint, tableText } from '../runtime/platform/text-table.ts'
import { chooseFeedGroup, logicalTopic } from '../runtime/platform/topics.ts'
import {
  type AdminCommand, type CommandCall, type Context, parseStage, runAndPrint,
} from './command-line.ts'
import { withOptionalState } from './deps.ts'
import { createPauses, type Pause, pauseLine } from './pause.ts'

type Options = { readonly partitions?: true, readonly stage?: string }

const HELP = `
"oldest" needs the metrics of the services. Paused stages are marked, with the details of the pause
below the table. Nothing reads the contacts of revoked partners, so they are no lag. Rates over time
are on the dashboard "Stages".`

/** Adds `lag`. */
export function addLag (program: AdminCommand, context: Context): void {
  program.command('lag').description('show the lag of every consumer group')
    .reads()
    .option('--partitions', 'a line per partition instead of one per group')
    .option('--stage <stage>', 'only the groups of this stage')
    .addHelpText('after', HELP)
    .example()
    .example('--stage verify --partitions')
    .example('--json', 'for scripts')
    .action(runAndPrint<Options>(context, async (call, paint) => {
      const { stage } = call.options
      if (stage !== undefined) parseStage(stage)
      const snapshot = await takeSnapshot(call, context)
      const groups = lagLines(snapshot, call.options)
      const { pauses, withoutKeys } = snapshot
      return {
        data: {
          at: new Date().toISOString(),
          groups,
          paused: pauses ?? null,
          organizationsWithoutKeys: withoutKeys ?? null,
        },
        text: lagText(groups, {
          withoutKeys,
          pauses: pauses?.filter(pause => stage === undefined || pause.stage === stage),
        }, paint),
      }
    }))
}

type ReportedMetrics = {
  /** The age of the oldest message in seconds by group, if its processes report metrics. */
  readonly ages: ReadonlyMap<string, number>
  /** Organizations without keys; undefined when no ledger reports metrics. */
  readonly withoutKeys: number | undefined
}

/** The offsets of all groups at one time, and what services and Redis say of them. */
type LagSnapshot = ReportedMetrics & {
  readonly lags: readonly GroupLag[]
  /** The paused stages; undefined when Redis is unavailable. */
  readonly pauses: readonly Pause[] | undefined
}

/** Queries brokers, services and Redis concurrently. */
async function takeSnapshot (
  { env, folder }: CommandCall<Options>, { brokers }: Context
): Promise<LagSnapshot> {
  return await brokers(env, admin => withOptionalState(env, async read => {
    const readLags = async () => {
      const [topics, partners = []] = await Promise.all([admin.listTopics(), read(readPartners)])
      const revoked = partners.filter(({ revokedAtMs }) => revokedAtMs > 0).map(({ name }) => name)
      const groups = [...TOPOLOGY_GROUPS, ...partnerGroups(topics, new Set(revoked))]
      return await fetchLags(admin, groups)
    }
    const [lags, reported, pauses] = await Promise.all([
      readLags(),
      metricsTargets(env, folder).then(queryMetrics),
      read(redis => createPauses(redis).read()),
    ])
    return { lags, ...reported, pauses }
  }))
}

/** The groups that read the topics of partners: nothing reads those of revoked ones. */
function partnerGroups (
  topics: readonly string[], revoked: ReadonlySet<string>
): readonly ConsumerGroup[] {
  const submitted = topics.flatMap(name => {
    const { topic, partner } = logicalTopic(name) ?? {}
    if (topic !== 'feeds.submitted' || partner === undefined || revoked.has(partner)) return []
    return [{ name, partner }]
  })
  return [...Map.groupBy(submitted, ({ partner }) => chooseFeedGroup(partner))]
    .map(([group, some]) => ({ stage: 'feed', group, topics: some.map(({ name }) => name) }))
}

/**
 * Returns the metrics URLs: from METRICS_TARGETS (separated by commas or as JSON; a host name may
 * resolve to several processes), else from the file METRICS_TARGETS_FILE, else from the local stack
 * in `folder`. Empty when there is no file.
 */
async function metricsTargets (env: Environment, folder: string): Promise<readonly string[]> {
  const { METRICS_TARGETS: addresses = '' } = env
  if (addresses !== '') {
    return await resolveAllAddresses(addresses.startsWith('[')
      ? JSON.parse(addresses) as readonly string[]
      : addresses.split(',').map(target => target.trim()))
  }
  return await readMetricsTargets(env['METRICS_TARGETS_FILE'] ?? `${folder}/targets.json`)
}

const METRICS = new Set(['stage_oldest_age_seconds', 'organizations_without_keys'])
const METRICS_TIMEOUT_MS = 1_000

/** The maximum of each metric over all processes that respond. */
async function queryMetrics (targets: readonly string[]): Promise<ReportedMetrics> {
  const ages = new Map<string, number>()
  let withoutKeys: number | undefined
  const processes = await Promise.all(targets.map(target =>
    fetchSamples(target, { names: METRICS, timeoutMs: METRICS_TIMEOUT_MS })))
  const samples = processes.flatMap(ofProcess => ofProcess ?? [])
  for (const { name, labels: { group = '' }, value } of samples) {
    if (name === 'organizations_without_keys') withoutKeys = Math.max(withoutKeys ?? 0, value)
    else ages.set(group, Math.max(ages.get(group) ?? 0, value))
  }
  return { ages, withoutKeys }
}

/** The lag of a group in all its topics, or in one partition. Unknown values are null. */
type LagLine = {
  readonly stage: string
  readonly group: string
  /** Separated by commas when a group reads several topics. */
  readonly topic: string
  /** The number of the partition, when the line is about one partition. */
  readonly partition: number | null
  readonly partitions: number
  readonly lagMessages: number
  readonly oldestSeconds: number | null
  /** Whether an operator has paused the stage. */
  readonly paused: boolean | null
}

/** Returns a line per group, or per partition. */
function lagLines (
  { lags, ages, pauses }: LagSnapshot, { partitions: byPartition, stage }: Options
): readonly LagLine[] {
  const selected = lags.filter(groupLag => stage === undefined || groupLag.stage === stage)
  const lines = Map.groupBy(selected, ({ group, topic, partition }) =>
    byPartition === true ? `${group} ${topic} ${partition}` : group)
  return [...lines.values()].flatMap(lags => {
    const [first] = lags
    if (first === undefined) return []
    const age = ages.get(first.group)
    return [{
      stage: first.stage,
      group: first.group,
      topic: [...new Set(lags.map(({ topic }) => topic))].join(', '),
      partition: byPartition === true ? first.partition : null,
      partitions: lags.length,
      lagMessages: lags.reduce((sum, { lag }) => sum + lag, 0),
      oldestSeconds: age === undefined ? null : Number(age.toFixed(1)),
      paused: pauses?.some(pause => pause.stage === first.stage) ?? null,
    }]
  })
}

/** What the table does not show. */
type Notices = Pick<LagSnapshot, 'pauses' | 'withoutKeys'>

/** Formats the table, the total lag, the pauses, and how many organizations have no keys. */
function lagText (
  lines: readonly LagLine[], { pauses = [], withoutKeys = 0 }: Notices, paint: Paint
): string {
  const byPartition = lines.some(({ partition }) => partition !== null)
  const partitionColumns: readonly Column[] = byPartition
    ? [{ title: 'topic' }, { title: 'partition', right: true }]
    : [{ title: 'partitions', right: true }]
  const columns: readonly Column[] = [
    { title: 'stage' }, { title: 'group' }, ...partitionColumns, { title: 'lag', right: true },
    { title: 'oldest', right: true },
  ]
  const rows = lines.map((line): readonly Cell[] => [
    line.paused === true ? { text: `${line.stage} (paused)`, style: 'yellow' } : line.stage,
    line.group,
    ...byPartition ? [line.topic, String(line.partition)] : [String(line.partitions)],
    { text: count(line.lagMessages), style: line.lagMessages === 0 ? 'dim' : 'yellow' },
    line.oldestSeconds === null ? '-' : duration(line.oldestSeconds),
  ])
  const sum = lines.reduce((total, { lagMessages }) => total + lagMessages, 0)
  const groups = new Set(lines.map(({ group }) => group)).size
  const total = `Total lag: ${count(sum)} messages in ${counted(groups, 'group')}.`
  const paused = pauses.map(pause => pauseLine(pause, paint))
  const keys = withoutKeys === 0
    ? []
    : [paint('red', `Keys are missing in Redis: of ${counted(withoutKeys, 'organization')}.`) +
      ' "npm run admin -- keys list" names them. No topic has them: see ' +
      '"Lost keys of an organization" in deploy/docs/keys.md.']
  return [tableText(columns, rows, paint), total, ...paused, ...keys].join('\n')
}
