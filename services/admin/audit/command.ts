import { type AdminCommand, type Context, runAndPrint } from '../command-line.ts'
import { auditTable, invariantsText } from './report.ts'
import { runAudit } from './run.ts'

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
