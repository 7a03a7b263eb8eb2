import { setTimeout as delay } from 'node:timers/promises'
import type { Command } from 'commander'
import { withBrokers } from '../brokers.ts'
import { metricsTargets } from '../metrics.ts'
import { positiveOf } from '../numbers.ts'
import { besidePauses, type Pause } from '../pause/pauses.ts'
import { callOf, paintFor, type Call, type Screen } from '../screen.ts'
import { stageOf } from '../stages.ts'
import { UsageError } from '../../lib/run-command.ts'
import { linesOf } from './lines.ts'
import { lookAt, type Look } from './look.ts'
import { lagText } from './text.ts'

type Options = {
  readonly partitions?: true
  readonly once?: true
  readonly stage?: string
  readonly every: string
}

type Lag = {
  readonly call: Call<Options>
  readonly screen: Screen
  readonly everyMs: number
}

const HELP = `
Rates are those since the look before; "caught up in" is how long the rest takes if all goes on so.
"oldest" is told by the services themselves, where their metrics can be read. Stages that operators
have paused are marked, with since when and why below.

Examples:
  npm run ops -- lag                         until Ctrl-C
  npm run ops -- lag --stage verify --partitions
  npm run ops -- lag --once --json           for scripts`

/** Adds `lag`. */
export function addLag (program: Command, screen: Screen): void {
  program.command('lag').description('how far every consumer group is behind')
    .option('--partitions', 'a line a partition instead of one a group')
    .option('--stage <stage>', 'only the groups of this stage')
    .option('--once', 'show it once, as is done wherever nobody watches')
    .option('--every <seconds>', 'time between two looks', '1')
    .addHelpText('after', HELP)
    .action(async (_options: object, command: Command) => {
      const call = callOf<Options>(command)
      const { options: { stage, every, once } } = call
      if (stage !== undefined) stageOf(stage)
      const lag = { call, screen, everyMs: positiveOf('--every', every) * 1_000 }
      const isLive = screen.terminal.isTTY === true && once !== true && !call.json
      await (isLive ? watch(lag) : showOnce(lag))
    })
}

async function showOnce (lag: Lag): Promise<void> {
  const { call: { json }, screen, everyMs } = lag
  const [before, after] = await withLook(lag, async look => {
    const first = await look()
    await delay(everyMs)
    return [first, await look()]
  })
  const groups = linesOf(before, after, wishOf(lag))
  if (!json) return screen.print(lagText(groups, pausesIn(after, lag), paintFor(screen.terminal)))
  const paused = after.pauses ?? null
  screen.print(JSON.stringify({ at: new Date().toISOString(), groups, paused }))
}

const CLEAR = '\u001b[H\u001b[2J'
const [HIDE_CURSOR, SHOW_CURSOR] = ['\u001b[?25l', '\u001b[?25h']

/** Draws the table anew until Ctrl-C; brokers that are away are waited for. */
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
  await withLook(lag, async look => {
    let before: Look | undefined
    for (;;) {
      const after = await look()
      const text = lagText(linesOf(before, after, wishOf(lag)), pausesIn(after, lag), paint)
      terminal.write(`${CLEAR}${new Date().toISOString()}  Ctrl-C ends it\n\n${text}\n`)
      before = after
      await delay(everyMs, undefined, { signal })
    }
  })
}

/** Stays connected for as long as somebody looks. */
async function withLook<T> (
  { call: { env, folder } }: Lag, work: (look: () => Promise<Look>) => Promise<T>
): Promise<T> {
  const targets = () => metricsTargets(env, folder)
  return await withBrokers(env, admin => besidePauses(env, pauses =>
    work(() => lookAt({ admin, targets, pauses }))))
}

function pausesIn ({ pauses = [] }: Look, { call: { options } }: Lag): readonly Pause[] {
  return pauses.filter(({ stage }) => options.stage === undefined || options.stage === stage)
}

function wishOf ({ call: { options } }: Lag) {
  return { byPartition: options.partitions === true, stage: options.stage }
}
