import type { Command } from 'commander'
import { count, counted } from '../../client/terminal.ts'
import { createProgressLine } from '../../client/terminal.ts'
import { withBrokers } from '../brokers.ts'
import { callOf, type Call, type Screen } from '../screen.ts'
import { withJournal } from './parts.ts'
import { restoreJournal, type Progress, type Restored, type RestoreParts } from './restore.ts'

const HELP = `
For a topic wallet.journal that is lost. Every entry is read from the copy in ClickHouse, proven by
its signature and by the chain of its tenant, and written to the topic as it was. Nothing is written
unless all of it is whole.

Before: stop lookup, settle and ledger; delete what is left of wallet.journal, and wallet.snapshots,
whose positions are those of the lost topic; make both again with "npm run provision".
After: start the stages again. ledger compares every balance with what was restored.

Example:
  npm run ops -- journal restore`

/** Adds `journal`. */
export function addJournal (program: Command, screen: Screen): void {
  program.command('journal').description('the journal of money').addHelpText('after', HELP)
    .command('restore').description('write the topic wallet.journal from its copy in ClickHouse')
    .addHelpText('after', HELP)
    .action(async (_options: object, command: Command) => {
      const call = callOf<object>(command)
      const restored = await restore(call, screen)
      screen.print(call.json ? JSON.stringify(restored) : restoredText(restored))
    })
}

async function restore ({ env, json }: Call<object>, { errors }: Screen): Promise<Restored> {
  const line = createProgressLine<Progress>(errors, { textOf: progressText })
  const show: RestoreParts['show'] = progress => { if (!json) line.show(progress) }
  try {
    return await withJournal(env, journal => withBrokers(env, admin =>
      restoreJournal({ ...journal, admin, show })))
  } finally {
    line.end()
  }
}

/** How far it is, in a line. */
export function progressText ({ step, entries, tenants }: Progress): string {
  return `${step} ${counted(entries, 'movement')} of ${counted(tenants + 1, 'tenant')}`
}

/** How it ended, for people. */
export function restoredText ({ tenants, entries, forged }: Restored): string {
  const left = forged === 0 ? '' : ` ${count(forged)} rows that no service stored were left out.`
  return `Restored ${counted(entries, 'movement')} of ${counted(tenants, 'tenant')}; every ` +
    `chain is whole.${left} Start lookup, settle and ledger, then: npm run ops -- audit --full`
}
