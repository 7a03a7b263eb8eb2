import Type from 'typebox'
import { createWire } from '../../jobs/wire.ts'
import { connectClickhouse, PATIENT_MS } from '../../lib/clickhouse.ts'
import type { Environment } from '../../lib/command-environment.ts'
import { commonConfig, loadConfig, messageKeys, pick } from '../../lib/config.ts'
import { createKafkaBus } from '../../lib/kafka/bus.ts'
import { kafkaConnectionOf } from '../../lib/kafka/connection.ts'
import { createMessageMac } from '../../lib/message-mac.ts'
import { createRecordMac } from '../../lib/record-mac.ts'
import { createCodec, registrySource } from '../../lib/registry.ts'
import { createJournalCopy } from '../../records/journal-copy.ts'
import type { RestoreParts } from './restore.ts'

const config = Type.Object(pick(commonConfig, [
  ...messageKeys, 'SCHEMA_REGISTRY_URL', 'CLICKHOUSE_URL',
]))
const SEND_WITHIN_MS = 60_000

/** Connects to the copy of the journal and to its topic, for one piece of work. */
export async function withJournal<T> (
  env: Environment, work: (journal: Pick<RestoreParts, 'copy' | 'send'>) => Promise<T>
): Promise<T> {
  const settings = loadConfig(config, env)
  const clickhouse = connectClickhouse(settings.CLICKHOUSE_URL, PATIENT_MS)
  const bus = createKafkaBus({
    ...kafkaConnectionOf(settings),
    mac: createMessageMac(settings),
    clientId: 'ops.journal',
    onFatal: () => {},
  })
  const codec = createCodec(registrySource(settings.SCHEMA_REGISTRY_URL))
  const wire = createWire({ codec, keys: { get: async () => undefined } })
  const producer = bus.producer('journal')
  try {
    return await work({
      copy: createJournalCopy(clickhouse, createRecordMac(settings)),
      send: async entries => {
        const messages = await Promise.all(entries.map(value =>
          wire.close({ topic: 'wallet.journal', lane: 'small', value, rows: undefined })))
        await producer.send(messages, AbortSignal.timeout(SEND_WITHIN_MS))
      },
    })
  } finally {
    await bus.close()
    await clickhouse.close()
  }
}
