import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Command } from 'commander'

/** The program of the customer workspace, which has the audit. */
const WORKSPACE = join(import.meta.dirname, '..', 'workspace', 'main.ts')

type Options = {
  readonly json?: true
  readonly data: string
  readonly full?: true
  readonly explain?: true
  readonly journalHead?: string
}

/** The words by which the workspace is asked for the same. */
export function auditWords (
  { json, data, full, explain, journalHead }: Options
): readonly string[] {
  return [
    ...json === true ? ['--json'] : [],
    '--data', data, 'audit', ...full === true ? ['--full'] : [],
    ...explain === true ? ['--explain'] : [],
    ...journalHead === undefined ? [] : ['--journal-head', journalHead],
  ]
}

/** Adds `audit`, which is that of the workspace in a process of its own. */
export function addAudit (program: Command): void {
  program.command('audit')
    .description('check balances, journal and results of all customers against each other')
    .option('--full', 'read all, not only what is new since the last audit')
    .option('--explain', 'tell every movement in words as well; reads all')
    .option('--journal-head <file>', 'check also that nothing is missing of what ' +
      'JOURNAL_HEAD_TARGET was given; reads all')
    .addHelpText('after', '\nExample:\n  npm run ops -- audit --explain')
    .action(async (_options: object, command: Command) => {
      const words = auditWords(command.optsWithGlobals<Options>())
      const child = spawn(process.execPath, [WORKSPACE, ...words], { stdio: 'inherit' })
      const [code] = await once(child, 'exit') as [number | null]
      process.exitCode = code ?? 1
    })
}
