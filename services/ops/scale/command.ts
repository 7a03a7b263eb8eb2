import { join } from 'node:path'
import type { Command } from 'commander'
import { positiveOf } from '../numbers.ts'
import { callOf, paintFor, type Screen } from '../screen.ts'
import { UsageError } from '../../lib/run-command.ts'
import { adviceOf } from './advice.ts'
import { measuredCosts } from './source.ts'
import { adviceText } from './text.ts'

type Options = {
  readonly rowsPerSecond: string
  readonly utilization: string
  readonly cost?: readonly string[]
}

const ROOT = join(import.meta.dirname, '..', '..', '..')

const HELP = `
Costs are CPU seconds per 100,000 rows: those of the newest file in test/bench/results if there is
one, else those named by --cost, else what the running services have taken since their start.

Examples:
  npm run ops -- scale-advice --rows-per-second 50000
  npm run ops -- scale-advice --rows-per-second 50000 --utilization 0.5 --json
  npm run ops -- scale-advice --rows-per-second 50000 --cost verify=3.2 --cost lookup=0.4`

/** Adds `scale-advice`. */
export function addScaleAdvice (program: Command, screen: Screen): void {
  program.command('scale-advice')
    .description('instances of each stage and partitions of each topic for a wanted rate')
    .requiredOption('--rows-per-second <number>', 'the rate, of rows of jobs')
    .option('--utilization <share>', 'how much of a core an instance may use', '0.7')
    .option('--cost <stage=seconds>', 'CPU seconds per 100,000 rows; may be given again',
      (text: string, before: readonly string[] = []) => [...before, text])
    .addHelpText('after', HELP)
    .action(async (_options: object, command: Command) => {
      const call = callOf<Options>(command)
      const wanted = {
        rowsPerSecond: positiveOf('--rows-per-second', call.options.rowsPerSecond),
        utilization: shareOf(call.options.utilization),
      }
      const { costs, source } = await measuredCosts(call, ROOT)
      const advice = { source, ...adviceOf(costs, wanted) }
      const paint = paintFor(screen.terminal)
      screen.print(call.json ? JSON.stringify(advice) : adviceText(advice, paint))
    })
}

function shareOf (text: string): number {
  const share = positiveOf('--utilization', text)
  if (share <= 1) return share
  throw new UsageError('--utilization is a share of a core, above 0 and at most 1.')
}
