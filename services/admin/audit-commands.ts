import { exportAccessLog, exportedText } from './access-log.ts'
import type { AdminCommand } from './admin-command.ts'
import { runAudit } from './audit/command.ts'
import { auditTable, invariantsText } from './audit/report.ts'
import { callOf, type Options, type Screen } from './command-line.ts'

/** Adds `audit`. */
export function addAudit (program: AdminCommand, { print }: Pick<Screen, 'print'>): void {
  program.command('audit').description('compare balances, journal and results of all customers')
    .reads()
    .option('--full', 'read everything, not only what is new since the last audit')
    .option('--explain', 'print every movement of money in words; reads everything')
    .option('--journal-head <file>', 'also check that the journal contains every head that was ' +
      'exported to JOURNAL_HEAD_TARGET; reads everything')
    .addHelpText('after', invariantsText())
    .example('--full')
    .action(async (_options: object, command: AdminCommand) => {
      const { env, json, options: { full, explain, journalHead } } = callOf<
        { readonly full?: true, readonly explain?: true, readonly journalHead?: string }>(command)
      const report = await runAudit(env, {
        explain: explain === true,
        journalHead,
        incremental: full !== true,
        onProgress: line => console.error(line),
      })
      const isComplete = full === true || explain === true || journalHead !== undefined
      print(json ? JSON.stringify(report) : auditTable(report, isComplete))
      if (!report.ok) process.exitCode = 1
    })
}

/** Adds `access-log`. */
export function addAccessLog (program: AdminCommand, { print }: Pick<Screen, 'print'>): void {
  program.command('access-log').description('export the access log of an organization, and check ' +
    'that it is complete and unchanged')
    .records('access_log.exported')
    .requiredOption('--org <id>', 'organization, or "installation" for commands of operators ' +
      'that concern none')
    .option('--since <time>', 'only entries since then, as an ISO 8601 time')
    .option('--format <format>', 'csv or ndjson', 'csv')
    .example('--org org_1 --since 2030-01-01T00:00:00Z > access-log.csv')
    .action(async (_options: object, command: AdminCommand) => {
      const { env, options } = callOf<Options>(command)
      const exported = await exportAccessLog(env, options, print)
      console.error(exportedText(exported))
      if (!exported.holds) process.exitCode = 1
    })
}
