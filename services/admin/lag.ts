import { Option } from 'commander'
import type { Admin } from 'kafkajs'
import { type Partner, readPartners } from '../accounts/partners.ts'
import { count, counted, duration } from '../client/terminal.ts'
import { type Cell, type Column, type Paint, tableText } from '../runtime/platform/text-table.ts'
import type { AdminCommand } from './admin-command.ts'
import { parseStage, round, runAndPrint, type Screen } from './command-line.ts'
import { withBrokers, withOptionalState } from './connections.ts'
import { metricsTargets, queryMetrics } from './metrics.ts'
import { createPauses, type Pause, pauseLine } from './pause.ts'
import { type ConsumerGroup, type GroupLag, lagsOf, TOPOLOGY_GROUPS } from '../runtime/kafka/lag.ts'
import { feedGroupOf, logicalTopic } from '../runtime/platform/topics.ts'

type Options = { readonly partitions?: true, readonly stage?: string }

const HELP = `
"oldest" needs the metrics of the services. Paused stages are marked, with the details of the pause
below the table. Nothing reads the contacts of revoked partners, so they are no lag. Rates over time
are on the dashboard "Stages".`

/** Adds `lag`. */
export function addLag (program: AdminCommand, screen: Screen): void {
  program.command('lag').description('show the lag of every consumer group')
    .reads()
    .option('--partitions', 'a line per partition instead of one per group')
    .option('--stage <stage>', 'only the groups of this stage')
    // Scripts pass it from the time when the table was live.
    .addOption(new Option('--once').hideHelp())
    .addHelpText('after', HELP)
    .example()
    .example('--stage verify --partitions')
    .example('--json', 'for scripts')
    .action(runAndPrint<Options>(screen, async (call, paint) => {
      const { env, folder, options: { stage, partitions } } = call
      if (stage !== undefined) parseStage(stage)
      const snapshot = await withBrokers(env, admin => withOptionalState(env, read =>
        takeLagSnapshot({
          admin,
          targets: () => metricsTargets(env, folder),
          pauses: () => read(redis => createPauses(redis).read()),
          partners: () => read(readPartners),
        })))
      const groups = lagLines(snapshot, { byPartition: partitions === true, stage })
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

/** What the table does not show. */
type Notices = Pick<LagSnapshot, 'pauses' | 'withoutKeys'>

/** Formats the table, the total lag, the pauses, and how many organizations have no keys. */
export function lagText (
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

/** The offsets of all groups at one time, and the age of the oldest message of each group. */
export type LagSnapshot = {
  readonly lags: readonly GroupLag[]
  /** Seconds by group, for groups whose processes report metrics. */
  readonly ages: ReadonlyMap<string, number>
  /** The paused stages; undefined when Redis is unavailable. */
  readonly pauses: readonly Pause[] | undefined
  /** Organizations without keys; undefined when no ledger reports metrics. */
  readonly withoutKeys: number | undefined
}

const METRICS = new Set(['stage_oldest_age_seconds', 'organizations_without_keys'])

/**
 * Returns the groups of the topology, and those that read the topics of partners. Those of revoked
 * partners are left out, because nothing reads them.
 */
export function consumerGroups (
  topics: readonly string[], partners: readonly Pick<Partner, 'name' | 'revokedAtMs'>[] = []
): readonly ConsumerGroup[] {
  const revoked = new Set(
    partners.flatMap(({ name, revokedAtMs }) => revokedAtMs === 0 ? [] : [name]))
  const submitted = topics.flatMap(name => {
    const { topic, partner } = logicalTopic(name) ?? {}
    if (topic !== 'feeds.submitted' || partner === undefined || revoked.has(partner)) return []
    return [{ name, partner }]
  })
  const groups = [...Map.groupBy(submitted, ({ partner }) => feedGroupOf(partner))]
    .map(([group, some]): ConsumerGroup =>
      ({ stage: 'feed', group, topics: some.map(({ name }) => name) }))
  return [...TOPOLOGY_GROUPS, ...groups]
}

type SnapshotDeps = {
  readonly admin: Pick<Admin, 'fetchOffsets' | 'fetchTopicOffsets' | 'listTopics'>
  readonly targets: () => Promise<readonly string[]>
  readonly pauses: () => Promise<readonly Pause[] | undefined>
  /** All partners; undefined when Redis is unavailable. */
  readonly partners: () => Promise<Parameters<typeof consumerGroups>[1]>
  readonly fetch?: typeof globalThis.fetch
}

/** Queries brokers, services and Redis concurrently. */
export async function takeLagSnapshot (
  { admin, targets, pauses: readPauses, partners, fetch }: SnapshotDeps
): Promise<LagSnapshot> {
  const [lags, reported, pauses] = await Promise.all([
    Promise.all([admin.listTopics(), partners()]).then(([topics, registered]) =>
      lagsOf(admin, consumerGroups(topics, registered))),
    targets().then(addresses => queryReported(addresses, fetch)),
    readPauses(),
  ])
  return { lags, ...reported, pauses }
}

async function queryReported (
  targets: readonly string[], fetch = globalThis.fetch
): Promise<Pick<LagSnapshot, 'ages' | 'withoutKeys'>> {
  const ages = new Map<string, number>()
  let withoutKeys: number | undefined
  const { processes } = await queryMetrics(targets, METRICS, fetch)
  for (const { name, labels: { group = '' }, value } of processes.flat()) {
    if (name === 'organizations_without_keys') withoutKeys = Math.max(withoutKeys ?? 0, value)
    else ages.set(group, Math.max(ages.get(group) ?? 0, value))
  }
  return { ages, withoutKeys }
}

/** The lag of a group in all its topics, or in one partition. Unknown values are null. */
export type LagLine = {
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

type LineOptions = { readonly byPartition: boolean, readonly stage?: string | undefined }

/** Returns a line per group, or per partition. */
export function lagLines (
  { lags, ages, pauses }: LagSnapshot, { byPartition, stage }: LineOptions
): readonly LagLine[] {
  const selected = lags.filter(groupLag => stage === undefined || groupLag.stage === stage)
  const lines = Map.groupBy(selected, ({ group, topic, partition }) =>
    byPartition ? `${group} ${topic} ${partition}` : group)
  return [...lines.values()].flatMap(lags => {
    const [first] = lags
    if (first === undefined) return []
    const age = ages.get(first.group)
    return [{
      stage: first.stage,
      group: first.group,
      topic: [...new Set(lags.map(({ topic }) => topic))].join(', '),
      partition: byPartition ? first.partition : null,
      partitions: lags.length,
      lagMessages: lags.reduce((sum, { lag }) => sum + lag, 0),
      oldestSeconds: age === undefined ? null : round(age),
      paused: pauses?.some(pause => pause.stage === first.stage) ?? null,
    }]
  })
}
