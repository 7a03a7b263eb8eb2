import { randomUUID } from 'node:crypto'
import {
  commonConfig, defineConfig, messageKeys, pick,
} from '../../../services/runtime/platform/config.ts'
import { connectDeps } from '../../../services/runtime/engine/connections.ts'
import { createTopics, withAdmin } from '../../../services/runtime/kafka/admin.ts'
import { toKafkaConnection } from '../../../services/runtime/kafka/connection.ts'
import { run } from '../../../services/runtime/platform/run.ts'

/**
 * A service that creates a topic, watches it, sends one message to it, reads it, and reports each
 * step; in a process of its own, as Node reads the authorities it trusts when it starts.
 */
export type MemberNews =
  | { readonly kind: 'made', readonly fault?: string }
  | { readonly kind: 'read', readonly text: string }

const report = (news: MemberNews) => { process.send?.(news) }

await run('secure', defineConfig(pick(commonConfig, messageKeys)), async (config, context) => {
  const topic = `secure-${randomUUID()}`
  const made = withAdmin(toKafkaConnection(config), admin =>
    createTopics(admin, [{ name: topic, partitions: 1, keepHours: 1, compact: false }], {}))
  const reported = made.then(
    () => report({ kind: 'made' }),
    (error: Error) => report({ kind: 'made', fault: error.message }))
  const { bus } = await connectDeps(config, context, ['bus'])
  bus.watchPartitions([topic])
  const consumption = await bus.consume({
    group: topic,
    topics: [topic],
    onAssigned: () => {},
    onDelivery: async ({ messages }) => {
      for (const { value } of messages) report({ kind: 'read', text: String(value) })
    },
  })
  // What cannot be sent is retried forever, and ends with the process.
  reported.then(() => bus.producer('secure').send(
    [{ topic, key: 'k', value: Buffer.from('hello'), headers: {} }])).catch(() => {})
  return { ready: consumption.ready }
})
