import type { Command } from 'commander'
import Type from 'typebox'
import { count, counted, createProgressLine } from '../client/terminal.ts'
import { createMessageCodec } from '../jobs/message-codec.ts'
import { COMMAND_TIMEOUT_MS, connectClickhouse } from '../platform/clickhouse.ts'
import { commonConfig, loadConfig, messageKeys, pick } from '../platform/config.ts'
import { createKafkaBus } from '../kafka/kafka-bus.ts'
import { kafkaConnectionOf } from '../kafka/connection.ts'
import { createMessageMac } from '../kafka/message-mac.ts'
import { createRecordMac } from '../crypto/mac.ts'
import { createCodec, registrySource } from '../kafka/registry.ts'
import { createJournalCopy } from '../money/journal-copy.ts'
import { callOf, type CommandCall, type Screen } from './command-line.ts'
import { withBrokers } from './connections.ts'
import {
  type Progress, type Restored, type RestoreDeps, restoreJournal,
} from './journal-restore.ts'

const HELP = `
For a lost topic wallet.journal. The command reads every entry from the copy in ClickHouse, verifies
its signature and the chain of its tenant, and writes it to the topic unchanged. It writes nothing
unless the copy is complete and valid.

Before: stop lookup, settle and ledger. Delete what remains of wallet.journal, and wallet.snapshots,
which contains positions of the lost topic. Create both again with "npm run provision".
After: start the stages. ledger compares every balance with the restored journal.

Example:
  npm run ops -- journal restore`

/** Adds `journal`. */
export function addJournal (program: Command, screen: Screen): void {
  program.command('journal').description('restore the journal of money').addHelpText('after', HELP)
    .command('restore').description('write the topic wallet.journal from its copy in ClickHouse')
    .addHelpText('after', HELP)
    .action(async (_options: object, command: Command) => {
      const call = callOf<object>(command)
      const restored = await restore(call, screen)
      screen.print(call.json ? JSON.stringify(restored) : restoredText(restored))
    })
}

async function restore ({ env, json }: CommandCall<object>, { errors }: Screen): Promise<Restored> {
  const line = createProgressLine<Progress>(errors, { textOf: progressText })
  const show: RestoreDeps['show'] = progress => { if (!json) line.show(progress) }
  try {
    return await withJournal(env, journal => withBrokers(env, admin =>
      restoreJournal({ ...journal, admin, show })))
  } finally {
    line.end()
  }
}

const config = Type.Object(pick(commonConfig, [
  ...messageKeys, 'SCHEMA_REGISTRY_URL', 'CLICKHOUSE_URL',
]))
const SEND_TIMEOUT_MS = 60_000

/** Runs work with the copy of the journal and a producer for its topic. */
export async function withJournal<T> (
  env: CommandCall<object>['env'], work: (journal: Pick<RestoreDeps, 'copy' | 'send'>) => Promise<T>
): Promise<T> {
  const settings = loadConfig(config, env)
  const clickhouse = connectClickhouse(settings.CLICKHOUSE_URL, COMMAND_TIMEOUT_MS)
  const bus = createKafkaBus({
    ...kafkaConnectionOf(settings),
    mac: createMessageMac(settings),
    clientId: 'ops.journal',
    onFatal: () => {},
  })
  const codec = createCodec(registrySource(settings.SCHEMA_REGISTRY_URL))
  const messageCodec = createMessageCodec({ codec, keys: { get: async () => undefined } })
  const producer = bus.producer('journal')
  try {
    return await work({
      copy: createJournalCopy(clickhouse, createRecordMac(settings)),
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

/** Formats the progress as a line. */
export function progressText ({ step, entries, tenants }: Progress): string {
  return `${step} ${counted(entries, 'movement')} of ${counted(tenants + 1, 'tenant')}`
}

/** Formats the result. */
export function restoredText ({ tenants, entries, forged }: Restored): string {
  const skipped = forged === 0 ? '' : ` Skipped ${count(forged)} rows with an invalid signature.`
  return `Restored ${counted(entries, 'movement')} of ${counted(tenants, 'tenant')}; all chains ` +
    `are complete.${skipped} Start lookup, settle and ledger, then: npm run ops -- audit --full`
}
