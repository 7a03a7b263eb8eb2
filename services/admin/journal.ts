import { accessMessage } from '../accounts/access-log/access-log.ts'
import { createAccessCopy } from '../accounts/access-log/copy.ts'
import { count, counted, createProgressLine } from '../client/terminal.ts'
import { createMessageCodec } from '../jobs/message-codec.ts'
import { createJournalCopy } from '../money/journal.ts'
import type { OutgoingMessage } from '../runtime/kafka/bus.ts'
import { type AdminCommand, type CommandCall, type Context, runAndPrint } from './command-line.ts'
import { withConnections } from './deps.ts'
import { type Progress, restore, type Restored } from './journal-restore.ts'

const HELP = `
For lost topics wallet.journal and access.log. The command reads every entry from the copy in
ClickHouse, verifies its signature and the chain of its tenant, and writes it to the topic
unchanged. It writes nothing unless the copy is complete and valid. A new topic access.log is
written alike; one with messages stays as it is.

Before: stop lookup, settle and ledger. Delete what remains of wallet.journal, and wallet.snapshots,
which contains positions of the lost topic. Create both again with "npm run provision".
After: start the stages. ledger compares every balance with the restored journal.`

/** Adds `journal`. */
export function addJournal (program: AdminCommand, context: Context): void {
  program.command('journal').description('restore the journal of money')
    .command('restore').description('write the topic wallet.journal from its copy in ClickHouse')
    .records('journal.restored')
    .addHelpText('after', HELP)
    .example()
    .action(runAndPrint(context, async call => {
      const restored = await runRestore(call, context)
      const { tenants, entries, forged, actions } = restored
      const skipped =
        forged === 0 ? '' : ` Skipped ${count(forged)} rows with an invalid signature.`
      return {
        data: restored,
        text: `Restored ${counted(entries, 'movement')} of ${counted(tenants, 'tenant')}; all ` +
          `chains are complete.${skipped} Restored ${count(actions)} entries of the access log. ` +
          'Start lookup, settle and ledger, then: npm run admin -- audit --full',
      }
    }))
}

const SEND_TIMEOUT_MS = 60_000

/** Restores both topics of a stack, and shows the progress. */
async function runRestore (
  { env, json }: CommandCall<object>, { brokers, errors }: Context
): Promise<Restored> {
  const line = createProgressLine<Progress>(errors, {
    textOf: ({ step, entries, tenants }) =>
      `${step} ${counted(entries, 'movement')} of ${counted(tenants + 1, 'tenant')}`,
  })
  try {
    return await withConnections(env, ['clickhouse', 'bus', 'codec', 'recordMac'],
      async ({ clickhouse, bus, codec, recordMac }) => {
        const messageCodec = createMessageCodec({ codec })
        const send = (messages: readonly OutgoingMessage[]) =>
          bus.producer('journal').send(messages, AbortSignal.timeout(SEND_TIMEOUT_MS))
        return await brokers(env, admin => restore({
          admin,
          copy: createJournalCopy(clickhouse, recordMac),
          accessCopy: createAccessCopy(clickhouse, recordMac),
          send: async entries => {
            await send(await Promise.all(entries.map(value => messageCodec.encode(
              { topic: 'wallet.journal', lane: 'small', value, rows: undefined }))))
          },
          sendAccess: async entries => {
            await send(await Promise.all(entries.map(entry => accessMessage(codec, entry))))
          },
          show: progress => { if (!json) line.show(progress) },
        }))
      })
  } finally {
    line.end()
  }
}
