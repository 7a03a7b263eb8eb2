import { setTimeout as delay } from 'node:timers/promises'
import type { Command } from 'commander'
import { count, duration } from '../client/terminal.ts'
import { UsageError } from '../platform/run-command.ts'
import {
  callOf, paintFor, parsePositive, parseStage, tableText,
  type CommandCall, type Cell, type Column, type Paint, type Screen,
} from './command-line.ts'
import { withBrokers } from './connections.ts'
import { lagLines, takeLagSnapshot, type LagLine, type LagSnapshot } from './lag-snapshot.ts'
import { metricsTargets } from './metrics.ts'
import { pauseLine } from './pause.ts'
import { withOptionalPauses, type Pause } from './pauses.ts'

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
details of the pause below the table.

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
  if (!json) return screen.print(lagText(groups, pausesIn(after, lag), paintFor(screen.terminal)))
  const paused = after.pauses ?? null
  screen.print(JSON.stringify({ at: new Date().toISOString(), groups, paused }))
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
      const text = lagText(lagLines(before, after, lineOptions(lag)), pausesIn(after, lag), paint)
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
  return await withBrokers(env, admin => withOptionalPauses(env, pauses =>
    work(() => takeLagSnapshot({ admin, targets, pauses }))))
}

function pausesIn ({ pauses = [] }: LagSnapshot, { call: { options } }: Lag): readonly Pause[] {
  return pauses.filter(({ stage }) => options.stage === undefined || options.stage === stage)
}

function lineOptions ({ call: { options } }: Lag) {
  return { byPartition: options.partitions === true, stage: options.stage }
}

/** Formats the table, the total lag and the pauses. */
export function lagText (
  lines: readonly LagLine[], pauses: readonly Pause[], paint: Paint
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
  const total = `Total lag: ${count(sum)} messages in ${groups} groups.`
  const paused = pauses.map(pause => pauseLine(pause, paint))
  return [tableText(columns, rows, paint), total, ...paused].join('\n')
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
