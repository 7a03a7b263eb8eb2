import type { Command } from 'commander'
import { commandEnvironment } from '../platform/command-environment.ts'
import { auditTable, invariantsText } from './audit/report.ts'
import type { Options } from './options.ts'

type GlobalOptions = { readonly json?: true, readonly data: string }
type Print = (text: string) => void

/** Adds `audit`. */
export function addAuditCommand (program: Command, print: Print): void {
  program.command('audit').description('compare balances, journal and results')
    .option('--full', 'read everything, not only what is new since the last audit')
    .option('--explain', 'print every movement of money in words; reads everything')
    .option('--journal-head <file>', 'also check that the journal contains every head that was ' +
      'exported to JOURNAL_HEAD_TARGET; reads everything')
    .addHelpText('after', invariantsText())
    .action(async (_options: object, command: Command) => {
      const { json, data, full, explain, journalHead } = command.optsWithGlobals<
        GlobalOptions &
        { readonly full?: true, readonly explain?: true, readonly journalHead?: string }>()
      // Imported here because no other command needs the stores of results.
      const { runAudit } = await import('./audit/command.ts')
      const report = await runAudit(commandEnvironment(process.env, data), {
        explain: explain === true,
        journalHead,
        incremental: full !== true,
        onProgress: line => console.error(line),
      })
      const isComplete = full === true || explain === true || journalHead !== undefined
      print(json === true ? JSON.stringify(report) : auditTable(report, isComplete))
      if (!report.ok) process.exitCode = 1
    })
}

/** Adds `access-log`. */
export function addAccessLogCommand (program: Command, print: Print): void {
  program.command('access-log').description('export the access log of an organization, and check ' +
    'that it is complete and unchanged')
    .requiredOption('--org <id>', 'organization, or "installation" for commands of operators ' +
      'that concern none')
    .option('--since <time>', 'only entries since then, as an ISO 8601 time')
    .option('--format <format>', 'csv or ndjson', 'csv')
    .action(async (_options: object, command: Command) => {
      const { json: _json, data, ...options } = command.optsWithGlobals<GlobalOptions & Options>()
      const { exportAccessLog, exportedText } = await import('./access-log.ts')
      const exported = await exportAccessLog(commandEnvironment(process.env, data), options, print)
      console.error(exportedText(exported))
      if (!exported.holds) process.exitCode = 1
    })
}
