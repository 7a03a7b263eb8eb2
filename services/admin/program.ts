import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { Command } from 'commander'
import { addCells } from './cells.ts'
import type { Screen } from './command-line.ts'
import { addDead } from './dead/command.ts'
import { addDrain } from './drain.ts'
import { addJobs } from './jobs.ts'
import { addJournal } from './journal.ts'
import { addLag } from './lag.ts'
import { addPause, addResume } from './pause.ts'
import { addReplay } from './replay.ts'

/** The workspace program, which implements the audit. */
const WORKSPACE = join(import.meta.dirname, 'workspace', 'main.ts')

const HELP = `
Addresses come from the environment (KAFKA_BROKERS, REDIS_STATE_URL and so on; METRICS_TARGETS for
the metrics of the services), else from the local stack of "npm run up". Output is colored on
terminals only, unless NO_COLOR is set.

Examples:
  npm run ops -- lag
  npm run ops -- pause verify --reason "the vendor is down"
  npm run ops -- dead list`

/** Creates the command line of operators. `print` receives the results. */
export function createOpsProgram (
  print: Screen['print'] = console.log, streams: Partial<Omit<Screen, 'print'>> = {}
): Command {
  const screen: Screen = { print, terminal: process.stdout, errors: process.stderr, ...streams }
  const program = new Command('ops').exitOverride()
    .description('Commands for the operators of the system.')
    .configureHelp({ showGlobalOptions: true })
    .option('--json', 'print the result as JSON')
    .option('--data <folder>', 'folder of the local stack', '.local')
    .addHelpText('after', HELP)
  addLag(program, screen)
  addJobs(program, screen)
  addPause(program, screen)
  addResume(program, screen)
  addCells(program, screen)
  addReplay(program, screen)
  addDrain(program, screen)
  addDead(program, print)
  addJournal(program, screen)
  addAudit(program)
  return program
}

type AuditOptions = {
  readonly json?: true
  readonly data: string
  readonly full?: true
  readonly explain?: true
  readonly journalHead?: string
}

/** Returns the arguments of the workspace program for an audit with these options. */
export function auditArguments (
  { json, data, full, explain, journalHead }: AuditOptions
): readonly string[] {
  return [
    ...json === true ? ['--json'] : [],
    '--data', data, 'audit', ...full === true ? ['--full'] : [],
    ...explain === true ? ['--explain'] : [],
    ...journalHead === undefined ? [] : ['--journal-head', journalHead],
  ]
}

/** Adds `audit`, which runs the audit of the workspace program in a child process. */
export function addAudit (program: Command): void {
  program.command('audit')
    .description('check balances, journal and results of all customers against each other')
    .option('--full', 'read everything, not only what is new since the last audit')
    .option('--explain', 'also describe every movement in words; reads everything')
    .option('--journal-head <file>', 'also check that no entry is missing that was exported to ' +
      'JOURNAL_HEAD_TARGET; reads everything')
    .addHelpText('after', '\nExample:\n  npm run ops -- audit --explain')
    .action(async (_options: object, command: Command) => {
      const words = auditArguments(command.optsWithGlobals<AuditOptions>())
      const child = spawn(process.execPath, [WORKSPACE, ...words], { stdio: 'inherit' })
      const [code] = await once(child, 'exit') as [number | null]
      // A child that was killed has checked nothing: 2, as of any command that failed.
      process.exitCode = code ?? 2
    })
}
