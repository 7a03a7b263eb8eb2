import Type from 'typebox'
import { createAccessCopy } from '../accounts/access-log/copy.ts'
import { accessMessage } from '../accounts/access-log/entry.ts'
import { createRecordMac } from '../runtime/crypto/mac.ts'
import { createMessageCodec } from '../jobs/message-codec.ts'
import { kafkaConnectionOf } from '../runtime/kafka/connection.ts'
import { createKafkaBus } from '../runtime/kafka/kafka-bus.ts'
import { createMessageMac } from '../runtime/kafka/message-mac.ts'
import { createCodec, registrySource } from '../runtime/kafka/registry.ts'
import { createJournalCopy } from '../money/journal-copy.ts'
import { COMMAND_TIMEOUT_MS, connectClickhouse } from '../runtime/platform/clickhouse.ts'
import { commonConfig, loadConfig, messageKeys, pick } from '../runtime/platform/config.ts'
import type { AccessRestoreDeps } from './access-restore.ts'
import type { CommandCall } from './command-line.ts'
import type { RestoreDeps } from './journal-restore.ts'

const config = Type.Object(pick(commonConfig, [
  ...messageKeys, 'SCHEMA_REGISTRY_URL', 'CLICKHOUSE_URL',
]))
const SEND_TIMEOUT_MS = 60_000

/** Runs work with the copies of the journal and the access log, and producers of their topics. */
export async function withJournal<T> (
  env: CommandCall<object>['env'], work: (
    journal: Pick<RestoreDeps, 'copy' | 'send'> &
      Pick<AccessRestoreDeps, 'accessCopy' | 'sendAccess'>,
  ) => Promise<T>
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
