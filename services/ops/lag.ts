import { setTimeout as delay } from 'node:timers/promises'
import type { Command } from 'commander'
import type { Admin } from 'kafkajs'
import { type Partner, readPartners } from '../accounts/partners.ts'
import { count, counted, duration } from '../client/terminal.ts'
import { UsageError } from '../platform/run-command.ts'
import { type Cell, type Column, type Paint, paintFor, tableText } from '../platform/text-table.ts'
import {
  callOf, type CommandCall, parsePositive, parseStage, round, type Screen,
} from './command-line.ts'
import { withBrokers, withOptionalState } from './connections.ts'
import { metricsTargets, queryMetrics } from './metrics.ts'
import { pauseLine } from './pause.ts'
import { createPauses, type Pause } from './pauses.ts'
import { type ConsumerGroup, type GroupLag, lagsOf, TOPOLOGY_GROUPS } from '../kafka/lag.ts'
import { feedGroupOf, logicalTopic } from '../platform/topics.ts'

type Options = {
  readonly partitions?: true
  readonly once?: true
  readonly stage?: string
  readonly every: string
}

type Lag = {
  readonly call: CommandCall<Options>
  readonly screen: Screen
  readonly everyMs: number
}

const HELP = `
Rates are averages since the previous query; "caught up in" is the time until the lag is 0 at the
current rate. "oldest" needs the metrics of the services. Paused stages are marked, with the
details of the pause below the table. Nothing reads the contacts of revoked partners, so they are no
lag.

Examples:
  npm run ops -- lag                         until Ctrl-C
  npm run ops -- lag --stage verify --partitions
  npm run ops -- lag --once --json           for scripts`

/** Adds `lag`. */
export function addLag (program: Command, screen: Screen): void {
  program.command('lag').description('show the lag of every consumer group')
    .option('--partitions', 'a line per partition instead of one per group')
    .option('--stage <stage>', 'only the groups of this stage')
    .option('--once', 'show the table once; the default without a terminal')
    .option('--every <seconds>', 'interval between two queries', '1')
    .addHelpText('after', HELP)
    .action(async (_options: object, command: Command) => {
      const call = callOf<Options>(command)
      const { options: { stage, every, once } } = call
      if (stage !== undefined) parseStage(stage)
      const lag = { call, screen, everyMs: parsePositive('--every', every) * 1_000 }
      const isLive = screen.terminal.isTTY === true && once !== true && !call.json
      await (isLive ? watch(lag) : showOnce(lag))
    })
}

async function showOnce (lag: Lag): Promise<void> {
  const { call: { json }, screen, everyMs } = lag
  const [before, after] = await withQuery(lag, async query => {
    const first = await query()
    await delay(everyMs)
    return [first, await query()]
  })
  const groups = lagLines(before, after, lineOptions(lag))
  if (!json) return screen.print(lagText(groups, noticesIn(after, lag), paintFor(screen.terminal)))
  const { pauses: paused = null, withoutKeys: organizationsWithoutKeys = null } = after
  screen.print(JSON.stringify({
    at: new Date().toISOString(), groups, paused, organizationsWithoutKeys,
  }))
}

const CLEAR = '\u001b[H\u001b[2J'
const [HIDE_CURSOR, SHOW_CURSOR] = ['\u001b[?25l', '\u001b[?25h']

/** Redraws the table until Ctrl-C. Retries while the brokers are unavailable. */
async function watch (lag: Lag): Promise<void> {
  const { terminal } = lag.screen
  const interrupt = new AbortController()
  process.once('SIGINT', () => interrupt.abort())
  terminal.write(HIDE_CURSOR)
  try {
    while (!interrupt.signal.aborted) {
      await draw(lag, interrupt.signal).catch(async (error: unknown) => {
        if (interrupt.signal.aborted) return
        if (!(error instanceof UsageError)) throw error
        terminal.write(`${CLEAR}${error.message}\n`)
        await delay(lag.everyMs, undefined, { signal: interrupt.signal }).catch(() => {})
      })
    }
  } finally {
    terminal.write(SHOW_CURSOR)
  }
}

async function draw (lag: Lag, signal: AbortSignal): Promise<void> {
  const { screen: { terminal }, everyMs } = lag
  const paint = paintFor(terminal)
  await withQuery(lag, async query => {
    let before: LagSnapshot | undefined
    for (;;) {
      const after = await query()
      const text = lagText(lagLines(before, after, lineOptions(lag)), noticesIn(after, lag), paint)
      terminal.write(`${CLEAR}${new Date().toISOString()}  (Ctrl-C to quit)\n\n${text}\n`)
      before = after
      await delay(everyMs, undefined, { signal })
    }
  })
}

async function withQuery<T> (
  { call: { env, folder } }: Lag, work: (query: () => Promise<LagSnapshot>) => Promise<T>
): Promise<T> {
  const targets = () => metricsTargets(env, folder)
  return await withBrokers(env, admin => withOptionalState(env, read => work(() =>
    takeLagSnapshot({
      admin,
      targets,
      pauses: () => read(redis => createPauses(redis).read()),
      partners: () => read(readPartners),
    }))))
}

/** What the table does not show. */
type Notices = Pick<LagSnapshot, 'pauses' | 'withoutKeys'>

