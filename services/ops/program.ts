import { Command } from 'commander'
import { addAudit } from './audit.ts'
import { addDead, type Print } from './dead/command.ts'
import { addDrain } from './drain/command.ts'
import { addJobs } from './jobs/command.ts'
import { addJournal } from './journal/command.ts'
import { addLag } from './lag/command.ts'
import { addPause, addResume } from './pause/command.ts'
import { addReplay } from './replay/command.ts'
import { addScaleAdvice } from './scale/command.ts'
import type { Screen } from './screen.ts'

const HELP = `
Addresses come from the environment (KAFKA_BROKERS, REDIS_STATE_URL and the like, METRICS_TARGETS
for what only services know), else from the local stack of "npm run up". Colours are for terminals
only, and left out where NO_COLOR is set.

Examples:
  npm run ops -- lag
  npm run ops -- pause verify --reason "the vendor is down"
  npm run ops -- scale-advice --rows-per-second 50000
  npm run ops -- dead list`

/** The command line of operators; `print` takes what it shows. */
export function createProgram (
  print: Print = console.log, streams: Partial<Omit<Screen, 'print'>> = {}
): Command {
  const screen: Screen = { print, terminal: process.stdout, errors: process.stderr, ...streams }
  const program = new Command('ops')
    .description('What those do who run the system.')
    .configureHelp({ showGlobalOptions: true })
    .option('--json', 'show the answer as JSON')
    .option('--data <folder>', 'folder that was given to "up"', '.local')
    .addHelpText('after', HELP)
  addLag(program, screen)
  addJobs(program, screen)
  addPause(program, screen)
  addResume(program, screen)
  addScaleAdvice(program, screen)
  addReplay(program, screen)
  addDrain(program, screen)
  addDead(program, print)
  addJournal(program, screen)
  addAudit(program)
  return program
}
