import type { Journal } from '../../schemas/types.ts'
import { LANES, type TopicName } from '../../services/topology.ts'
import { topicName } from '../../services/runtime/platform/topics.ts'
import type { RawMessage } from '../../services/runtime/kafka/bus.ts'
import type { Pipeline } from './pipeline.ts'

const SERVICE = 'phone-validation'
const ROW_TOPICS = [
  'rows.submitted', 'rows.normalized', 'rows.to-verify', 'rows.completed',
] as const satisfies readonly TopicName[]

/** The messages that were sent more than once: in a run without faults there are none. */
export async function findRepeats ({ bus, codec }: Pipeline): Promise<readonly string[]> {
  const seen = new Set<string>()
  const repeats: string[] = []
  const add = (identity: string) => {
    if (seen.has(identity)) repeats.push(identity)
    seen.add(identity)
  }
  for (const topic of ROW_TOPICS) {
    for (const lane of LANES) {
      for (const message of bus.messages(topicName(topic, { lane, service: SERVICE }))) {
        add(identify(message))
      }
    }
  }
  for (const { topic, key } of bus.messages('jobs.settled')) add(`${topic} ${String(key)}`)
  for (const { topic, value } of bus.messages('wallet.journal')) {
    const { tenant, seq } = await codec.decode('wallet.journal', value as Buffer) as Journal
    add(`${topic} ${tenant} ${seq}`)
  }
  return repeats
}

/** Headers name the rows of a message, of which no two messages of a topic have the same. */
function identify ({ topic, key, headers }: RawMessage): string {
  const named = Object.entries(headers).filter(([name]) => name !== 'mac').toSorted()
  return `${topic} ${String(key)} ${JSON.stringify(named)}`
}