function noticesIn (
  { pauses = [], withoutKeys }: LagSnapshot, { call: { options } }: Lag
): Notices {
  const chosen = pauses.filter(({ stage }) =>
    options.stage === undefined || options.stage === stage)
  return { pauses: chosen, withoutKeys }
}

function lineOptions ({ call: { options } }: Lag) {
  return { byPartition: options.partitions === true, stage: options.stage }
}

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
    { title: 'messages/s', right: true }, { title: 'caught up in', right: true },
    { title: 'oldest', right: true },
  ]
  const rows = lines.map(line => [
    stageCell(line),
    line.group,
    ...byPartition ? [line.topic, String(line.partition)] : [String(line.partitions)],
    ...valueCells(line),
  ])
  const sum = lines.reduce((total, { lagMessages }) => total + lagMessages, 0)
  const groups = new Set(lines.map(({ group }) => group)).size
  const total = `Total lag: ${count(sum)} messages in ${counted(groups, 'group')}.`
  const paused = pauses.map(pause => pauseLine(pause, paint))
  const keys = withoutKeys === 0
    ? []
    : [paint('red', `Keys are missing in Redis: of ${counted(withoutKeys, 'organization')}.`) +
      ' "npm run workspace -- keys list" names them. No topic has them: see ' +
      '"Lost keys of an organization" in deploy/docs/keys.md.']
  return [tableText(columns, rows, paint), total, ...paused, ...keys].join('\n')
}

function stageCell ({ stage, paused }: LagLine): Cell {
  return paused === true ? { text: `${stage} (paused)`, style: 'yellow' } : stage
}

function valueCells (line: LagLine): readonly Cell[] {
  const { lagMessages, messagesPerSecond, catchUpSeconds, oldestSeconds } = line
  const isStalled = lagMessages > 0 && messagesPerSecond === 0
  const busyStyle = isStalled ? 'red' : 'yellow'
  return [
    { text: count(lagMessages), style: lagMessages === 0 ? 'dim' : busyStyle },
    messagesPerSecond === null ? '-' : count(messagesPerSecond),
    catchUpSeconds === null ? '-' : duration(catchUpSeconds),
    oldestSeconds === null ? '-' : duration(oldestSeconds),
  ]
}

/** The offsets of all groups at one time, and the age of the oldest message of each group. */
export type LagSnapshot = {
  readonly atMs: number
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
  const revoked = new Set(partners.flatMap(one => one.revokedAtMs === 0 ? [] : [one.name]))
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
    targets().then(found => queryReported(found, fetch)),
    readPauses(),
  ])
  return { atMs: performance.now(), lags, ...reported, pauses }
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
  /** Messages that were processed per second since the previous snapshot. */
  readonly messagesPerSecond: number | null
  /** Time until the lag is 0 at the current rate; null when the lag does not decrease. */
  readonly catchUpSeconds: number | null
  readonly oldestSeconds: number | null
  /** Whether an operator has paused the stage. */
  readonly paused: boolean | null
}

type LineOptions = { readonly byPartition: boolean, readonly stage?: string | undefined }

/** Returns a line per group, or per partition, with rates since the previous snapshot. */
export function lagLines (
  before: LagSnapshot | undefined, after: LagSnapshot, { byPartition, stage }: LineOptions
): readonly LagLine[] {
  const keyOf = ({ group, topic, partition }: GroupLag) =>
    byPartition ? `${group} ${topic} ${partition}` : group
  const earlierLags = before && Map.groupBy(before.lags, keyOf)
  const selected = after.lags.filter(groupLag => stage === undefined || groupLag.stage === stage)
  return [...Map.groupBy(selected, keyOf)].flatMap(([key, lags]) => {
    const [first] = lags
    if (first === undefined) return []
    const seconds = (after.atMs - (before?.atMs ?? after.atMs)) / 1_000
    const age = after.ages.get(first.group)
    return [{
      stage: first.stage,
      group: first.group,
      topic: [...new Set(lags.map(({ topic }) => topic))].join(', '),
      partition: byPartition ? first.partition : null,
      partitions: lags.length,
      ...ratesOf(lags, earlierLags?.get(key), seconds),
      oldestSeconds: age === undefined ? null : round(age),
      paused: after.pauses?.some(pause => pause.stage === first.stage) ?? null,
    }]
  })
}

type Rates = Pick<LagLine, 'lagMessages' | 'messagesPerSecond' | 'catchUpSeconds'>

function ratesOf (
  lags: readonly GroupLag[], earlier: readonly GroupLag[] | undefined, seconds: number
): Rates {
  const lagMessages = sumOf(lags, 'lag')
  if (earlier === undefined || seconds <= 0) {
    return { lagMessages, messagesPerSecond: null, catchUpSeconds: lagMessages === 0 ? 0 : null }
  }
  const processed = Math.max(0, sumOf(lags, 'offset') - sumOf(earlier, 'offset'))
  const decrease = (sumOf(earlier, 'lag') - lagMessages) / seconds
  const remaining = decrease > 0 ? round(lagMessages / decrease) : null
  return {
    lagMessages,
    messagesPerSecond: round(processed / seconds),
    catchUpSeconds: lagMessages === 0 ? 0 : remaining,
  }
}

function sumOf (lags: readonly GroupLag[], field: 'lag' | 'offset'): number {
  return lags.reduce((sum, groupLag) => sum + groupLag[field], 0)
}
