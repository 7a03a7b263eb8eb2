import Type from 'typebox'
import { createAccessCopy } from '../accounts/access-log/copy.ts'
import { accessMessage } from '../accounts/access-log/access-log.ts'
import { count, counted, createProgressLine } from '../client/terminal.ts'
import { createMessageCodec } from '../jobs/message-codec.ts'
import { createJournalCopy } from '../money/journal.ts'
import { createMessageMac, createRecordMac } from '../runtime/crypto/mac.ts'
import { kafkaConnectionOf } from '../runtime/kafka/connection.ts'
import { createKafkaBus } from '../runtime/kafka/kafka-bus.ts'
import { createCodec, registrySource } from '../runtime/kafka/registry.ts'
import { connectCommandClickhouse } from '../runtime/platform/clickhouse.ts'
import {
  clickhouseKeys, commonConfig, loadConfig, messageKeys, pick, registryKeys,
} from '../runtime/platform/config.ts'
import {
  type AccessRestoreDeps, type Progress, restoreAccessLog, type Restored, type RestoreDeps,
  restoreJournal,
} from './journal-restore.ts'
import { type AdminCommand, type CommandCall, type Context, runAndPrint } from './command-line.ts'

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
      const restored = await restore(call, context)
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

async function restore (
  { env, json }: CommandCall<object>, { brokers, errors }: Context
): Promise<AllRestored> {
  const line = createProgressLine<Progress>(errors, {
    textOf: ({ step, entries, tenants }) =>
      `${step} ${counted(entries, 'movement')} of ${counted(tenants + 1, 'tenant')}`,
  })
  const show: RestoreDeps['show'] = progress => { if (!json) line.show(progress) }
  try {
    return await withJournal(env, journal => brokers(env, async admin => ({
      ...await restoreJournal({ ...journal, admin, show }),
      actions: await restoreAccessLog({ ...journal, admin }),
    })))
  } finally {
    line.end()
  }
}

/** What was restored of the journal, and the number of entries of the access log. */
type AllRestored = Restored & { readonly actions: number }

const config = Type.Object(pick(commonConfig, [
  ...messageKeys, ...registryKeys, ...clickhouseKeys,
]))
const SEND_TIMEOUT_MS = 60_000

/** Runs work with the copies of the journal and the access log, and producers of their topics. */
async function withJournal<T> (
  env: CommandCall<object>['env'], work: (
    journal: Pick<RestoreDeps, 'copy' | 'send'> &
      Pick<AccessRestoreDeps, 'accessCopy' | 'sendAccess'>,
  ) => Promise<T>
): Promise<T> {
  const settings = loadConfig(config, env)
  const clickhouse = connectCommandClickhouse(settings)
  const bus = createKafkaBus({
    ...kafkaConnectionOf(settings),
    mac: createMessageMac(settings),
    clientId: 'ops.journal',
    onFatal: () => {},
  })
  const codec = createCodec(registrySource(settings))
  const messageCodec = createMessageCodec({ codec, keys: { get: async () => undefined } })
  const producer = bus.producer('journal')
  const mac = createRecordMac(settings)
  try {
    return await work({
      copy: createJournalCopy(clickhouse, mac),
      accessCopy: createAccessCopy(clickhouse, mac),
      sendAccess: async entries => {
        const messages = await Promise.all(entries.map(entry => accessMessage(codec, entry)))
        await producer.send(messages, AbortSignal.timeout(SEND_TIMEOUT_MS))
      },
      send: async entries => {
        const messages = await Promise.all(entries.map(value =>
          messageCodec.encode({ topic: 'wallet.journal', lane: 'small', value, rows: undefined })))
        await producer.send(messages, AbortSignal.timeout(SEND_TIMEOUT_MS))
      },
    })
  } finally {
    await bus.close()
    await clickhouse.close()
  }
}
