import { setTimeout as delay } from 'node:timers/promises'
import type { Command } from 'commander'
import { count, counted } from '../../client/terminal.ts'
import { createProgressLine } from '../../client/terminal.ts'
import { placesOf } from '../../lib/kafka/lag.ts'
import { withBrokers } from '../brokers.ts'
import { countOpenJobs } from '../jobs/open-jobs.ts'
import { withJobs } from '../jobs/parts.ts'
import { positiveOf } from '../numbers.ts'
import { callOf, type Call, type Screen } from '../screen.ts'
import { drain, restOf, type Drained, type Rest } from './drain.ts'

type Options = { readonly timeout: string }

const HELP = `
New jobs are not kept out: stop ingest and feed before, when a deployment needs empty topics.
Contacts of partners that nobody took yet are not waited for; they lie safely in their own topics.
Exit code 0 when nothing is left, 1 when something was after --timeout.

Examples:
  npm run ops -- drain
  npm run ops -- drain --timeout 900 && echo empty`

/** Adds `drain`. */
export function addDrain (program: Command, screen: Screen): void {
  program.command('drain').description('wait until no job is open and no group has lag')
    .option('--timeout <seconds>', 'give up after so long', '300')
    .addHelpText('after', HELP)
    .action(async (_options: object, command: Command) => {
      const call = callOf<Options>(command)
      const timeoutMs = positiveOf('--timeout', call.options.timeout) * 1_000
      const drained = await drainStack(call, screen, timeoutMs)
      screen.print(call.json ? JSON.stringify(drained) : drainedText(drained))
      if (!drained.drained) process.exitCode = 1
    })
}

async function drainStack (
  { env, json }: Call<Options>, { errors }: Screen, timeoutMs: number
): Promise<Drained> {
  const line = createProgressLine<Rest>(errors, { textOf: restText })
  try {
    return await withBrokers(env, admin => withJobs(env, jobs => drain({
      // Jobs come first: what a job that is closed has written lies in a topic by then.
      look: async () => restOf(await countOpenJobs(jobs), await placesOf(admin)),
      show: rest => { if (!json) line.show(rest) },
      sleep: delay,
      now: () => performance.now(),
    }, timeoutMs)))
  } finally {
    line.end()
  }
}

/** What is left, in a line. */
export function restText ({ openJobs, lagMessages, groups }: Rest): string {
  const more = groups.length > 3 ? `, and ${groups.length - 3} more` : ''
  const where = groups.length === 0 ? '' : ` (${groups.slice(0, 3).join(', ')}${more})`
  return `${counted(openJobs, 'job')} open, ${count(lagMessages)} messages wait${where}`
}

/** How it ended, for people. */
export function drainedText (drained: Drained): string {
  const { seconds } = drained
  if (drained.drained) return `Nothing is left, after ${seconds} s.`
  return `After ${seconds} s: ${restText(drained)}. "npm run ops -- lag" shows whether it moves.`
}
