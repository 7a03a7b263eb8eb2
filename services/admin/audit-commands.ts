import { exportAccessLog, exportedText } from './access-log.ts'
import {
  type AdminCommand, type Context, type Options, readCall, runAndPrint,
} from './command-line.ts'
import { runAudit } from './audit/command.ts'
import { auditTable, invariantsText } from './audit/report.ts'

type AuditFlags =
  { readonly full?: true, readonly explain?: true, readonly journalHead?: string }

/** Adds `audit`. */
export function addAudit (program: AdminCommand, context: Context): void {
  program.command('audit').description('compare balances, journal and results of all customers')
    .reads()
    .option('--full', 'read everything, not only what is new since the last audit')
    .option('--explain', 'print every movement of money in words; reads everything')
    .option('--journal-head <file>', 'also check that the journal contains every head that was ' +
      'exported to JOURNAL_HEAD_TARGET; reads everything')
    .addHelpText('after', invariantsText())
    .example('--full')
    .action(runAndPrint<AuditFlags>(context, async ({ env, options }) => {
      const { full, explain, journalHead } = options
      const report = await runAudit(env, {
        explain: explain === true,
        journalHead,
        incremental: full !== true,
        onProgress: line => console.error(line),
      })
      const isComplete = full === true || explain === true || journalHead !== undefined
      return { data: report, text: auditTable(report, isComplete), isUndone: !report.ok }
    }))
}

/** Adds `access-log`. */
export function addAccessLog (program: AdminCommand, { print }: Context): void {
  program.command('access-log').description('export the access log of an organization, and check ' +
    'that it is complete and unchanged')
    .records('access_log.exported')
    .requiredOption('--org <id>', 'organization, or "installation" for commands of operators ' +
      'that concern none')
    .option('--since <time>', 'only entries since then, as an ISO 8601 time')
    .option('--format <format>', 'csv or ndjson', 'csv')
    .example('--org org_1 --since 2030-01-01T00:00:00Z > access-log.csv')
    .action(async (_options: object, command: AdminCommand) => {
      const { env, options } = readCall<Options>(command)
      const exported = await exportAccessLog(env, options, print)
      console.error(exportedText(exported))
      if (!exported.holds) process.exitCode = 1
    })
}
