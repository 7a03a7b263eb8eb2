import type { Command } from 'commander'
import { positiveOf, wholeOf } from '../numbers.ts'
import { callOf, paintFor, type Screen } from '../screen.ts'
import { listOpenJobs } from './open-jobs.ts'
import { withJobs } from './parts.ts'
import { jobsText } from './text.ts'

type Options = {
  readonly tenant?: string
  readonly stalled?: string | true
  readonly limit: string
}

const HELP = `
The job that has not moved for longest comes first. A job moves when a row of it comes to its end.

Examples:
  npm run ops -- jobs
  npm run ops -- jobs --tenant org_01jd3v8zj7m5n2k4q6r8s0t1w3.live
  npm run ops -- jobs --stalled              nothing moved for an hour
  npm run ops -- jobs --stalled 60 --json    nothing moved for a minute`

/** Adds `jobs`. */
export function addJobs (program: Command, screen: Screen): void {
  program.command('jobs').description('jobs of all customers that are accepted and not closed')
    .option('--tenant <tenant>', 'only of this organization, or this organization and mode')
    .option('--stalled [seconds]', 'only those that have not moved for so long, or for an hour')
    .option('--limit <number>', 'show at most so many', '50')
    .addHelpText('after', HELP)
    .action(async (_options: object, command: Command) => {
      const { env, json, options } = callOf<Options>(command)
      const { tenant, stalled, limit } = options
      const wish = { tenant, idleForSeconds: idleOf(stalled), limit: wholeOf('--limit', limit) }
      const found = await withJobs(env, parts => listOpenJobs(parts, wish))
      screen.print(json ? JSON.stringify(found) : jobsText(found, paintFor(screen.terminal)))
    })
}

/** As long as jobs without progress may stand before they are looked into. */
const STALLED_SECONDS = 3_600

function idleOf (stalled: string | true | undefined): number {
  if (stalled === undefined) return 0
  return stalled === true ? STALLED_SECONDS : positiveOf('--stalled', stalled)
}
