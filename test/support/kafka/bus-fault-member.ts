import { createKafkaBus } from '../../../services/runtime/kafka/kafka-bus.ts'
import type { MemberNews } from './bus-fault-environment.ts'

/**
 * A member of a group in a process that may be frozen: it reports its deliveries, works on them
 * until it receives the offset to commit, and reports whether the broker accepted it.
 */
const { brokers, group, topic } = JSON.parse(process.argv[2] ?? '{}')
const requested = Promise.withResolvers<number>()
process.once('message', offset => requested.resolve(offset as number))
const report = (news: MemberNews) => { process.send?.(news) }

const bus = createKafkaBus({
  brokers,
  clientId: 'bus-fault-member',
  onFatal: () => process.exit(1),
  settings: { sessionTimeoutMs: 6_000, heartbeatMs: 500, rebalanceTimeoutMs: 2_000 },
})
await bus.consume({
  group,
  topics: [topic],
  onAssigned: () => {},
  onDelivery: async ({ messages, signal, commit }) => {
    report({ kind: 'delivered', offsets: messages.map(({ offset }) => Number(offset)) })
    signal.addEventListener('abort', () => report({ kind: 'aborted' }))
    const offset = await requested.promise
    commit(BigInt(offset))
    // It is frozen for long: what it is handed afterwards is nothing to this case.
    await new Promise(() => {})
  },
})
